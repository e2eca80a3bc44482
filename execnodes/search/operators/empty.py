"""No rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext


@dataclass(frozen=True, eq=False)
class EmptyExec(ExecNode):
    """A leaf without rows: what there is to search where nothing is.

    Args:
        columns: its schema.
    """

    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """As given."""
        return self.columns

    def children(self) -> tuple[ExecNode, ...]:
        """None: a leaf."""
        return ()

    def describe(self) -> str:
        """Nothing more than its name."""
        return "EmptyExec"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """None."""
        return iter(())
