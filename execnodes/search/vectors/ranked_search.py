"""The nearest live rows of a source by its index's ranking of all rows.

Lance would rank live rows alone, given a list of the others. But which partitions it looks at, and how it
walks a graph, goes by all rows: where the nearest ones are superseded, it returns live rows from wherever it
happens to look, and nothing tells that others are nearer. To test every row against a list takes time, too.
Here all rows are ranked and stale ones dropped by address; their share shows when more has to be fetched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from execnodes.node import TaskContext
from execnodes.search.rows.live_rows import are_live, hidden_rows, physical_rows
from execnodes.search.rows.taken_rows import taken_rows
from execnodes.search.rows.vector_blocks import Keep, blocks_of
from execnodes.search.source import SearchSource
from execnodes.search.vectors.distances import distances
from execnodes.search.vectors.index_search import IndexSearch
from execnodes.search.vectors.nearest import NOTHING, Found, nearest
from execnodes.storage.source import LanceSource

GROWTH = 4
"""So many times as many rows are ranked where fewer than k of them were live."""
TOLERANCE = 1.5
"""Rows are ranked anew where it should have been so many times as many: a few stale rows more do no harm."""
THOROUGH = 0.8
"""Effort where the rows that are wanted lie farther away than the nearest ones."""
WORTH_RANKING = 100
"""To rank a row and read its vector takes as long as to compute so many distances."""


def ranked_search(
    source: SearchSource,
    index: IndexSearch,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    keep: Keep,
    context: TaskContext,
) -> list[Found]:
    """The k nearest live rows for every query, nearest first; none for a query where the index can't tell.

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
    rows, hidden = physical_rows(source), hidden_rows(source)
    refine = index.refine_factor or 1
    kept = refine * k
    wanted, effort = kept, index.effort
    if hidden:
        wanted += 8 + math.ceil(1.2 * kept * hidden / (rows - hidden))
    found = [NOTHING] * len(queries)
    asked = list(range(len(queries)))
    while True:
        context.check()
        short, most = [], 0
        ranked = index.ranked(source, column, queries[asked], wanted, effort)
        for number, (values, addresses) in zip(asked, ranked, strict=True):
            live = np.flatnonzero(are_live(source, addresses))
            required = _required(live, k, refine) or GROWTH * wanted
            if len(addresses) < wanted or required <= TOLERANCE * wanted:
                found[number] = values[live[:kept]], addresses[live[:kept]]
            else:
                short.append(number)
                most = max(most, required)
        if not short or most * WORTH_RANKING > rows:
            break
        asked, wanted, kept, effort = short, most, most, max(index.effort, THOROUGH)
    return found if index.refine_factor is None else _refined(source, column, queries, k, metric, keep, found)


def _required(live: np.ndarray, k: int, refine: int) -> int | None:
    """How many rows must be ranked to have the k nearest live ones among them; None where that can't be told.

    Stale rows are nearer than the k-th live one: to find it takes what it takes to find that many rows where
    none is stale.

    Args:
        live: places of live rows in a ranking, ascending.
        k: rows wanted.
        refine: candidates that the index must name for each.
    """
    return refine * (int(live[k - 1]) + 1) if len(live) >= k else None


def _refined(
    source: SearchSource,
    column: str,
    queries: np.ndarray,
    k: int,
    metric: str,
    keep: Keep,
    found: Sequence[Found],
) -> list[Found]:
    """The k nearest of what was found, by true distances."""
    rows = source.rows
    assert isinstance(rows, LanceSource)  # noqa: S101 (nothing else has an index)
    every = np.unique(np.concatenate([addresses for _, addresses in found]))
    if not len(every):
        return list(found)
    (vectors,) = taken_rows(source, every, (rows.schema.field(column),), keep)
    (block,) = blocks_of(vectors, every)
    refined = []
    for query, (_, addresses) in zip(queries, found, strict=True):
        at = np.searchsorted(block.addresses, addresses)
        refined.append(nearest(distances(metric, block.vectors[at], query), addresses, k))
    return refined
