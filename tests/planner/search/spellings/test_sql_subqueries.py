"""Subqueries that give the vectors to search for: "items like these"."""

from collections.abc import Iterator

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError
from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.binding import bound_statement
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal

VECTORS = np.random.default_rng(7).normal(size=(40, 4)).astype("f4")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    """Items 0 to 39; item 39 has no vector."""
    root = tmp_path_factory.mktemp("subqueries")
    column = pa.array([*VECTORS[:39].tolist(), None], pa.list_(pa.float32(), 4))
    words = ["nut", "bolt"] * 20
    items = lance.write_dataset(
        pa.table({"id": range(40), "vec": column, "word": words}), root / "items.lance"
    )
    items.create_scalar_index("word", "INVERTED")
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


def nearest(number: int, k: int) -> list[int]:
    distances = np.sum((VECTORS[:39] - VECTORS[number]) ** 2, axis=1)
    return [int(one) for one in np.argsort(distances)[:k]]


def pairs(engine: QueryEngine, sql: str, *parameters: pa.Scalar) -> list[tuple[int, int]]:
    found = engine.execute(sql, parameters=parameters).read_all()
    return list(zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True))


def expected(numbers: list[int], k: int) -> list[tuple[int, int]]:
    return [(place, one) for place, number in enumerate(numbers) for one in nearest(number, k)]


def search(query: str, rest: str = "k => 3") -> str:
    return f"SELECT query_index, id FROM lance_vector_search('items', 'vec', ({query}), {rest})"


def test_items_like_this_one(engine: QueryEngine):
    found = pairs(engine, search("SELECT vec FROM items WHERE id = 7"))
    assert found == expected([7], 3)


def test_rows_are_numbered_in_their_order(engine: QueryEngine):
    sql = search("SELECT vec FROM items WHERE id IN (3, 8, 5) ORDER BY id DESC")
    assert pairs(engine, sql) == expected([8, 5, 3], 3)


def test_no_rows_find_nothing(engine: QueryEngine):
    assert pairs(engine, search("SELECT vec FROM items WHERE id = -1")) == []


def test_any_query_may_give_vectors(engine: QueryEngine):
    shown = [str(VECTORS[number].tolist()) for number in (1, 2)]
    assert pairs(engine, search(f"VALUES ({shown[0]}), ({shown[1]})")) == expected([1, 2], 3)
    inner = "WITH some AS (SELECT * FROM items WHERE id < 2) SELECT vec FROM some ORDER BY id"
    assert pairs(engine, search(inner)) == expected([0, 1], 3)
    near = "lance_vector_search('items', 'vec', (SELECT vec FROM items WHERE id = 4), k => 3)"
    nearest_of_nearest = search(f"SELECT vec FROM {near} ORDER BY _distance")
    assert pairs(engine, nearest_of_nearest) == expected(nearest(4, 3), 3)


def test_parameters_stand_inside_and_outside(engine: QueryEngine):
    sql = search("SELECT vec FROM items WHERE id = ?", "k => ?") + " WHERE id <> ?"
    assert engine.prepare(sql).parameter_schema.types == [pa.int64(), pa.int64(), pa.int64()]
    found = pairs(engine, sql, pa.scalar(7), pa.scalar(2), pa.scalar(7))
    assert found == [(0, one) for one in nearest(7, 3) if one != 7]
    sql = search("SELECT vec FROM items WHERE id = $2", "k => $1") + " WHERE id <> $2"
    assert pairs(engine, sql, pa.scalar(2), pa.scalar(7)) == found


def test_preparing_asks_nothing(engine: QueryEngine, monkeypatch: pytest.MonkeyPatch):
    sql = search("SELECT vec FROM items WHERE id = 11")
    with monkeypatch.context() as patched:
        patched.setattr("lance_gateway.planner.plans.dataframes.read_query_vectors", None)
        query = engine.prepare(sql)
    for _ in range(3):
        assert query.execute().read_all()["id"].to_pylist() == nearest(11, 3)


def test_query_index_joins_queries_with_what_they_find(engine: QueryEngine):
    sql = """
        SELECT q.id, s.id
        FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM items WHERE id < 3) q
        JOIN lance_vector_search('items', 'vec', (SELECT vec FROM items WHERE id < 3 ORDER BY id), k => 2) s
            ON s.query_index = q.number
        ORDER BY q.id, s._distance
    """
    assert pairs(engine, sql) == expected([0, 1, 2], 2)


def test_hybrid_search_takes_vectors_too(engine: QueryEngine):
    sql = """
        SELECT query_index, id FROM lance_hybrid_search(
            'items', 'vec', (SELECT vec FROM items WHERE id IN (2, 4) ORDER BY id), 'word', 'nut', k => 2)
    """
    found = pairs(engine, sql)
    assert [number for number, _ in found] == [0, 0, 1, 1]
    assert (0, 2) in found
    assert (1, 4) in found


def test_explain_shows_the_search(engine: QueryEngine):
    plan = engine.execute(f"EXPLAIN {search('SELECT vec FROM items WHERE id < 2')}").read_all()["plan"]
    assert "KnnExec: items base" in plan.to_pylist()[-1]


def test_hidden_rows_give_no_vectors(engine: QueryEngine):
    access = create_principal(items=TableAccess(row_filter="id <> 7"))
    query = engine.prepare(search("SELECT vec FROM items WHERE id IN (7, 8)"), access=access)
    assert query.execute().read_all()["id"].to_pylist() == [one for one in nearest(8, 4) if one != 7][:3]


@pytest.mark.parametrize(
    ("query", "kind", "message"),
    [
        ("SELECT id FROM items", InvalidInputError, "one column, of vectors; it gives id int64"),
        ("SELECT id, vec FROM items", InvalidInputError, "one column, of vectors; it gives id int64, vec"),
        ("SELECT vec FROM items WHERE id > 37", InvalidInputError, "a vector that is NULL: leave it out"),
        (
            "SELECT [1, 2, 3]",
            InvalidInputError,
            "the query has 3 numbers, but column 'vec' holds vectors of 4",
        ),
        ("SELECT [1, 2, 3, 'NaN'::DOUBLE]", InvalidInputError, "finite"),
        ("SELECT vec FROM gone", NotFoundError, "in its subquery, .*: Table 'gone' does not exist"),
        ("SELECT q.vec", InvalidInputError, "No field named q.vec"),
        ("SELECT vec FROM", InvalidInputError, "Syntax error"),
    ],
)
def test_what_gives_no_vectors_is_refused(
    engine: QueryEngine, query: str, kind: type[LanceGatewayError], message: str
):
    with pytest.raises(kind, match=message):
        engine.execute(search(query)).read_all()


def test_too_many_queries_are_refused(engine: QueryEngine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bound_statement, "MAX_QUERIES", 5)
    with pytest.raises(InvalidInputError, match=r"39 vectors, and at most 5 .*LIMIT"):
        engine.execute(search("SELECT vec FROM items WHERE vec IS NOT NULL")).read_all()


def test_a_common_table_around_is_not_seen(engine: QueryEngine):
    sql = "WITH c AS (SELECT * FROM items) " + search("SELECT vec FROM c")
    with pytest.raises(NotFoundError, match="a statement of its own: Table 'c' does not exist"):
        engine.prepare(sql)


def test_only_vectors_come_from_subqueries(engine: QueryEngine):
    with pytest.raises(InvalidInputError, match=r"lance_fts: query can't be a subquery \(line 1"):
        engine.prepare("SELECT id FROM lance_fts('items', 'word', (SELECT 'nut'))")


@pytest.mark.parametrize("join", [", LATERAL", "CROSS JOIN LATERAL", "JOIN"])
def test_a_lateral_call_tells_of_subqueries(engine: QueryEngine, join: str):
    sql = f"SELECT 1 FROM items q {join} lance_vector_search('items', 'vec', q.vec, k => 3) s"
    with pytest.raises(InvalidInputError, match=r"are given as a subquery, \(SELECT vec FROM"):
        engine.prepare(sql)
