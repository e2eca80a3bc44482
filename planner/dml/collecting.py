"""Rows that a statement has to hold in memory until it is done."""

from __future__ import annotations

import pyarrow as pa

from planner.dml.target import Target
from planner.results import ResourcesExhaustedError

__all__ = ["MAX_COLLECTED_BYTES", "Collected", "collected"]

MAX_COLLECTED_BYTES = 512 << 20
"""Of rows and keys that one statement changes at once."""


class Collected:
    """What a statement wrote in parts.

    Args:
        target: table.
        wanted: whether the rows are returned; otherwise they are only counted.
    """

    def __init__(self, target: Target, *, wanted: bool) -> None:
        self.affected = 0
        self._target = target
        self._wanted = wanted
        self._rows: list[pa.Table] = []

    @property
    def rows(self) -> pa.Table:
        """All of them."""
        return pa.concat_tables([self._target.schema.empty_table(), *self._rows])

    def add(self, rows: pa.Table, affected: int) -> None:
        """One more part."""
        self.affected += affected
        if self._wanted:
            self._rows.append(rows)


def collected(batches: pa.RecordBatchReader, table: str) -> pa.Table:
    """All rows of a stream.

    Raises:
        ResourcesExhaustedError: they are too large to be changed at once.
    """
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > MAX_COLLECTED_BYTES:
            msg = (
                f"the statement changes more than {MAX_COLLECTED_BYTES >> 20} MiB of rows of table {table!r} "
                "at once, and nothing was written: run it in several pieces, such as ranges of the key"
            )
            raise ResourcesExhaustedError(msg)
    return pa.Table.from_batches(held, batches.schema)
