"""Plans the text of a statement with its corrections, and gives columns the names of the original text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from planner.binding.bound_statement import BoundStatement, StatementKind
from planner.plans.checks.unordered_extremes import EXTREMES_OF_GROUPS, has_unordered_extremes
from planner.sql.rewrites.extremes import ordered_extremes
from planner.sql.rewrites.separate_lists import apply_separate_lists
from planner.sql.tokens import quote

__all__ = ["plan_text"]


def plan_text(
    context: SessionContext,
    bound: BoundStatement,
    parameters: Sequence[pa.Scalar] | None,
    text: str,
    values: Mapping[str, pa.Scalar],
    nulls: Collection[str],
) -> DataFrame:
    """Plan a statement, and name its columns after the text as it was written.

    Args:
        context: with its tables.
        bound: the statement.
        parameters: their values; None leaves placeholders in place.
        text: of the statement for DataFusion.
        values: of placeholders in the text.
        nulls: names of those that are NULL, without "$".
    """

    def plan(sql: str) -> DataFrame:
        return context.sql(
            apply_separate_lists(sql, nulls) if nulls else sql, param_values=dict(values) or None
        )

    text_as_written = text
    if bound.is_mended:
        written = bound.as_written
        text_as_written = written.render() if parameters is None else written.with_values(parameters)[0]
    frame = plan(text) if text == text_as_written else _plan_either(plan, text, text_as_written)
    may_be_wrong = parameters is not None and EXTREMES_OF_GROUPS.search(text) is not None
    if may_be_wrong and has_unordered_extremes(frame.logical_plan()):
        frame = _plan_either(plan, ordered_extremes(text), ordered_extremes(text_as_written))
    elif not bound.is_mended:
        return frame
    if bound.kind is StatementKind.QUERY:
        names = plan(text_as_written).schema().names
        for old, new in zip(frame.schema().names, names, strict=True):
            if old != new:
                frame = frame.with_column_renamed(quote(old), new)
    return frame


def _plan_either(plan: Callable[[str], DataFrame], mended: str, written: str) -> DataFrame:
    """Plan the corrected text, or, if types don't fit it, the text as it was written."""
    try:
        frame = plan(mended)
        frame.optimized_logical_plan()  # raises if types don't fit
    except Exception as error:  # noqa: BLE001 - the text as it was written may succeed
        try:
            return plan(written)
        except Exception:  # noqa: BLE001 - the first error has the place
            raise error from None
    return frame
