"""Plans texts with corrections, with the names of results that clients expect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from lance_gateway.planner.binding.bound_statement import StatementKind
from lance_gateway.planner.sql.text.tokens import quote

# DataFusion expands * in the square of the number of columns: 2,000 take it a third of a second.
_WHOLE_TABLE = re.compile(r'SELECT \* FROM (?P<table>"(?:[^"]|"")+") AS (?P<alias>"(?:[^"]|"")+")')


def plan_text(
    context: SessionContext,
    kind: StatementKind,
    text: str,
    written: str,
    values: Mapping[str, pa.Scalar],
) -> DataFrame:
    """Plan a statement, and name its columns after the text as it was written.

    Args:
        context: with its tables.
        kind: of the statement.
        text: of the statement for DataFusion, with corrections.
        written: the same without corrections.
        values: of placeholders in the text.
    """

    def plan(sql: str) -> DataFrame:
        whole = _WHOLE_TABLE.fullmatch(sql)
        if whole is not None:
            return context.table(whole["table"]).alias(whole["alias"])
        return context.sql(sql, param_values=dict(values) or None)

    frame = plan(text)
    if text == written:
        return frame
    names = frame.schema().names
    if kind is StatementKind.QUERY and not all(map(str.isidentifier, names)):  # rules keep words
        old_names = names
        with suppress(Exception):  # What was written may have types that only the correction brings together.
            names = plan(written).schema().names
        for old, new in zip(old_names, names, strict=True):
            if old != new:
                frame = frame.with_column_renamed(quote(old), new)
    return frame
