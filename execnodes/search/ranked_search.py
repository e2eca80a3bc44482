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
from execnodes.search.distances import distances
from execnodes.search.index_search import IndexSearch
from execnodes.search.live_rows import are_live, hidden_rows, physical_rows
from execnodes.search.nearest import NOTHING, Found, nearest
from execnodes.search.source import SearchSource
from execnodes.search.taken_rows import taken_rows
from execnodes.search.vector_blocks import Keep, blocks_of
from execnodes.source import LanceSource

GROWTH = 4
"""So many times as many rows are ranked where too few of them were live."""
WORTH_RANKING = 100
"""To rank a row takes as long as to compute so many distances."""


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
    needed = k * (index.refine_factor or 1)
    wanted = needed
    if hidden:
        wanted += 8 + math.ceil(1.2 * needed * hidden / (rows - hidden))
    found = [NOTHING] * len(queries)
    asked = list(range(len(queries)))
    while True:
        context.check()
        short = []
        ranked = index.ranked(source, column, queries[asked], wanted)
        for number, (values, addresses) in zip(asked, ranked, strict=True):
            live = np.flatnonzero(are_live(source, addresses))[:needed]
            if len(live) == needed or len(addresses) < wanted:
                found[number] = values[live], addresses[live]
            else:
                short.append(number)
        wanted *= GROWTH
        if not short or wanted * WORTH_RANKING > rows:
            break
        asked = short
    return found if index.refine_factor is None else _refined(source, column, queries, k, metric, keep, found)


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
