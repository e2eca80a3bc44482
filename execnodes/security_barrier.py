"""Nothing above sees a row that a policy hides, or a value that it masks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext, coalesced
from execnodes.rows.row_filter import RowFilter


class RowPolicy(Protocol):
    """What of some rows a principal may see."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The visible rows of a batch, with masked values in place of true ones."""


@dataclass(frozen=True, eq=False)
class SecurityBarrierExec(ExecNode):
    """Applies a policy to its input, then the part of a statement's filter that may see its outcome only.

    Args:
        input: rows in their newest version, with all columns that the policy reads.
        policy: says what is visible.
        output: fields to produce.
        row_filter: applied to visible rows and masked values, exactly; None keeps them all.
    """

    input: ExecNode
    policy: RowPolicy
    output: pa.Schema
    row_filter: RowFilter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The visible columns that are asked for."""
        return self.output

    def children(self) -> tuple[ExecNode, ...]:
        """The rows as they are stored."""
        return (self.input,)

    def describe(self) -> str:
        """That a policy applies, and nothing of what it says."""
        return f"SecurityBarrierExec: columns=[{', '.join(self.output.names)}]"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """What is visible of one partition. Every evaluation has its price: batches are made large first."""
        for batch in coalesced(self.input.execute(partition, context)):
            visible = self.policy.apply(batch)
            if self.row_filter is not None and visible.num_rows:
                visible = visible.filter(self.row_filter.matches(visible))
            if visible.num_rows:
                yield visible.select(self.output.names)
