"""The first candidates of every query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes.node import ExecNode, TaskContext
from execnodes.search.candidates import gathered
from execnodes.search.source import QUERY_INDEX


@dataclass(frozen=True, eq=False)
class LimitExec(ExecNode):
    """At most k candidates for every query.

    Args:
        input: candidates, those of one query together.
        k: how many.
    """

    input: ExecNode
    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k={self.k} is no number of rows to keep: give 1 or more")

    @property
    def schema(self) -> pa.Schema:
        """The input's schema."""
        return self.input.schema

    def children(self) -> tuple[ExecNode, ...]:
        """The input."""
        return (self.input,)

    def describe(self) -> str:
        """How many."""
        return f"LimitExec: k={self.k}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """One batch with the first rows of every query."""
        rows = gathered(self.input.execute(partition, context), self.schema)
        if rows.num_rows <= self.k:
            if rows.num_rows:
                yield rows
            return
        queries = rows.column(QUERY_INDEX).to_numpy()
        starts = np.flatnonzero(np.diff(queries, prepend=queries[0] - 1))
        counts = np.diff(starts, append=len(queries))
        places = np.arange(len(queries)) - np.repeat(starts, counts)
        yield rows.filter(pa.array(places < self.k)) if len(starts) > 1 else rows.slice(0, self.k)
