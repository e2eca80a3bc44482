"""Fusing two rankings, over candidates that are given."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

from lance_gateway.execnodes import ExecNode, MemTableSource, TaskContext
from lance_gateway.execnodes.search.source import (
    HYBRID_CANDIDATES,
    TEXT_CANDIDATES,
    VECTOR_CANDIDATES,
    Fusion,
    HybridRequest,
    SearchSource,
)
from lance_gateway.planner.search.search_request import plan_hybrid

NOTHING = pa.table({"id": [1]})
BASE, FRESH = MemTableSource("base", NOTHING), MemTableSource("fresh", NOTHING)
SOURCES = (SearchSource(0, BASE, "base"), SearchSource(1, FRESH, "fresh"))
Found = Sequence[tuple[int, int, float]]
"""Source, row address, and what the branch says."""


@dataclass(frozen=True, eq=False)
class Given(ExecNode):
    """Candidates."""

    rows: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    def children(self) -> tuple[ExecNode, ...]:
        return ()

    def describe(self) -> str:
        return "Given"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        return iter(self.rows.to_batches())


def branch(schema: pa.Schema, *queries: Found) -> Given:
    rows = [(query, *row) for query, found in enumerate(queries) for row in found]
    return Given(
        pa.Table.from_arrays([list(column) for column in zip(*rows, strict=True)] or [[]] * 4, schema=schema)
    )


def fuse(
    vectors: Sequence[Found],
    texts: Found,
    request: HybridRequest,
    text_sources: Sequence[SearchSource] = SOURCES,
) -> list[dict[str, object]]:
    node, _ = plan_hybrid(
        branch(VECTOR_CANDIDATES, *vectors),
        SOURCES,
        branch(TEXT_CANDIDATES, texts),
        text_sources,
        request,
        len(vectors),
    )
    found = pa.Table.from_batches(node.execute(0, TaskContext()), schema=HYBRID_CANDIDATES)
    return found.to_pylist()


NEAR = [(0, 7, 1.0), (1, 0, 2.0), (0, 9, 5.0)]
MATCHING = [(1, 0, 8.0), (0, 4, 4.0), (0, 7, 3.0)]


def test_weighted_scores_are_scaled_within_each_branch():
    rows = fuse([NEAR], MATCHING, HybridRequest(10, alpha=0.25))
    assert [(row["_source"], row["_rowaddr"], row["_distance"], row["_score"]) for row in rows] == [
        (1, 0, 2.0, 8.0),
        (0, 7, 1.0, 3.0),
        (0, 4, None, 4.0),
        (0, 9, 5.0, None),
    ]
    expected = [0.25 * 0.75 + 0.75, 0.25, 0.75 * 0.2, 0.0]
    assert [row["_hybrid_score"] for row in rows] == pytest.approx(expected)


def test_reciprocal_ranks_go_by_places_alone():
    rows = fuse([NEAR], MATCHING, HybridRequest(10, Fusion.RRF, rrf_k=60))
    assert [(row["_source"], row["_rowaddr"]) for row in rows] == [(1, 0), (0, 7), (0, 4), (0, 9)]
    expected = [1 / 62 + 1 / 61, 1 / 61 + 1 / 63, 1 / 62, 1 / 63]
    assert [row["_hybrid_score"] for row in rows] == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_no_more_than_k_rows_remain_of_each_query(k: int):
    for fusion in Fusion:
        request = HybridRequest(k, fusion)
        assert fuse([NEAR], MATCHING, request) == fuse([NEAR], MATCHING, HybridRequest(10, fusion))[:k]
        assert len(fuse([NEAR, NEAR[:1]], MATCHING, request)) == min(k, 4) + min(k, 3)


def test_one_text_counts_for_every_vector():
    for fusion in Fusion:
        request = HybridRequest(10, fusion)
        rows = fuse([NEAR, NEAR[:1]], MATCHING, request)
        assert [row["query_index"] for row in rows] == [0] * 4 + [1] * 3
        assert rows[:4] == fuse([NEAR], MATCHING, request)
        assert [row | {"query_index": 0} for row in rows[4:]] == fuse([NEAR[:1]], MATCHING, request)


def test_branches_may_number_sources_as_they_like():
    other = (SearchSource(0, FRESH, "fresh"), SearchSource(1, BASE, "base"), SearchSource(2, BASE, "base"))
    renumbered = [(0, 0, 8.0), (2, 4, 4.0), (1, 7, 3.0)]
    request = HybridRequest(10)
    assert fuse([NEAR], renumbered, request, other) == fuse([NEAR], MATCHING, request)


def test_alpha_1_is_the_vector_search_and_alpha_0_the_text_search():
    tied = [(0, number, 1.0) for number in (3, 1, 2)]
    near = [*NEAR, (0, 10, 5.0)]
    for vectors, texts in ((near, MATCHING), (near, tied), (near, [])):
        rows = fuse([vectors], texts, HybridRequest(len(vectors), alpha=1.0))
        assert [(row["_source"], row["_rowaddr"], row["_distance"]) for row in rows] == vectors
    for vectors in (NEAR, tied, []):
        rows = fuse([vectors], MATCHING, HybridRequest(len(MATCHING), alpha=0.0))
        assert [(row["_source"], row["_rowaddr"], row["_score"]) for row in rows] == MATCHING


def test_candidates_that_are_all_alike_score_a_half():
    rows = fuse([[(0, 1, 3.0), (0, 2, 3.0)]], [(0, 2, 9.0)], HybridRequest(10, alpha=0.4))
    assert [(row["_rowaddr"], row["_hybrid_score"]) for row in rows] == [
        (2, pytest.approx(0.5)),
        (1, pytest.approx(0.2)),
    ]


@pytest.mark.parametrize(
    ("one", "other"), [(1e6, 1e6 + 0.0625), (8.0, 8.000001), (0.0, 6e-8), (-1e6, -1e6 - 0.0625)]
)
def test_rounding_is_no_difference(one: float, other: float):
    rows = fuse([[(0, 1, one), (0, 2, other)]], [], HybridRequest(10, alpha=1.0))
    assert [row["_hybrid_score"] for row in rows] == [0.5, 0.5]
    rows = fuse([[(0, 1, one), (0, 2, other), (0, 3, one * 2 + 1)]], [], HybridRequest(10, alpha=1.0))
    assert {row["_hybrid_score"] for row in rows} >= {0.0, 1.0}


def test_ties_are_decided_by_the_weightier_branch_then_by_the_place():
    near, matching = [(0, 5, 1.0), (1, 5, 1.0)], [(0, 6, 2.0), (0, 3, 2.0)]
    vector_first = [(0, 5), (1, 5), (0, 3), (0, 6)]
    text_first = [(0, 3), (0, 6), (0, 5), (1, 5)]
    for alpha, expected in ((0.5, vector_first), (0.6, vector_first), (0.4, text_first)):
        rows = fuse([near], matching, HybridRequest(10, alpha=alpha))
        assert [(row["_source"], row["_rowaddr"]) for row in rows] == expected
    rows = fuse([near[:1]], matching[:1], HybridRequest(10, Fusion.RRF))
    assert [(row["_source"], row["_rowaddr"]) for row in rows] == [(0, 5), (0, 6)]


def test_nothing_found_is_nothing():
    assert fuse([[]], [], HybridRequest(10)) == []
    assert fuse([[], []], [], HybridRequest(10, Fusion.RRF)) == []


def test_a_distance_that_is_no_number_is_worth_nothing():
    rows = fuse([[(0, 1, 1.0), (0, 2, 2.0), (0, 3, math.inf), (0, 4, math.nan)]], [], HybridRequest(10))
    assert [row["_rowaddr"] for row in rows] == [1, 2, 3, 4]
    assert [row["_hybrid_score"] for row in rows] == [0.5, 0, 0, 0]


def test_what_is_taken_afterwards_is_known_by_number():
    split = (
        SearchSource(0, BASE, "base", fragments=(0, 1)),
        SearchSource(1, BASE, "base", fragments=(2,)),
        SearchSource(2, FRESH, "fresh"),
    )
    text = (SearchSource(0, FRESH, "fresh"), SearchSource(1, BASE, "base", fragments=(0, 3)))
    node, sources = plan_hybrid(
        branch(VECTOR_CANDIDATES, NEAR), split, branch(TEXT_CANDIDATES, MATCHING), text, HybridRequest(3)
    )
    assert [(one.number, one.rows, one.fragments) for one in sources] == [
        (0, BASE, (0, 1, 2, 3)),
        (1, FRESH, (0,)),
    ]
    assert node.describe() == "LimitExec: k=3"
    assert [one.describe() for one in node.children()] == ["HybridExec: weighted, alpha=0.5"]


@pytest.mark.parametrize(
    "request_",
    [{"k": 0}, {"alpha": -0.1}, {"alpha": 1.5}, {"alpha": math.nan}, {"rrf_k": 0}, {"oversample_factor": 0}],
)
def test_a_request_that_can_not_be(request_: dict[str, float]):
    with pytest.raises(ValueError, match="not"):
        HybridRequest(**{"k": 1, **request_})  # type: ignore[arg-type]
