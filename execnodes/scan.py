"""What a leaf that reads rows can do beyond other nodes: show only what a mask shows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext, measured
from execnodes.row_filter import RowFilter
from execnodes.row_mask import EVERYTHING_VISIBLE, RowMask


class ScanExec(ExecNode):
    """A leaf that reads the rows of one source."""

    columns: tuple[str, ...]
    row_filter: RowFilter | None
    by_key: bool

    def description(self, label: str, size: str) -> str:
        """The node's line for EXPLAIN: source, projection, what selects rows, and how much there is."""
        parts = [label, f"columns=[{', '.join(self.columns)}]"]
        if self.row_filter is not None:
            parts.append(f"filter={self.row_filter}")
        if self.by_key:
            parts.append("by key")
        return f"{type(self).__name__}: {', '.join([*parts, size])}"

    @abstractmethod
    def rows(self, mask: RowMask, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Rows that the mask shows and the filter passes."""

    def children(self) -> tuple[ExecNode, ...]:
        """None: a leaf."""
        return ()

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """All rows that the filter passes."""
        return self.rows(EVERYTHING_VISIBLE, partition, context)

    def visible(self, mask: RowMask, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """As `execute`, for the rows that the mask shows."""
        produced = self.rows(mask, partition, context)
        return produced if context.metrics is None else measured(self, produced, context.metrics)
