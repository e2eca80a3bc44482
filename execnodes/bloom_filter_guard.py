"""Skip a source whose key filter rules the wanted keys out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext
from memwal.bloom import KeyFilter

_NOTHING: Iterator[pa.RecordBatch] = iter(())


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

    def execute(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """As of every node; unless somebody measures, a source without the keys costs but the question."""
        if context.metrics is None and self._rules_out(context):
            return _NOTHING
        return super().execute(partition, context)

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Nothing, or what the input has."""
        wanted = 0 if context.keys is None else len(context.keys)
        if self._rules_out(context):
            context.count(self, "keys_ruled_out", wanted)
            return
        context.count(self, "keys_possible", wanted)
        yield from self.input.execute(partition, context)

    def _rules_out(self, context: TaskContext) -> bool:
        keys = context.keys
        return keys is not None and not self.key_filter.might_contain_any(keys.lookup_keys)
