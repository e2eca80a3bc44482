"""Hybrid search over fresh rows: what both functions find by themselves, fused."""

from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.search.policy.policy_lake import DOCS, add_indexes, docs
from tests.support.lake.tables import LsmTable, bucketed
from tests.support.processes.writer_process import WriterProcess

QUERY, OTHER = [0.2, 0.9, 0.4, 0.6], [0.9, 0.1, 0.1, 0.3]
TEXT = "lake merge flush"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    """`docs`, whose indexes cover different fragments, with a generation and a log."""
    root = tmp_path_factory.mktemp("hybrid")

    def rows(numbers: range) -> pa.Table:
        return pa.Table.from_pylist(docs(numbers, 0), schema=DOCS)

    table = LsmTable.create(root, "docs", rows(range(60)), bucketed("id", 2, recorded=True), shared_writers)
    add_indexes(table.path)
    dataset = lance.dataset(table.path)
    dataset.insert(rows(range(60, 90)))
    dataset.optimize.optimize_indices(index_names=["body_idx"])
    dataset.insert(rows(range(90, 100)))
    table.put(docs([1, 7, 62, 95, 101, 102], 1))
    table.delete([{"id": 3}, {"id": 64}])
    table.close_writers()
    table.put(docs([2, 62, 103], 2))
    table.delete([{"id": 8}])
    engine = QueryEngine(Catalog.open(str(root)))
    yield engine
    engine.close()


def ask(engine: QueryEngine, sql: str, *parameters: Any) -> list[dict[str, Any]]:
    return engine.prepare(sql).execute([pa.scalar(one) for one in parameters]).read_all().to_pylist()


def found_by_both(engine: QueryEngine, k: int, condition: str) -> tuple[dict[int, float], dict[int, float]]:
    """Distances and scores by id, in the order of the rank."""
    near = ask(
        engine, f"SELECT id, _distance FROM lance_vector_search('docs', 'vec', {QUERY}, k => {k}) {condition}"
    )
    matching = ask(
        engine, f"SELECT id, _score FROM lance_fts('docs', 'body', '{TEXT}', k => {k}) {condition}"
    )
    return {row["id"]: row["_distance"] for row in near}, {row["id"]: row["_score"] for row in matching}


def scaled(values: dict[int, float]) -> dict[int, float]:
    least, most = min(values.values()), max(values.values())
    return {key: (value - least) / (most - least) for key, value in values.items()}


@pytest.mark.slow
@pytest.mark.parametrize("condition", ["", "WHERE id > 40", "WHERE title LIKE 'T%'", "WHERE tenant = 'a'"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.5, 1.0])
def test_weighted_scores_add_up_what_both_say(engine: QueryEngine, alpha: float, condition: str):
    rows = ask(
        engine,
        f"SELECT id, _hybrid_score, _distance, _score FROM lance_hybrid_search('docs', 'vec', {QUERY}, "
        f"'body', '{TEXT}', k => 10, alpha => {alpha}, oversample_factor => 3) {condition}",
    )
    near, matching = found_by_both(engine, 30, condition)
    nearness = {key: 1 - value for key, value in scaled(near).items()}
    match = scaled(matching)
    expected = {
        key: alpha * nearness.get(key, 0) + (1 - alpha) * match.get(key, 0) for key in {*near, *matching}
    }
    best = sorted(expected.values(), reverse=True)[:10]
    assert [row["_hybrid_score"] for row in rows] == pytest.approx(best, abs=1e-5)
    for row in rows:
        assert row["_hybrid_score"] == pytest.approx(expected[row["id"]], abs=1e-5)
        assert row["_distance"] == near.get(row["id"])
        assert row["_score"] == matching.get(row["id"])


@pytest.mark.parametrize("rrf_k", [60, 1])
def test_reciprocal_ranks_add_up_places(engine: QueryEngine, rrf_k: int):
    rows = ask(
        engine,
        f"SELECT id, _hybrid_score FROM lance_hybrid_search('docs', 'vec', $1, 'body', $2, k => 10, "
        f"fusion => 'rrf', rrf_k => {rrf_k})",
        QUERY,
        TEXT,
    )
    places: dict[int, float] = {}
    for found in found_by_both(engine, 40, ""):
        for place, key in enumerate(found, start=1):
            places[key] = places.get(key, 0) + 1 / (rrf_k + place)
    best = sorted(places.values(), reverse=True)[:10]
    assert [row["_hybrid_score"] for row in rows] == pytest.approx(best)
    assert all(row["_hybrid_score"] == pytest.approx(places[row["id"]]) for row in rows)


def test_every_row_is_found_once_where_indexes_cover_different_rows(engine: QueryEngine):
    everything = {row["id"] for row in ask(engine, "SELECT id FROM docs")}
    rows = ask(
        engine,
        f"SELECT id, _score FROM lance_hybrid_search('docs', 'vec', {QUERY}, 'body', 'lake', k => 1000)",
    )
    assert sorted(row["id"] for row in rows) == sorted(everything)
    assert all(row["_score"] is not None for row in rows)


def test_several_vectors_share_one_text(engine: QueryEngine):
    call = "lance_hybrid_search('docs', 'vec', {}, 'body', 'merge', k => 4)"
    both = ask(
        engine,
        f"SELECT query_index, id, _hybrid_score FROM {call.format([QUERY, OTHER])} ORDER BY query_index",
    )
    for number, vector in enumerate((QUERY, OTHER)):
        alone = ask(engine, f"SELECT id, _hybrid_score FROM {call.format(vector)}")
        mine = [row for row in both if row["query_index"] == number]
        assert [(row["id"], row["_hybrid_score"]) for row in mine] == [
            (row["id"], row["_hybrid_score"]) for row in alone
        ]


def test_one_branch_may_find_nothing(engine: QueryEngine):
    call = f"lance_hybrid_search('docs', 'vec', {QUERY}, 'body', 'absent', k => 3)"
    rows = ask(engine, f"SELECT id, _score FROM {call}")
    near = ask(engine, f"SELECT id FROM lance_vector_search('docs', 'vec', {QUERY}, k => 3)")
    assert [row["id"] for row in rows] == [row["id"] for row in near]
    assert all(row["_score"] is None for row in rows)


def test_columns_are_those_of_the_table_then_scores(engine: QueryEngine):
    rows = ask(engine, f"SELECT * FROM lance_hybrid_search('docs', 'vec', {QUERY}, 'body', '{TEXT}', k => 1)")
    assert list(rows[0]) == [*DOCS.names, "_hybrid_score", "_distance", "_score"]


def test_the_plan_shows_both_branches(engine: QueryEngine):
    (_, row) = ask(
        engine,
        f"EXPLAIN SELECT id FROM lance_hybrid_search('docs', 'vec', {QUERY}, 'body', '{TEXT}', "
        "k => 5, alpha => 0.25)",
    )
    lines = [line.strip() for line in row["plan"].splitlines()]
    shown = [line.partition(":")[0] for line in lines]
    assert "HybridExec: weighted, alpha=0.25" in lines
    top = shown.index("TakeRowsExec")
    assert shown[top : top + 3] == ["TakeRowsExec", "LimitExec", "HybridExec"]
    assert shown.index("HybridExec") < shown.index("KnnExec") < shown.index("GlobalBM25Exec")
    assert "LimitExec: k=20" in lines
    assert any(line.startswith("GlobalBM25Exec: k=20, ") for line in lines)
