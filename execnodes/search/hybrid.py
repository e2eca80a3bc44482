"""Fuse the candidates of a vector search and of a text search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, ExecNode, TaskContext
from lance_gateway.execnodes.search.candidates import concat_batches, run_concurrently
from lance_gateway.execnodes.search.source import (
    DISTANCE,
    HYBRID_CANDIDATES,
    QUERY_INDEX,
    SCORE,
    SOURCE,
    Fusion,
    HybridRequest,
)

_SAME = float(np.finfo(np.float32).eps)
"""Numbers no further apart than this (numbers above 1: in proportion) are equal but for rounding."""
_ROUNDINGS = 4
_MIDDLE = 0.5
"""What they all scale to."""


@dataclass(frozen=True, eq=False)
class HybridExec(ExecNode):
    """Fuses the candidates of a vector and a text ranking, by query, best first.

    A row that one branch did not find has NULL for that branch's number, and no points from it. Ties are
    decided by the number of the branch that weighs more, then by the other one, then by the row's place.

    Args:
        vector: `VECTOR_CANDIDATES`, nearest first within a query.
        text: `TEXT_CANDIDATES` of one query, best first; they count for every vector.
        request: how they are fused.
        queries: how many query vectors there are.
        vector_sources: number of a source in the vector branch -> number in the result.
        text_sources: the same for the text branch; equal numbers in the result mean the same rows.
    """

    vector: ExecNode
    text: ExecNode
    request: HybridRequest
    queries: int
    vector_sources: Mapping[int, int]
    text_sources: Mapping[int, int]

    def __post_init__(self) -> None:
        for branch, column in ((self.vector, DISTANCE), (self.text, SCORE)):
            if column not in branch.schema.names:
                msg = f"HybridExec needs {column} of {branch.describe()}, which gives {branch.schema.names}"
                raise ValueError(msg)

    @property
    def schema(self) -> pa.Schema:
        """`HYBRID_CANDIDATES`."""
        return HYBRID_CANDIDATES

    def children(self) -> tuple[ExecNode, ...]:
        """Return the vector branch, then the text branch."""
        return (self.vector, self.text)

    def describe(self) -> str:
        """Return the fusion and its parameters."""
        request = self.request
        how = f"alpha={request.alpha:g}" if request.fusion is Fusion.WEIGHTED else f"rrf_k={request.rrf_k:g}"
        return f"HybridExec: {request.fusion.value}, {how}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch with all candidates."""

        def candidates(branch: ExecNode) -> pa.RecordBatch:
            return concat_batches(branch.execute(partition, context), branch.schema)

        vectors, texts = run_concurrently([partial(candidates, self.vector), partial(candidates, self.text)])
        context.check()
        fused = self._fuse(vectors, texts)
        if fused.num_rows:
            context.count(
                self, "found_by_both", vectors.num_rows + texts.num_rows * self.queries - fused.num_rows
            )
            yield fused

    def _fuse(self, vectors: pa.RecordBatch, texts: pa.RecordBatch) -> pa.RecordBatch:
        queries = self.queries
        near = _resolve_places(vectors, self.vector_sources)
        near_queries = vectors.column(QUERY_INDEX).to_numpy()
        matching = [np.tile(column, queries) for column in _resolve_places(texts, self.text_sources)]
        matching_queries = np.repeat(np.arange(queries, dtype=np.int32), texts.num_rows)
        columns = [
            np.concatenate(pair)
            for pair in ((near_queries, matching_queries), *zip(near, matching, strict=True))
        ]
        firsts, rows = _find_distinct(*columns)
        query, source, address = (column[firsts] for column in columns)
        near_rows, matching_rows = rows[: len(near_queries)], rows[len(near_queries) :]
        distances = _build_column(
            len(query), near_rows, vectors.column(DISTANCE).to_numpy(zero_copy_only=False)
        )
        scores = _build_column(
            len(query), matching_rows, np.tile(texts.column(SCORE).to_numpy(zero_copy_only=False), queries)
        )
        if self.request.fusion is Fusion.WEIGHTED:
            points = self._add_weighted(query, distances, scores)
        else:
            points = self._add_reciprocal(
                len(query), (near_queries, near_rows), (matching_queries, matching_rows)
            )
        hybrid = points.astype(np.float32)
        by_distance, by_score = np.nan_to_num(distances, nan=np.inf), np.nan_to_num(-scores, nan=np.inf)
        vector_first = self.request.fusion is Fusion.RRF or self.request.alpha >= _MIDDLE
        ties = (by_score, by_distance) if vector_first else (by_distance, by_score)
        # Places are in order already, and the sort is stable: what remains is decided by them.
        order = np.lexsort((*ties, -hybrid, query))
        return pa.RecordBatch.from_arrays(
            [
                _to_nullable(column[order], field)
                for column, field in zip(
                    (query, source, address, distances, scores, hybrid), HYBRID_CANDIDATES, strict=True
                )
            ],
            schema=HYBRID_CANDIDATES,
        )

    def _add_weighted(self, queries: np.ndarray, distances: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the weighted sums of scaled scores, for rows sorted by query."""
        points = np.zeros(len(queries), dtype=np.float64)
        alpha = self.request.alpha
        bounds = np.searchsorted(queries, np.arange(self.queries + 1))
        for start, stop in pairwise(bounds.tolist()):
            nearness = np.nan_to_num(1 - _scale(distances[start:stop]))
            points[start:stop] = alpha * nearness + (1 - alpha) * np.nan_to_num(_scale(scores[start:stop]))
        return points

    def _add_reciprocal(self, count: int, *branches: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the sums of reciprocal ranks of this many rows."""
        points = np.zeros(count, dtype=np.float64)
        for queries, rows in branches:
            points[rows] += 1 / (self.request.rrf_k + _rank(queries))
        return points


def _rank(queries: np.ndarray) -> np.ndarray:
    order = np.argsort(queries, kind="stable")
    ordered = queries[order]
    ranks = np.empty(len(queries), dtype=np.int64)
    ranks[order] = np.arange(1, len(queries) + 1) - np.searchsorted(ordered, ordered)
    return ranks


def _resolve_places(candidates: pa.RecordBatch, sources: Mapping[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return source and address of each candidate; equal places are the same row in both branches."""
    renumbered = np.zeros(max(sources, default=0) + 1, dtype=np.int32)
    renumbered[list(sources)] = list(sources.values())
    return renumbered[candidates.column(SOURCE).to_numpy()], candidates.column(ROW_ADDRESS).to_numpy()


def _find_distinct(
    query: np.ndarray, source: np.ndarray, address: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first index of each distinct place, in order, and for every place its distinct number."""
    order = np.lexsort((address, source, query))
    is_new = np.ones(len(order), dtype=np.bool_)
    is_new[1:] = False
    for column in (query, source, address):
        ordered = column[order]
        is_new[1:] |= ordered[1:] != ordered[:-1]
    rows = np.empty(len(order), dtype=np.int64)
    rows[order] = np.cumsum(is_new) - 1
    return order[is_new], rows


def _build_column(count: int, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return one value per row; NaN if the branch did not find the row."""
    column = np.full(count, np.nan, dtype=np.float32)
    column[rows] = values
    return column


def _scale(values: np.ndarray) -> np.ndarray:
    """Scale the least value to 0 and the greatest to 1; NaN stays NaN, and infinite values become 0."""
    numbers = values.astype(np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return numbers
    least, width = known.min(), np.ptp(known)
    if width <= _SAME * max(1.0, _ROUNDINGS * float(np.abs(known).max())):
        return np.where(np.isnan(numbers), np.nan, _MIDDLE)
    scaled: np.ndarray = (numbers - least) / width
    return scaled


def _to_nullable(column: np.ndarray, field: pa.Field) -> pa.Array:
    return pa.array(column, field.type, from_pandas=pa.types.is_floating(field.type))
