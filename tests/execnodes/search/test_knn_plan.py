"""Which plan a vector search gets: how each source is searched, and with what defaults."""

from pathlib import Path
from typing import Any

import pytest

from lance_gateway.execnodes import ExecNode
from lance_gateway.execnodes.search.filter_stale import FilterStaleExec
from lance_gateway.execnodes.search.knn import KnnExec
from lance_gateway.execnodes.search.source import IndexDescription, Staleness, VectorRequest
from lance_gateway.execnodes.search.vector_search import IndexSearch
from lance_gateway.planner.search.plan_search import compute_refine_factor, plan_vector
from lance_gateway.planner.tables.sources.caches import ByteCache
from tests.planner.search.sources.vector_sources import (
    DIMENSION,
    clustered,
    dataset_of,
    memory_source,
    rows_of,
    source_of,
)

QUERY = clustered(1, seed=9)


def lines(node: ExecNode, depth: int = 0) -> list[str]:
    below = [line for child in node.children() for line in lines(child, depth + 1)]
    return ["  " * depth + node.describe(), *below]


def plan(*sources: Any, **options: Any) -> list[str]:
    return lines(plan_vector(sources, VectorRequest("vec", QUERY, 5, **options), None, ByteCache(1 << 20)))


@pytest.mark.parametrize(
    ("kind", "compression", "factor"),
    [
        ("IVF_FLAT", {"type": "flat"}, None),
        ("IVF_HNSW_FLAT", {}, None),
        ("IVF_SQ", {"type": "sq", "num_bits": 8}, 2),
        ("IVF_RQ", {"type": "rq", "num_bits": 1}, 100),
        ("IVF_RQ", {"type": "rq", "num_bits": 5}, 4),
        ("IVF_PQ", {"type": "pq", "num_bits": 8, "num_sub_vectors": DIMENSION // 2}, 10),
        ("IVF_HNSW_PQ", {"type": "pq", "num_bits": 8, "num_sub_vectors": DIMENSION // 4}, 25),
        ("IVF_PQ", {"type": "pq", "num_bits": 4, "num_sub_vectors": 1}, 100),
        ("IVF_PQ", None, 100),
    ],
)
def test_the_fewer_bits_an_index_has_for_a_dimension_the_more_candidates_are_refined(
    kind: str, compression: object, factor: int | None
):
    index = IndexDescription("vec_idx", kind, {"compression": compression})
    assert compute_refine_factor(index, DIMENSION) == factor


def test_indexes_serve_where_they_are_and_everything_else_is_compared(tmp_path: Path):
    dataset = dataset_of(tmp_path / "t", rows_of(clustered(300)), max_rows_per_file=100)
    dataset = dataset.create_index("vec", "IVF_PQ", num_partitions=2, num_sub_vectors=4, num_bits=4)
    fresh = memory_source(rows_of(clustered(3)), number=1, hidden=[2])
    assert plan(source_of(dataset), fresh) == [
        "LimitExec: k=5",
        "  SortExec: _distance ASC",
        "    FilterStaleExec: exact",
        "      UnionExec: inputs=2",
        "        KnnExec: source 0, index=vec_idx (IVF_PQ l2), effort=0.65, refine=100, blocked=0",
        "        KnnExec: source 1, fragments=1, flat, l2, blocked=1",
    ]
    options = {"nprobes": 3, "refine_factor": 4, "ef": 50}
    assert plan(source_of(dataset), **options)[-1].strip() == (
        "KnnExec: source 0, index=vec_idx (IVF_PQ l2), nprobes=3, ef=50, refine=4, blocked=0"
    )
    for flat in ({"use_index": False}, {"metric": "l2", "use_index": False}, {"metric": "dot"}):
        assert ", flat, " in plan(source_of(dataset), **flat)[-1]


def test_nothing_to_search_has_a_plan_too():
    assert plan() == ["LimitExec: k=5", "  SortExec: _distance ASC", "    EmptyExec"]


def test_what_cannot_be_is_refused():
    source = memory_source(rows_of(clustered(3)))
    request = VectorRequest("vec", QUERY, 5)
    with pytest.raises(ValueError, match="source 0 has no index"):
        KnnExec(source, request, "l2", ByteCache(1), index=IndexSearch("vec_idx", "IVF_PQ", 0.5))
    search = KnnExec(source, request, "l2", ByteCache(1))
    with pytest.raises(ValueError, match="by their key: name its columns"):
        FilterStaleExec(search, Staleness.BLOOM, 5, (), {0: ()})
