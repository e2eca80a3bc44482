"""Keep the newest version of every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from execnodes.lance_scan import LanceScanExec
from execnodes.node import ROW_ADDRESS, ExecNode, TaskContext, rows_without_columns
from execnodes.row_mask import RowMask
from execnodes.union import UnionExec


@dataclass(frozen=True, eq=False)
class DeduplicateExec(ExecNode):
    """Rows of a union of sources that no newer source supersedes and that are no tombstones.

    What is newest was decided once per immutable pair of sources, by key; here a row address is all it takes,
    so a filter may run below this node without reviving an older version of a row.

    Args:
        input: union of scans; a scan whose mask hides rows carries `_rowaddr` as its last column.
        masks: one visibility mask per scan.
    """

    input: UnionExec
    masks: tuple[RowMask, ...]

    def __post_init__(self) -> None:
        if len(self.masks) != len(self.input.inputs):
            msg = f"{len(self.input.inputs)} sources need as many masks, not {len(self.masks)}"
            raise ValueError(msg)
        if self.input.schema.names[-1:] != [ROW_ADDRESS]:
            names = self.input.schema.names
            msg = f"DeduplicateExec needs {ROW_ADDRESS} as its input's last column, not {names}"
            raise ValueError(msg)

    @property
    def schema(self) -> pa.Schema:
        """The input's schema without the row address."""
        return self.input.schema.remove(len(self.input.schema) - 1)

    def children(self) -> tuple[ExecNode, ...]:
        """The union."""
        return (self.input,)

    def describe(self) -> str:
        """How many rows the masks hide."""
        return f"DeduplicateExec: by visibility mask, hidden_rows={sum(m.hidden_rows for m in self.masks)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Mask every batch by the row addresses it carries."""
        for scan, mask in zip(self.input.inputs, self.masks, strict=True):
            yield from self._input_batches(scan, mask, partition, context)

    def _input_batches(
        self, scan: ExecNode, mask: RowMask, partition: int, context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        names = self.schema.names
        if not names and (count := _count(scan, mask, partition)) is not None:
            if count:
                yield rows_without_columns(count)
            return
        for batch in scan.execute(partition, context):
            if context.metrics is not None:
                # Its inputs are drained here, one mask each; what passes through is the union's output.
                context.metrics.add(self.input, rows=batch.num_rows, batches=1)
            visible = mask.keep(batch, batch.column(len(names)))
            if visible.num_rows:
                yield visible.select(names)


def _count(scan: ExecNode, mask: RowMask, partition: int) -> int | None:
    """Visible rows from metadata alone, where the mask and Lance's deletions can't overlap."""
    if not isinstance(scan, LanceScanExec) or scan.row_filter is not None:
        return None
    total = scan.count(partition)
    for fragment_id in scan.fragment_groups[partition]:
        fragment_mask = mask.fragments.get(fragment_id)
        if fragment_mask is None:
            continue
        if scan.source.dataset.get_fragment(fragment_id).num_deletions:  # type: ignore[attr-defined]
            return None
        total -= fragment_mask.hidden_rows
    return total
