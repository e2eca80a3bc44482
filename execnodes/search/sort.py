"""Order candidates by how well they match."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from execnodes.search.candidates import gathered
from execnodes.search.source import QUERY_INDEX, SOURCE


@dataclass(frozen=True, eq=False)
class SortExec(ExecNode):
    """Candidates query by query, best first; equal ones by source, then by row address.

    Args:
        input: candidates.
        column: that says how well a candidate matches.
        descending: whether more is better.
    """

    input: ExecNode
    column: str
    descending: bool = False

    def __post_init__(self) -> None:
        if self.column not in self.input.schema.names:
            msg = f"candidates can't be sorted by {self.column!r}; they have {self.input.schema.names}"
            raise ValueError(msg)

    @property
    def schema(self) -> pa.Schema:
        """The input's schema."""
        return self.input.schema

    def children(self) -> tuple[ExecNode, ...]:
        """The input."""
        return (self.input,)

    def describe(self) -> str:
        """Column and direction."""
        return f"SortExec: {self.column} {'DESC' if self.descending else 'ASC'}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """One batch with all rows."""
        rows = gathered(self.input.execute(partition, context), self.schema)
        if not rows.num_rows:
            return
        quality = rows.column(self.column).to_numpy(zero_copy_only=False)
        keys = [rows.column(name).to_numpy() for name in (ROW_ADDRESS, SOURCE)]
        order = np.lexsort(
            (*keys, -quality if self.descending else quality, rows.column(QUERY_INDEX).to_numpy())
        )
        yield rows.take(pa.array(order))
