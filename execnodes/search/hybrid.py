"""One ranking of the candidates of a vector search and of a text search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from execnodes.search.request import Fusion, HybridRequest
from execnodes.search.source import DISTANCE, HYBRID_CANDIDATES, QUERY_INDEX, SCORE, SOURCE

_PLACE = np.dtype([("query", np.int32), ("source", np.int32), ("address", np.uint64)])


@dataclass(frozen=True, eq=False)
class HybridExec(ExecNode):
    """The k best rows of each query by what both branches say of them, best first.

    A row that one branch did not find has NULL for that branch's number and gets no points from it. Ties are
    decided by the number of the branch that weighs more, then by the other one, then by the row's place.

    Args:
        vector: `VECTOR_CANDIDATES`, nearest first within a query.
        text: `TEXT_CANDIDATES`, best first; of one query, which counts for every vector.
        request: how they are fused.
        queries: how many query vectors there are.
        vector_sources: number of a source in the vector branch -> number in the result.
        text_sources: the same for the text branch; equal numbers in the result are the same rows.
        executor: runs one branch while this thread runs the other; None runs one after the other.
    """

    vector: ExecNode
    text: ExecNode
    request: HybridRequest
    queries: int
    vector_sources: Mapping[int, int]
    text_sources: Mapping[int, int]
    executor: Executor | None = None

    @property
    def schema(self) -> pa.Schema:
        """`HYBRID_CANDIDATES`."""
        return HYBRID_CANDIDATES

    def children(self) -> tuple[ExecNode, ...]:
        """The vector branch, then the text branch."""
        return (self.vector, self.text)

    def describe(self) -> str:
        """How they are fused."""
        request = self.request
        how = f"alpha={request.alpha:g}" if request.fusion is Fusion.WEIGHTED else f"rrf_k={request.rrf_k:g}"
        return f"HybridExec: {request.fusion.value}, {how}, fetch={request.k}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """One batch, which may be empty."""

        def candidates(branch: ExecNode) -> pa.Table:
            return pa.Table.from_batches(branch.execute(partition, context), schema=branch.schema)

        if self.executor is None:
            texts = candidates(self.text)
            vectors = candidates(self.vector)
        else:
            running = self.executor.submit(candidates, self.text)
            vectors = candidates(self.vector)
            texts = running.result()
        context.check()
        fused = self._fused(vectors, texts)
        context.count(self, "both_branches", int(fused.column(DISTANCE).is_valid().sum().as_py() or 0))
        yield fused
