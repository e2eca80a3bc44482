"""Find the nearest rows of one source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from execnodes.node import ExecNode, TaskContext
from execnodes.rows.row_filter import RowFilter
from execnodes.search.request import VectorRequest
from execnodes.search.rows.live_rows import hidden_rows, physical_rows
from execnodes.search.rows.vector_blocks import Keep
from execnodes.search.source import VECTOR_CANDIDATES, SearchSource
from execnodes.search.vectors.flat_search import FEW_ROWS, flat_search
from execnodes.search.vectors.index_search import IndexSearch
from execnodes.search.vectors.narrowing import narrowed
from execnodes.search.vectors.nearest import Found
from execnodes.search.vectors.ranked_search import ranked_search

WORTH_ASKING = 20
"""For fewer rows than so many times those that an index must name, the distances of all are computed."""


@dataclass(frozen=True, eq=False)
class KnnExec(ExecNode):
    """The k nearest live rows of one source for every query, with their true distances; nearest first.

    It never gives fewer rows than there are: where an index finds fewer than k, all rows of the source are
    looked at.

    Args:
        source: what is searched.
        request: what for.
        metric: one of `distances.METRICS`.
        keep: holds vectors.
        row_filter: what rows must fulfil to be ranked.
        index: how the source's index is used; None where distances to all rows are computed.
        k: rows wanted for each query, where it isn't the request's number.
    """

    source: SearchSource
    request: VectorRequest
    metric: str
    keep: Keep
    row_filter: RowFilter | None = None
    index: IndexSearch | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if self.index is not None and self.source.index is None:
            raise ValueError(f"{self.source.label} has no index that could be used")

    @property
    def schema(self) -> pa.Schema:
        """`VECTOR_CANDIDATES`."""
        return VECTOR_CANDIDATES

    @property
    def wanted(self) -> int:
        """Rows wanted for each query."""
        return self.request.k if self.k is None else self.k

    def children(self) -> tuple[ExecNode, ...]:
        """None: a leaf."""
        return ()

    def describe(self) -> str:
        """Source, how it is searched, and what is kept out."""
        parts = [self.source.label]
        if self.index is None:
            parts += [f"fragments={len(self.source.fragments)}", "flat", self.metric]
        else:
            parts.append(self.index.describe(self.metric))
        if self.row_filter is not None:
            parts.append(f"filter={self.row_filter}")
        blocked = hidden_rows(self.source)
        return f"KnnExec: {', '.join(parts)}, blocked={blocked}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """One batch, or none where there is nothing to find."""
        if partition:
            return
        found = self.find(self.request.vectors, self.wanted, context)
        if sum(len(addresses) for _, addresses in found):
            yield candidates(self.source.number, found)

    def find(self, queries: np.ndarray, k: int, context: TaskContext) -> list[Found]:
        """The nearest rows of each query: distances and addresses, nearest first."""
        source, column = self._searched, self.request.column
        if self.index is None or not self._is_worth_asking(self.index, k):
            return flat_search(source, column, queries, k, self.metric, self.keep, context)
        found = ranked_search(source, self.index, column, queries, k, self.metric, self.keep, context)
        short = [number for number, (_, addresses) in enumerate(found) if len(addresses) < k]
        if short:
            context.count(self, "flat_searches", len(short))
            again = flat_search(source, column, queries[short], k, self.metric, self.keep, context)
            for number, result in zip(short, again, strict=True):
                found[number] = result
        return found

    @cached_property
    def _searched(self) -> SearchSource:
        """The source, without rows that don't fulfil the condition."""
        return self.source if self.row_filter is None else narrowed(self.source, self.row_filter)

    def _is_worth_asking(self, index: IndexSearch, k: int) -> bool:
        """Whether there are so many live rows that to look at all of them costs more than to ask an index."""
        live = physical_rows(self._searched) - hidden_rows(self._searched)
        return live > max(FEW_ROWS, WORTH_ASKING * k * (index.refine_factor or 1))


def candidates(source: int, found: list[Found]) -> pa.RecordBatch:
    """What was found in a source, as `VECTOR_CANDIDATES`."""
    counts = [len(addresses) for _, addresses in found]
    queries = np.repeat(np.arange(len(found), dtype=np.int32), counts)
    distances = np.concatenate([distances for distances, _ in found])
    addresses = np.concatenate([addresses for _, addresses in found])
    sources = np.full(len(queries), source, dtype=np.int32)
    arrays = [pa.array(one) for one in (queries, sources, addresses, distances)]
    return pa.RecordBatch.from_arrays(arrays, schema=VECTOR_CANDIDATES)
