"""Aggregates with opposite orders in one query, over rows in several partitions; DuckDB is the judge."""

import duckdb
import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

ROWS = pa.table(
    {
        "id": list(range(12)),
        "k": [number % 3 for number in range(12)],
        "b": [number * 7 % 12 for number in range(12)],
        "s": [f"s{number * 5 % 12}" for number in range(12)],
    }
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    root = tmp_path_factory.mktemp("orders")
    lance.write_dataset(ROWS, root / "t.lance", max_rows_per_file=3)
    return QueryEngine(Catalog.open(str(root)), partitions=3)


@pytest.mark.parametrize(
    "outputs",
    [
        "array_agg(id ORDER BY b DESC), array_agg(id ORDER BY b)",
        "array_agg(id ORDER BY b), array_agg(id ORDER BY b DESC)",
        "array_agg(id ORDER BY k, b DESC), array_agg(id ORDER BY k DESC, b)",
        "array_agg(id ORDER BY k DESC, b DESC), array_agg(id ORDER BY k, b), array_agg(s ORDER BY k, b DESC)",
        "string_agg(s, ',' ORDER BY id DESC), array_agg(b ORDER BY id)",
        "array_agg(DISTINCT k ORDER BY k DESC), array_agg(DISTINCT k ORDER BY k)",
        "array_agg(b ORDER BY b DESC), array_agg(DISTINCT b ORDER BY b)",
        "array_agg(id ORDER BY b DESC) FILTER (WHERE id > 3), array_agg(id ORDER BY b) FILTER (WHERE id > 3)",
        "array_agg(id ORDER BY b DESC), array_agg(id ORDER BY b DESC)",
        "(SELECT array_agg(id ORDER BY b DESC) FROM t), array_agg(id ORDER BY b)",
    ],
)
@pytest.mark.parametrize("groups", ["", "k"])
def test_each_has_its_own_order(engine: QueryEngine, outputs: str, groups: str) -> None:
    behind = f" GROUP BY {groups} ORDER BY {groups}" if groups else ""
    query = f"SELECT {outputs} FROM t{behind}"
    found = engine.execute(query).read_all()
    with duckdb.connect() as connection:
        connection.register("t", ROWS)
        expected = connection.execute(query).fetchall()
    assert list(zip(*map(pa.ChunkedArray.to_pylist, found.columns), strict=True)) == expected


def test_the_order_of_within_group_counts_too(engine: QueryEngine) -> None:
    outputs = "string_agg(s, ',') WITHIN GROUP (ORDER BY id DESC) AS l, array_agg(id ORDER BY id) AS g"
    query = f"SELECT {outputs} FROM t"
    (row,) = engine.execute(query).read_all().to_pylist()
    assert row == {"l": ",".join(ROWS["s"].to_pylist()[::-1]), "g": ROWS["id"].to_pylist()}


def test_outputs_are_named_by_their_function(engine: QueryEngine) -> None:
    names = engine.prepare(
        "SELECT array_agg(DISTINCT b ORDER BY b DESC), array_agg(b ORDER BY b) FROM t"
    ).schema.names
    assert names[0] == "array_agg"
    assert not any("nullif" in name for name in names)
