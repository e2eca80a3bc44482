"""Order candidates by how well they match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from execnodes.search.source import QUERY_INDEX, SOURCE


def gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """All rows of the batches; no batch gives no rows."""
    parts = list(batches)
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


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
