"""Writes a statement without the forms of the standard that DataFusion lacks or misreads.

    SELECT sum(n) OVER (w ORDER BY id) FROM t WHERE (a, b) < ($1, 2) WINDOW w AS (PARTITION BY k)
->  SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WHERE (a < $1 OR (a = $1 AND b < 2))
    WINDOW w AS (PARTITION BY k)

The text is written before its names are resolved, so that all other rewrites see what DataFusion will plan. A
text that has none of these forms stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from planner.sql.edits import Edit, apply_edits
from planner.sql.forms import FORMS as TREE_FORMS
from planner.sql.forms import write_forms, write_forms_of_expression
from planner.sql.rewrites.clauses import rewrite_like_escapes
from planner.sql.rules.tree import Rule
from planner.sql.standard.aggregates.counted_rows import count_distinct_rows
from planner.sql.standard.aggregates.opposite_orders import hide_falling_keys
from planner.sql.standard.aggregates.orders import move_aggregate_orders
from planner.sql.standard.merged_columns import merge_columns
from planner.sql.standard.orders.every_output import sort_by_every_output
from planner.sql.standard.orders.frames import leave_out_exclusions
from planner.sql.standard.orders.named_windows import expand_windows
from planner.sql.standard.orders.ties import keep_ties
from planner.sql.standard.repeated_keys import leave_out_repeated_keys
from planner.sql.standard.row_values import compare_fields, list_members
from planner.sql.standard.spellings.joins import HALVES, name_columns, name_sides
from planner.sql.tokens import SqlText, number_parameters, tokenize


@dataclass(frozen=True, slots=True)
class Form:
    """A form that is written in another way.

    Attributes:
        words: a text without any of these words does not have the form.
        edits: yields the edits of a text.
    """

    words: frozenset[str]
    edits: Callable[[SqlText], Iterator[Edit]]


FORMS: Final = (
    Form(frozenset({"ESCAPE"}), rewrite_like_escapes),
    Form(HALVES, name_sides),
    Form(frozenset({"FROM"}), name_columns),
    Form(frozenset({"DISTINCT"}), count_distinct_rows),
    Form(frozenset({"EXCLUDE"}), leave_out_exclusions),
    Form(frozenset({"ALL"}), sort_by_every_output),
    Form(frozenset({"WITHIN"}), move_aggregate_orders),
    Form(frozenset({"DESC"}), hide_falling_keys),
    Form(frozenset({"OVER"}), expand_windows),
    Form(frozenset({"GROUP"}), leave_out_repeated_keys),
    Form(frozenset({"TIES"}), keep_ties),
    Form(frozenset({"USING"}), merge_columns),
    Form(frozenset({"=", "<>", "!=", "<", "<=", ">", ">=", "IN", "BETWEEN"}), compare_fields),
    Form(frozenset({"VALUES"}), list_members),
)


def spell_out(text: SqlText, own: Sequence[Rule] = (), *, is_expression: bool = False) -> SqlText:
    """Return the statement, or the expression, without these forms; the same object if it has none.

    Args:
        text: of the statement.
        own: other forms over the tree, which are written first.
        is_expression: whether it is no statement.

    Raises:
        LanceGatewayError: one of them can't be written for DataFusion.
    """
    words = frozenset(text.words)
    for form in FORMS:
        if words.isdisjoint(form.words):
            continue
        edits = list(form.edits(text))
        if edits and "?" in words:
            # Edits copy parameters, which then must have numbers.
            text, words = _number(text), words - {"?"}
            edits = list(form.edits(text))
        if edits:
            text = tokenize(apply_edits(text.sql, edits))
    return write_forms_of_expression(text) if is_expression else write_forms(text, (*own, *TREE_FORMS))


def _number(text: SqlText) -> SqlText:
    slots, _ = number_parameters(text)
    edits = [Edit.replace(text.start(at), text.end(at), f"${ordinal + 1}") for at, ordinal in slots.items()]
    return tokenize(apply_edits(text.sql, edits))
