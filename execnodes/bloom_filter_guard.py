"""Skip a source whose key filter rules the wanted keys out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext
from memwal.bloom import KeyFilter


@dataclass(frozen=True, eq=False)
class BloomFilterGuardExec(ExecNode):
    """Its input, unless none of the wanted keys can be there; asked before any I/O.

    Args:
        input: a lookup in one source.
        key_filter: over all keys of that source, tombstones included.
    """

    input: ExecNode
    key_filter: KeyFilter

    @property
    def schema(self) -> pa.Schema:
        """The input's schema."""
        return self.input.schema

    def children(self) -> tuple[ExecNode, ...]:
        """The input."""
        return (self.input,)

    def describe(self) -> str:
        """The filter."""
        return f"BloomFilterGuardExec: {self.key_filter.description}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Nothing, or what the input has."""
        keys = context.keys
        if keys is not None and not any(map(self.key_filter.might_contain, keys.lookup_keys)):
            context.count(self, "keys_ruled_out", len(keys))
            return
        context.count(self, "keys_possible", 0 if keys is None else len(keys))
        yield from self.input.execute(partition, context)
