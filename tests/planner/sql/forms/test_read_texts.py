"""Instants that are read from texts in rows, as from constants."""

import datetime as dt

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

TEXTS = ["2024-02-03", None, "1999-12-31"]
READ = [None if text is None else dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) for text in TEXTS]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> QueryEngine:
    root = tmp_path_factory.mktemp("texts")
    lance.write_dataset(pa.table({"s": TEXTS, "n": [1, 2, None]}), root / "t.lance")
    return QueryEngine(Catalog.open(str(root)), partitions=1)


@pytest.mark.parametrize("scale", ["", "_seconds", "_millis", "_micros", "_nanos"])
@pytest.mark.parametrize("form", ["", ", '%Y-%m-%d'", ", '%d.%m.%Y', '%Y-%m-%d'"])
def test_texts_of_rows_are_read(engine: QueryEngine, scale: str, form: str) -> None:
    column = engine.execute(f"SELECT to_timestamp{scale}(s{form}) AS x FROM t").read_all()["x"]
    assert str(column.type.tz) == "+00:00"
    assert column.cast(pa.timestamp("us", "UTC")).to_pylist() == READ


def test_a_format_of_postgresql_and_no_alias(engine: QueryEngine) -> None:
    found = engine.execute("SELECT to_timestamp(s, 'YYYY-MM-DD') FROM t").read_all()
    assert found.schema.names == ["to_timestamp"]
    assert found.column(0).cast(pa.timestamp("us", "UTC")).to_pylist() == READ


def test_they_are_compared_and_nested(engine: QueryEngine) -> None:
    query = (
        "SELECT count(*) FROM t WHERE to_timestamp(s) >= TIMESTAMP '2000-01-01' "
        "AND date_trunc('year', to_timestamp(coalesce(s, '2001-01-01'))) = TIMESTAMP '2024-01-01'"
    )
    assert engine.execute(query).read_all().column(0).to_pylist() == [1]
    numbers = engine.execute("SELECT to_timestamp_seconds(n) AS x FROM t").read_all()["x"]
    assert [value and value.second for value in numbers.to_pylist()] == [1, 2, None]
