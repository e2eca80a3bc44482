"""Small sources are searched together, and give what each of them gives by itself."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lance_gateway.execnodes import TaskContext
from lance_gateway.execnodes.node import MetricsSet
from lance_gateway.execnodes.search.candidates import SortExec
from lance_gateway.execnodes.search.knn import KnnExec
from lance_gateway.execnodes.search.knn_union import KnnUnionExec
from lance_gateway.execnodes.search.source import DISTANCE, SearchSource, VectorRequest
from lance_gateway.planner.tables.sources.caches import ByteCache
from tests.planner.search.sources.vector_sources import (
    clustered,
    dataset_of,
    memory_source,
    rows_of,
    source_of,
)

QUERIES = clustered(3, seed=9)


def write_sources(root: Path) -> list[SearchSource]:
    """Sources with hidden, deleted and missing vectors, of several fragments, empty, and in memory."""
    random = np.random.default_rng(5)
    sources = []
    for number in range(8):
        values = np.round(clustered(200, seed=number), 1)
        missing = random.choice(200, number * 10, replace=False).tolist()
        dataset = dataset_of(root / f"{number}", rows_of(values, missing), max_rows_per_file=90)
        if number % 3 == 2:
            dataset.delete("id % 5 = 1")
        hidden = random.choice(90, [0, 40, 88][number % 3], replace=False).tolist()
        sources.append(source_of(dataset, number=number, hidden=hidden))
    sources.append(memory_source(rows_of(clustered(20, seed=8)), number=8, hidden=[3]))
    nothing = dataset_of(root / "empty", rows_of(clustered(5)))
    nothing.delete("true")
    sources.append(source_of(nothing, number=9))
    return sources


def find(sources: list[SearchSource], cache: ByteCache, k: int, metric: str, **options: Any) -> list[Any]:
    """The nearest rows of all sources, in their order."""
    request = VectorRequest("vec", QUERIES, k, metric)
    searches = tuple(KnnExec(source, request, metric, cache) for source in sources)
    union = KnnUnionExec(searches, (tuple(range(len(searches))),))
    rows = [
        row
        for batch in SortExec(union, DISTANCE).execute(0, TaskContext(**options))
        for row in batch.to_pylist()
    ]
    return [[row for row in rows if row["query_index"] == query][:k] for query in range(len(QUERIES))]


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("k", [1, 10, 300])
def test_together_sources_give_what_they_give_by_themselves(tmp_path: Path, metric: str, k: int) -> None:
    sources, cache = write_sources(tmp_path), ByteCache(1 << 24)
    together = find(sources, cache, k, metric)
    # Nodes that are measured run by themselves.
    assert together == find(sources, cache, k, metric, metrics=MetricsSet())
    assert find(sources, cache, k, metric) == together


def test_masks_are_those_of_each_search(tmp_path: Path) -> None:
    sources, cache = write_sources(tmp_path)[:2], ByteCache(1 << 24)
    dataset: Any = sources[0].rows.dataset  # type: ignore[union-attr]
    (nearest, *_), *_ = find(sources, cache, 1, "l2")
    hidden = (
        source_of(dataset, number=0, hidden=[nearest["_rowaddr"]]) if nearest["_source"] == 0 else sources[0]
    )
    other: Any = sources[1].rows.dataset  # type: ignore[union-attr]
    replaced = (
        source_of(other, number=1, hidden=[nearest["_rowaddr"]]) if nearest["_source"] == 1 else sources[1]
    )
    (after, *_), *_ = find([hidden, replaced], cache, 1, "l2")
    assert (after["_source"], after["_rowaddr"]) != (nearest["_source"], nearest["_rowaddr"])


def test_no_queries_find_nothing(tmp_path: Path) -> None:
    searches = [
        KnnExec(one, VectorRequest("vec", QUERIES[:0], 3), "l2", ByteCache(1))
        for one in write_sources(tmp_path)
    ]
    union = KnnUnionExec(tuple(searches), (tuple(range(len(searches))),))
    assert list(union.execute(0, TaskContext())) == []


def test_a_cache_without_room_changes_no_answer(tmp_path: Path) -> None:
    sources = write_sources(tmp_path)
    assert find(sources, ByteCache(1), 10, "l2") == find(sources, ByteCache(1 << 24), 10, "l2")
