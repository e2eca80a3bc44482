"""The last written row of every key within one source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.keys import key_rows
from execnodes.node import ExecNode, TaskContext


@dataclass(frozen=True, eq=False)
class TakeLastExec(ExecNode):
    """Of several rows of one key, the one at the highest row address; tombstones count as rows.

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

    @property
    def schema(self) -> pa.Schema:
        """The input's schema."""
        return self.input.schema

    def children(self) -> tuple[ExecNode, ...]:
        """The input."""
        return (self.input,)

    def describe(self) -> str:
        """The key."""
        return f"TakeLastExec: key=[{', '.join(self.key_columns)}]"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """At most one batch."""
        batches = list(self.input.execute(partition, context))
        if not batches:
            return
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        if rows.num_rows > 1:
            last = {key: index for index, key in enumerate(key_rows(rows, self.key_columns))}
            if len(last) < rows.num_rows:
                rows = rows.take(pa.array(sorted(last.values()), pa.int64()))
        yield rows
