"""Writes SQL expressions over the columns of one row as DataFusion reads them the way they are meant.

    (a, b) IN ((1, 2), (3, NULL))  ->  (a = 1 AND b = 2 OR a = 3 AND b = NULL)

Such expressions stand in constraints, defaults and access policies, and are never part of a statement.
"""

from __future__ import annotations

import pyarrow as pa

from memwal.errors import UnsupportedError
from planner.sql.edits import apply_edits
from planner.sql.limits import check_depth, check_literal_sizes
from planner.sql.rewrites.computed_lists import compute_lists_by_row
from planner.sql.rewrites.separate_lists import separate_lists
from planner.sql.standard.instants.late_bins import bin_late_instants
from planner.sql.standard.instants.late_comparisons import compare_late_dates
from planner.sql.standard.instants.late_truncations import truncate_late_instants
from planner.sql.standard.instants.late_years import compare_late_years
from planner.sql.standard.spell_out import spell_out
from planner.sql.standard.spellings.calls import find_calls
from planner.sql.standard.spellings.json_values import SPELLED, TYPED
from planner.sql.tokens import tokenize


def mend_expression(expression: str, schema: pa.Schema, *, reads_json: bool = False) -> str:
    """Return an expression that DataFusion reads as it is meant.

    Args:
        expression: in SQL.
        schema: the columns that it may name.
        reads_json: whether it may read and change JSON.

    Raises:
        LanceGatewayError: it has a clause that DataFusion misreads; it is too deep, or makes too large a
            value; or it can't be tokenized.
    """
    text = tokenize(expression)
    check_depth(text)
    check_literal_sizes(text)
    text = spell_out(text, is_expression=True)
    for call in find_calls(text, TYPED if reads_json else SPELLED):
        what = "make JSON of values" if reads_json else "read and make JSON"
        where = "access policies" if reads_json else "constraints and defaults"
        msg = (
            f"{call.name}: functions that {what} stand in statements and views, and not in {where}: "
            "keep what these need in a column"
        )
        raise UnsupportedError(msg)

    def find_instants() -> dict[str, pa.DataType]:
        return {field.name: field.type for field in schema if pa.types.is_timestamp(field.type)}

    edits = [
        *separate_lists(text),
        *compute_lists_by_row(text),
        *compare_late_dates(text, find_instants),
        *truncate_late_instants(text, find_instants),
        *bin_late_instants(text, find_instants),
        *compare_late_years(text, find_instants),
    ]
    return apply_edits(text.sql, edits)
