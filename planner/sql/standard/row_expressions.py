"""Writes SQL expressions over the columns of one row as DataFusion reads them the way they are meant.

    (a, b) IN ((1, 2), (3, NULL))  ->  (a = 1 AND b = 2 OR a = 3 AND b = NULL)

Such expressions stand in constraints, defaults and access policies, and are never part of a statement.
"""

from __future__ import annotations

from planner.sql.limits import check_depth, check_literal_sizes
from planner.sql.rewrites.computed_lists import compute_lists_by_row
from planner.sql.rewrites.misread_clauses import refuse_misread
from planner.sql.rewrites.separate_lists import separate_lists
from planner.sql.standard.spell_out import spell_out
from planner.sql.tokens import apply_edits, tokenize


def mend_expression(expression: str) -> str:
    """Return an expression that DataFusion reads as it is meant.

    Raises:
        LanceGatewayError: it has a clause that DataFusion misreads; it is too deep, or makes too large a
            value; or it can't be tokenized.
    """
    text = tokenize(expression)
    refuse_misread(text)
    check_depth(text)
    check_literal_sizes(text)
    text = spell_out(text)
    return apply_edits(text.sql, [*separate_lists(text), *compute_lists_by_row(text)])
