"""Whether others have changed what a transaction has read or written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from lance_gateway.memwal.errors import ConflictError, NotFoundError
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.writes.dml.statement.target import Target


def find_newest(target: Target) -> BaseTable:
    """Return the newest version of a table.

    Raises:
        ConflictError: it was dropped.
        LanceGatewayError: it can't be read.
    """
    try:
        return target.table.base()
    except NotFoundError as error:
        msg = (
            f"table {target.name!r} was dropped since the transaction wrote to it, and nothing of the "
            "transaction was written: begin it again"
        )
        raise ConflictError(msg) from error


def check_same(name: str, written: BaseTable, newest: BaseTable) -> None:
    """Check that two versions are of one table with the same columns.

    Raises:
        ConflictError: they are not.
    """
    if written.place != newest.place or not written.schema.equals(newest.schema):
        msg = (
            f"table {name!r} was altered or recreated since the transaction used it first, and nothing of "
            "the transaction was written: begin it again"
        )
        raise ConflictError(msg)


def find_difference(before: pa.Table, now: pa.Table, key: Sequence[str]) -> pa.Table | None:
    """Return the key of a row that differs, as a table of one row; None if all rows are the same."""
    ordering = [(name, "ascending") for name in key]
    columns = list(key)
    before, now = before.sort_by(ordering), now.sort_by(ordering)
    if before.equals(now):
        return None
    known = {repr(row[1]): row[0] for row in _number(before, columns)}
    for place, row in _number(now, columns):
        other = known.pop(repr(row), None)
        # Compared as text, in which NaN equals NaN.
        if other is None or repr(before.slice(other, 1).to_pylist()) != repr(now.slice(place, 1).to_pylist()):
            return now.slice(place, 1).select(columns)
    return before.slice(next(iter(known.values())), 1).select(columns) if known else None


def _number(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[int, Mapping[str, object]]]:
    yield from enumerate(rows.select(list(columns)).to_pylist())
