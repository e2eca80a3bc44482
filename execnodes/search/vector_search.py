"""Find the nearest live rows of one source, by Lance's vector index or by all distances.

By an index: Lance can exclude a list of rows, but it chooses partitions and graph nodes by all rows. If the
nearest rows are superseded, it returns live rows that are not the nearest, and nothing tells so; the
exclusion also costs time. So all rows are ranked here, stale ones are dropped by address, and more are
fetched if their share is large.

By all distances: a quick formula, the sum of both squares less twice the product, selects the rows that may
be among the nearest. It is less exact where large squares cancel out, but its error has a bound, so no
nearest row is lost; the selected rows are ranked by their true distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, TaskContext
from lance_gateway.execnodes.rows.row_mask import OFFSET_MASK, FragmentMask
from lance_gateway.execnodes.search.distances import (
    NOTHING,
    Found,
    NearestRows,
    compute_distances,
    select_nearest,
)
from lance_gateway.execnodes.search.source import DISTANCE, QUERY_INDEX, SearchSource
from lance_gateway.execnodes.search.take_rows import take_columns
from lance_gateway.execnodes.search.vector_blocks import (
    VectorBlock,
    VectorCache,
    count_hidden_rows,
    find_live,
    list_live_addresses,
    read_vector_blocks,
    split_into_blocks,
)
from lance_gateway.execnodes.storage.source import LanceSource

_FEWEST = 2048
"""Of fewer rows, all distances are computed before they are screened."""
_WORTHWHILE = 32
"""So many times as many rows must there be as are wanted."""
_ROUNDINGS = 3
"""Of a square, of a product, and of the distance that decides in the end."""


def screen_nearest(
    block: VectorBlock, query: np.ndarray, k: int, unwanted: np.ndarray | None
) -> np.ndarray | None:
    """Return the rows of a block that may be among the k with the smallest l2 distance to a query.

    Args:
        block: vectors.
        query: of the same dimension.
        k: rows wanted.
        unwanted: rows that don't count; None where all do.

    Returns:
        Indexes of rows of the block, ascending; None where all rows should be looked at.
    """
    vectors = block.vectors
    if vectors.dtype != np.float32 or len(vectors) < max(_FEWEST, _WORTHWHILE * k):
        return None
    wanted = query.astype(np.float32)
    with np.errstate(all="ignore"):
        # Of one vector and many, einsum makes products quicker than vecdot, and on this thread alone.
        rough = block.squares - 2 * np.einsum("ij,j->i", vectors, wanted)
        largest = block.squares.max() + np.vecdot(wanted, wanted)
    limits = np.finfo(np.float32)
    error = (float(largest) * float(limits.eps) + float(limits.smallest_subnormal)) * _ROUNDINGS
    error *= len(wanted) + 4
    if not np.isfinite(error):
        return None
    if unwanted is not None:
        rough[unwanted] = np.inf
    bound = np.partition(rough, k - 1)[k - 1] + 2 * error
    return np.flatnonzero(rough <= bound) if np.isfinite(bound) else None


FEW_ROWS = 2048
"""So few vectors are read one by one rather than with all their neighbours."""
FEW = 4
"""Where fewer than one row in so many is wanted, the others are left out before distances are computed."""


def search_all_rows(
    source: SearchSource,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    keep: VectorCache,
    context: TaskContext,
) -> list[Found]:
    """Return the k nearest live rows for every query, by the distances of all rows.

    Args:
        source: what is searched.
        column: of vectors.
        queries: one a row.
        k: rows wanted for each.
        metric: one of `distances.METRICS`.
        keep: holds vectors.
        context: stops the search.
    """
    collected = [NearestRows(k) for _ in queries]
    for block, visible in _read_live_blocks(source, column, keep):
        context.check()
        collect_nearest(block, visible, queries, collected, metric)
    return [best.result() for best in collected]


def collect_nearest(
    block: VectorBlock,
    visible: np.ndarray | None,
    queries: np.ndarray,
    collected: Sequence[NearestRows],
    metric: str,
) -> None:
    """Add the rows of a block that may be among the nearest of each query.

    Args:
        block: vectors.
        visible: which of its rows count; None for all.
        queries: one a row.
        collected: one for each query.
        metric: one of `distances.METRICS`.
    """
    addresses, vectors, unwanted = block.addresses, block.vectors, None
    if visible is not None:
        if np.count_nonzero(visible) * FEW < len(visible):
            addresses, vectors = addresses[visible], vectors[visible]
        else:
            unwanted = ~visible
    is_screened = metric == "l2" and vectors is block.vectors
    for query, best in zip(queries, collected, strict=True):
        near = screen_nearest(block, query, best.k, unwanted) if is_screened else None
        if near is not None:
            best.add(compute_distances(metric, vectors[near], query), addresses[near])
            continue
        row_distances = compute_distances(metric, vectors, query)
        if unwanted is not None:
            row_distances[unwanted] = np.nan
        best.add(row_distances, addresses)


def _read_live_blocks(
    source: SearchSource, column: str, keep: VectorCache
) -> Iterator[tuple[VectorBlock, np.ndarray | None]]:
    """Read vectors, and which of their rows are live; None if all are."""
    rows = source.rows
    if isinstance(rows, LanceSource) and _has_few_rows(source):
        addresses = list_live_addresses(source)
        if len(addresses) and not rows.stored.lacks(column):
            (vectors,) = take_columns(source, addresses, (rows.schema.field(column),), keep)
            yield from ((block, None) for block in split_into_blocks(vectors, addresses))
        return
    for block in read_vector_blocks(source, column, keep):
        yield block, find_visible(block.addresses, source.live.fragments.get(block.fragment_id))


def _has_few_rows(source: SearchSource) -> bool:
    """Return whether a source has so few live rows that only these should be read."""
    masks = source.live.fragments
    if any(fragment not in masks for fragment in source.fragments):
        return False
    live = source.physical_rows - count_hidden_rows(source)
    return live <= FEW_ROWS and live * FEW < source.physical_rows


def find_visible(addresses: np.ndarray, mask: FragmentMask | None) -> np.ndarray | None:
    """Return which rows of a fragment are visible; None if all are.

    Args:
        addresses: of the rows, ascending; at least one.
        mask: of the fragment.
    """
    if mask is None or not mask.hidden_rows:
        return None
    flags = mask.visible.to_numpy(zero_copy_only=False)
    first, last = int(addresses[0]) & OFFSET_MASK, int(addresses[-1]) & OFFSET_MASK
    is_run = last - first + 1 == len(addresses)
    visible: np.ndarray = flags[first : last + 1] if is_run else flags[addresses & OFFSET_MASK]
    return visible


@dataclass(frozen=True, slots=True)
class IndexSearch:
    """The parameters of an index search.

    Attributes:
        name: of the index.
        type: as Lance calls it.
        effort: how many partitions Lance looks at, by their distances: 0 for the nearest alone, 1 for all.
        nprobes: partitions to look at instead, exactly so many.
        refine_factor: so many times k candidates are ranked by their true distances; None for an index that
            has whole vectors.
        ef: candidates that HNSW keeps, at least; None for other indexes.
    """

    name: str
    type: str
    effort: float
    nprobes: int | None = None
    refine_factor: int | None = None
    ef: int | None = None

    def describe(self, metric: str) -> str:
        """Return the index and its parameters for plans."""
        effort = None if self.nprobes is not None else self.effort
        options = {"nprobes": self.nprobes, "effort": effort, "ef": self.ef, "refine": self.refine_factor}
        settings = [f"{name}={value}" for name, value in options.items() if value is not None]
        return ", ".join([f"index={self.name} ({self.type} {metric})", *settings])

    def rank(
        self, source: SearchSource, column: str, queries: np.ndarray, k: int, effort: float
    ) -> list[Found]:
        """Return the k nearest rows by the index's own distances, stale ones included; nearest first.

        Args:
            source: a Lance dataset with the index.
            column: of vectors.
            queries: one a row.
            k: rows wanted for each.
            effort: as above.
        """
        rows = source.rows
        assert isinstance(rows, LanceSource)  # noqa: S101 - nothing else has an index
        dataset: Any = rows.dataset
        nearest: dict[str, Any] = {"column": rows.stored_names[column], "k": k}
        if self.nprobes is None:
            nearest["search_effort"] = effort
        else:
            nearest["nprobes"] = self.nprobes
        if self.ef is not None:
            nearest["ef"] = max(self.ef, k)

        def search(query: np.ndarray) -> pa.Table:
            return dataset.scanner(
                columns=[DISTANCE],
                nearest=nearest | {"q": query},
                fast_search=True,
                with_row_address=True,
                disable_scoring_autoprojection=True,
            ).to_table()

        if len(queries) == 1 or QUERY_INDEX in dataset.schema.names:
            return [_unpack_result(search(query)) for query in queries]
        return _split_by_query(search(queries), len(queries))


def _unpack_result(rows: pa.Table) -> Found:
    return rows.column(DISTANCE).to_numpy(), rows.column(ROW_ADDRESS).to_numpy()


def _split_by_query(rows: pa.Table, queries: int) -> list[Found]:
    distances, addresses = _unpack_result(rows)
    starts = np.searchsorted(rows.column(QUERY_INDEX).to_numpy(), np.arange(1, queries))
    parts = zip(np.split(distances, starts), np.split(addresses, starts), strict=True)
    return list(parts)


GROWTH = 4
"""So many times as many rows are ranked where fewer than k of them were live."""
TOLERANCE = 1.5
"""Rows are ranked again if this many times as many were needed: a few more stale rows do no harm."""
THOROUGH = 0.8
"""Effort where the rows that are wanted lie farther away than the nearest ones."""
WORTH_RANKING = 100
"""To rank a row and read its vector takes as long as to compute so many distances."""


def search_index(
    source: SearchSource,
    index: IndexSearch,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    keep: VectorCache,
    context: TaskContext,
) -> list[Found]:
    """Return the k nearest live rows for every query, nearest first; none if the index can't tell them.

    Args:
        source: a Lance dataset with the index.
        index: how it is used.
        column: of vectors.
        queries: one a row.
        k: rows wanted for each.
        metric: the index's.
        keep: holds row ids.
        context: stops the search.
    """
    rows, hidden = source.physical_rows, count_hidden_rows(source)
    refine = index.refine_factor or 1
    kept = refine * k
    wanted, effort = kept, index.effort
    if hidden:
        wanted += 8 + math.ceil(1.2 * kept * hidden / (rows - hidden))
    results = [NOTHING] * len(queries)
    pending = list(range(len(queries)))
    while True:
        context.check()
        short, most = [], 0
        ranked = index.rank(source, column, queries[pending], wanted, effort)
        for number, (values, addresses) in zip(pending, ranked, strict=True):
            live = np.flatnonzero(find_live(source, addresses))
            required = _compute_required(live, k, refine) or GROWTH * wanted
            if len(addresses) < wanted or required <= TOLERANCE * wanted:
                results[number] = values[live[:kept]], addresses[live[:kept]]
            else:
                short.append(number)
                most = max(most, required)
        if not short or most * WORTH_RANKING > rows:
            break
        pending, wanted, kept, effort = short, most, most, max(index.effort, THOROUGH)
    return (
        results if index.refine_factor is None else _refine(source, column, queries, k, metric, keep, results)
    )


def _compute_required(live: np.ndarray, k: int, refine: int) -> int | None:
    """Return how many rows must be ranked to include the k nearest live ones; None if unknown.

    Stale rows are nearer than the k-th live one: to find it takes what it takes to find that many rows where
    none is stale.

    Args:
        live: places of live rows in a ranking, ascending.
        k: rows wanted.
        refine: candidates that the index must name for each.
    """
    return refine * (int(live[k - 1]) + 1) if len(live) >= k else None


def _refine(
    source: SearchSource,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    keep: VectorCache,
    candidates: Sequence[Found],
) -> list[Found]:
    rows = source.rows
    assert isinstance(rows, LanceSource)  # noqa: S101 - nothing else has an index
    all_addresses = np.unique(np.concatenate([addresses for _, addresses in candidates]))
    if not len(all_addresses):
        return list(candidates)
    (vectors,) = take_columns(source, all_addresses, (rows.schema.field(column),), keep)
    (block,) = split_into_blocks(vectors, all_addresses)
    refined = []
    for query, (_, addresses) in zip(queries, candidates, strict=True):
        at = np.searchsorted(block.addresses, addresses)
        refined.append(select_nearest(compute_distances(metric, block.vectors[at], query), addresses, k))
    return refined
