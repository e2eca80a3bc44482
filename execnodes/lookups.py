"""Operators of point lookups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.node import ExecNode, TaskContext, UnaryExec
from lance_gateway.execnodes.rows.keys import Key, KeySet, list_key_tuples
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.memwal.bloom import KeyFilter
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE

_NOTHING: Iterator[pa.RecordBatch] = iter(())


@dataclass(frozen=True, eq=False)
class BloomFilterGuardExec(UnaryExec):
    """Skips its input, before any I/O, if the key filter excludes all wanted keys.

    Args:
        input: a lookup in one source.
        key_filter: over all keys of that source, tombstones included.
    """

    input: ExecNode
    key_filter: KeyFilter

    def describe(self) -> str:
        """Return the key filter."""
        return f"BloomFilterGuardExec: {self.key_filter.description}"

    def execute(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Execute the node; without metrics, an excluded source costs only the check of its filter."""
        if context.metrics is None and self._is_ruled_out(context):
            return _NOTHING
        return super().execute(partition, context)

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the input's batches, or none."""
        wanted = 0 if context.keys is None else len(context.keys)
        if self._is_ruled_out(context):
            context.count(self, "keys_ruled_out", wanted)
            return
        context.count(self, "keys_possible", wanted)
        yield from self.input.execute(partition, context)

    def _is_ruled_out(self, context: TaskContext) -> bool:
        keys = context.keys
        return keys is not None and not self.key_filter.might_contain_any(keys.lookup_keys)


@dataclass(frozen=True, eq=False)
class TakeLastExec(UnaryExec):
    """Keeps the row of each key with the highest row address; tombstones count as rows.

    Meant for lookups, whose input is a handful of rows.

    Args:
        input: rows of one source, in ascending order of row address.
        key_columns: the primary key.
    """

    input: ExecNode
    key_columns: tuple[str, ...]

    def __post_init__(self) -> None:
        missing = [name for name in self.key_columns if name not in self.input.schema.names]
        if missing or not self.key_columns:
            names = self.input.schema.names
            msg = f"TakeLastExec needs its key columns {self.key_columns} in its input {names}"
            raise ValueError(msg)

    def describe(self) -> str:
        """Return the key columns."""
        return f"TakeLastExec: key=[{', '.join(self.key_columns)}]"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce at most one batch."""
        batches = list(self.input.execute(partition, context))
        if not batches:
            return
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        if rows.num_rows > 1:
            last = {key: index for index, key in enumerate(list_key_tuples(rows, self.key_columns))}
            if len(last) < rows.num_rows:
                rows = rows.take(pa.array(sorted(last.values()), pa.int64()))
        yield rows


@dataclass(frozen=True, eq=False)
class CoalesceFirstExec(ExecNode):
    """Looks up keys in its inputs, newest first, until every key is found.

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
        """Return the inputs, newest first."""
        return self.inputs

    def describe(self) -> str:
        """Return the number of keys and the filter."""
        first_keys = ", ".join(str(row[0] if len(row) == 1 else row) for row in self.keys.rows[:3])
        more = f", .. {len(self.keys)} keys" if len(self.keys) > 3 else ""
        condition = "" if self.row_filter is None else f", filter={self.row_filter}"
        return f"CoalesceFirstExec: ({', '.join(self.keys.columns)}) = {first_keys}{more}{condition}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the rows of the keys; only partition 0 has rows."""
        wanted = self.keys
        if partition != 0 or not wanted.table.num_rows:
            return
        looking = replace(context, keys=wanted)
        for node in self.inputs:
            found: set[Key] = set()
            for batch in node.execute(partition, looking):
                found.update(list_key_tuples(batch, wanted.columns))
                live = self._select_live(batch)
                if live.num_rows:
                    yield live
            if not found:
                continue
            if len(found) == wanted.table.num_rows:
                return
            wanted = wanted.without(found)
            looking = replace(context, keys=wanted)

    def _select_live(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        index = batch.schema.get_field_index(TOMBSTONE)
        if index >= 0 and (dead := batch.column(index)).true_count:
            batch = batch.filter(_invert(dead))
        if self.row_filter is not None and batch.num_rows:
            batch = batch.filter(self.row_filter.matches(batch))
        columns = list(self.columns)
        return batch if batch.schema.names == columns else batch.select(columns)


def _invert(flags: pa.BooleanArray) -> pa.BooleanArray:
    return pc.invert(flags)
