"""Comparisons with ANY and ALL rows of a subquery, also of the same table."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.sampling import sample

ORDERS = pa.table(
    {"id": range(1, 6), "qty": [2, 3, None, 5, 6], "item": ["nut", "nut", "bolt", "bolt", None]}
)
ITEMS = pa.table({"item": ["nut", "bolt"], "weight": [3, None]})
OUTER = ("orders", "small", "(SELECT id, qty FROM orders) AS orders")
SUBQUERIES = (
    "SELECT qty FROM orders WHERE id < 3",
    "SELECT qty FROM orders -- all of them\n",
    "SELECT o.qty FROM orders o WHERE o.item IS NOT NULL",
    "SELECT max(qty) FROM small",
    "SELECT qty FROM orders WHERE false",
    "SELECT weight FROM items",
    "WITH orders AS (SELECT 5 AS qty) SELECT qty FROM orders",
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("quantified")
    lance.write_dataset(ORDERS, root / "orders.lance")
    lance.write_dataset(ITEMS, root / "items.lance")
    (root / "small.view.sql").write_text("SELECT * FROM orders WHERE qty < 6")
    engine = QueryEngine(Catalog.open(str(root)))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("orders", ORDERS)
        connection.register("items", ITEMS)
        connection.execute("CREATE VIEW small AS SELECT * FROM orders WHERE qty < 6")
        yield connection


def ids(engine: QueryEngine, sql: str) -> list[int]:
    return sorted(engine.execute(sql).read_all()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("comparison", sample(["=", "<>", "<", ">="], 2))
@pytest.mark.parametrize("quantifier", ["ANY", "ALL"])
def test_every_row_of_the_subquery_counts(
    engine: QueryEngine, oracle: duckdb.DuckDBPyConnection, outer: str, comparison: str, quantifier: str
) -> None:
    for subquery in SUBQUERIES:
        for maybe in ("", "NOT "):
            sql = f"SELECT id FROM {outer} WHERE {maybe}qty {comparison} {quantifier} ({subquery})"
            expected = oracle.execute(sql).fetchall()
            assert ids(engine, sql) == sorted(one for (one,) in expected), sql


def test_a_subquery_may_belong_to_its_row(engine: QueryEngine) -> None:
    of_item = "SELECT weight FROM items WHERE items.item = orders.item"
    assert ids(engine, f"SELECT id FROM orders WHERE qty = ANY ({of_item})") == [2]


def test_one_beside_another(engine: QueryEngine) -> None:
    sql = (
        "SELECT id FROM orders WHERE id >= ALL (SELECT id FROM orders WHERE id < 4) "
        "AND id < ANY (SELECT id FROM orders WHERE id > ALL (SELECT qty FROM orders WHERE qty < 4))"
    )
    assert ids(engine, sql) == [3, 4]


def test_other_words_for_the_same(engine: QueryEngine) -> None:
    assert ids(engine, "SELECT id FROM orders WHERE qty = SOME (SELECT weight FROM items)") == [2]
    assert ids(engine, "SELECT id FROM orders o WHERE id != ALL (SELECT id FROM orders WHERE id < 5)") == [5]


def test_lists_are_compared_as_ever(engine: QueryEngine) -> None:
    assert ids(engine, "SELECT id FROM orders WHERE qty = ANY (ARRAY[2, 5])") == [1, 4]


@pytest.mark.parametrize("condition", ["p.id > 2", "p.id IN (3, p.qty, 9)"])
def test_a_column_is_called_like_a_relation(engine: QueryEngine, condition: str) -> None:
    sql = (
        "WITH qty AS (SELECT id, qty FROM orders) SELECT o.id FROM qty o WHERE o.qty NOT IN "
        f"(SELECT p.id AS one FROM orders p WHERE p.id = o.qty AND {condition})"
    )
    plain = sql.replace("WITH qty", "WITH amounts").replace("FROM qty", "FROM amounts")
    assert ids(engine, sql) == ids(engine, plain)
