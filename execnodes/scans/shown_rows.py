"""Rows of scans that are shown: the newest of every key, and what a policy leaves of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext, UnionExec, coalesced
from execnodes.rows.lance_filter import RowFilter
from execnodes.rows.row_mask import RowMask
from execnodes.scans.scan_nodes import ScanExec


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


@dataclass(frozen=True, eq=False)
class DeduplicateExec(ExecNode):
    """Rows of a union of sources that no newer source supersedes and that are no tombstones.

    What is newest was decided once per immutable pair of sources, by key; here a row's address is all it
    takes, so a filter may run below this node without reviving an older version of a row. Each scan applies
    the mask of its own source, where rows still have their place.

    Args:
        input: union of scans.
        masks: one visibility mask per scan.
    """

    input: UnionExec
    masks: tuple[RowMask, ...]

    def __post_init__(self) -> None:
        if len(self.masks) != len(self.input.inputs):
            msg = f"{len(self.input.inputs)} sources need as many masks, not {len(self.masks)}"
            raise ValueError(msg)
        for node in self.input.inputs:
            if not isinstance(node, ScanExec):
                msg = f"DeduplicateExec masks the rows of scans, and this is none: {node.describe()}"
                raise TypeError(msg)

    @property
    def schema(self) -> pa.Schema:
        """The input's schema."""
        return self.input.schema

    def children(self) -> tuple[ExecNode, ...]:
        """The union."""
        return (self.input,)

    def describe(self) -> str:
        """How many rows the masks hide."""
        return f"DeduplicateExec: by visibility mask, hidden_rows={sum(m.hidden_rows for m in self.masks)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """The visible rows of one source after another."""
        for scan, mask in zip(self.input.inputs, self.masks, strict=True):
            assert isinstance(scan, ScanExec)  # noqa: S101 (the constructor has seen to it)
            for batch in scan.visible(mask, partition, context):
                if context.metrics is not None:
                    # Drained here, one mask each; what passes through is the union's output all the same.
                    context.metrics.add(self.input, rows=batch.num_rows, batches=1)
                yield batch
