"""The first source that knows a key answers for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from execnodes.keys import Key, KeySet, key_rows
from execnodes.node import ExecNode, TaskContext
from execnodes.row_filter import RowFilter
from memwal.stored_fields import TOMBSTONE


@dataclass(frozen=True, eq=False)
class CoalesceFirstExec(ExecNode):
    """Point lookup: asks its inputs in turn and stops once every key has been found.

    A tombstone is a hit: it ends the search for its key and produces no row.

    Args:
        inputs: lookups, newest source first, base table last; each has at most one row per key.
        keys: the wanted keys.
        columns: columns to produce, of those the inputs have.
        row_filter: applied to the found rows, the newest versions, exactly.
    """

    inputs: tuple[ExecNode, ...]
    keys: KeySet
    columns: tuple[str, ...]
    row_filter: RowFilter | None = None

    def __post_init__(self) -> None:
        if not self.inputs:
            msg = "CoalesceFirstExec needs at least one input"
            raise ValueError(msg)

    @property
    def schema(self) -> pa.Schema:
        """The projected columns."""
        return pa.schema([self.inputs[0].schema.field(name) for name in self.columns])

    def children(self) -> tuple[ExecNode, ...]:
        """The inputs, newest first."""
        return self.inputs

    def describe(self) -> str:
        """The keys, and what is kept of their rows."""
        shown = ", ".join(str(row[0] if len(row) == 1 else row) for row in self.keys.rows[:3])
        more = f", .. {len(self.keys)} keys" if len(self.keys) > 3 else ""
        condition = "" if self.row_filter is None else f", filter={self.row_filter}"
        return f"CoalesceFirstExec: ({', '.join(self.keys.columns)}) = {shown}{more}{condition}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Newest first; only partition 0 has rows."""
        if partition != 0 or not len(self.keys):
            return
        wanted = self.keys
        looking = replace(context, keys=wanted)
        for node in self.inputs:
            found: set[Key] = set()
            for batch in node.execute(partition, looking):
                found.update(key_rows(batch, wanted.columns))
                live = self._live(batch)
                if live.num_rows:
                    yield live
            if not found:
                continue
            if len(found) == len(wanted):
                return
            wanted = wanted.without(found)
            looking = replace(context, keys=wanted)

    def _live(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The wanted columns of rows that are no tombstones."""
        index = batch.schema.get_field_index(TOMBSTONE)
        if index >= 0 and (dead := batch.column(index)).true_count:
            batch = batch.filter(_invert(dead))
        if self.row_filter is not None and batch.num_rows:
            batch = batch.filter(self.row_filter.matches(batch))
        columns = list(self.columns)
        return batch if batch.schema.names == columns else batch.select(columns)


def _invert(flags: pa.BooleanArray) -> pa.BooleanArray:
    return pc.invert(flags)
