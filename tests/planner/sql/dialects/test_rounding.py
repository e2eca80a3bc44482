"""Fractions that become whole numbers: rounded in most dialects, cut off in DataFusion and Spark."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog

LARGE = 2**53 + 1
ROW = {"id": LARGE, "Price": 2.75, "tax": Decimal("1.50"), "text": "7", "flag": True, "odd": 5}
TYPES = pa.schema(
    {
        "id": pa.int64(),
        "Price": pa.float64(),
        "tax": pa.decimal128(9, 2),
        "text": pa.string(),
        "flag": pa.bool_(),
        "odd": pa.int32(),
    }
)
WHOLE = {"duckdb": "BIGINT", "mysql": "SIGNED", "snowflake": "INT", "bigquery": "INT64", "trino": "BIGINT"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root: Path = tmp_path_factory.mktemp("rounding")
    lance.write_dataset(pa.Table.from_pylist([ROW], TYPES), root / "t.lance")
    lance.write_dataset(pa.table({"text": [0.5], "more": [0.5]}), root / "u.lance")
    engine = QueryEngine(Catalog.open(str(root)))
    yield engine
    engine.close()


def value(engine: QueryEngine, dialect: str, expression: str, source: str = "t") -> object:
    query = engine.prepare(f"SELECT {expression} AS x FROM {source}", SessionSettings(dialect=dialect))
    return query.execute().read_all()["x"][0].as_py()


@pytest.mark.parametrize("dialect", WHOLE)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2.5", 3),
        ("tax", 2),
        ("tax + 1", 3),
        ("sum(tax) OVER ()", 2),
        ("CASE WHEN tax > 1.2 THEN tax ELSE 0 END", 2),
        ("CASE WHEN tax > 1.2 THEN '8' ELSE '9' END", 8),
        ("text", 7),
        ("flag", 1),
        ("odd", 5),
    ],
)
def test_a_fraction_is_rounded(engine: QueryEngine, dialect: str, written: str, expected: int) -> None:
    assert value(engine, dialect, f"CAST({written} AS {WHOLE[dialect]})") == expected


@pytest.mark.parametrize("dialect", sorted(set(WHOLE) - {"snowflake"}))
def test_columns_are_known_whatever_their_capitals(engine: QueryEngine, dialect: str) -> None:
    assert value(engine, dialect, f"CAST(T.PRICE AS {WHOLE[dialect]})") == 3
    assert value(engine, dialect, f"CAST(p AS {WHOLE[dialect]})", "(SELECT price * 1 AS p FROM t) s") == 3


def test_quoted_columns_are_known(engine: QueryEngine) -> None:
    assert value(engine, "snowflake", '"Price"::INT') == 3


@pytest.mark.parametrize("dialect", WHOLE)
def test_large_whole_numbers_keep_their_last_digit(engine: QueryEngine, dialect: str) -> None:
    whole = "BIGINT" if dialect == "snowflake" else WHOLE[dialect]
    assert value(engine, dialect, f"CAST(id + 0 AS {whole}) - id") == 0


def test_a_name_of_several_meanings_is_no_fraction(engine: QueryEngine) -> None:
    assert value(engine, "duckdb", "CAST(t.text AS BIGINT)", "t CROSS JOIN u") == 7


def test_division_of_whole_numbers_is_whole_in_trino_alone(engine: QueryEngine) -> None:
    assert [value(engine, dialect, f"CAST(odd / 2 AS {WHOLE[dialect]})") for dialect in WHOLE] == [
        3,
        3,
        3,
        3,
        2,
    ]


def test_spark_cuts_off(engine: QueryEngine) -> None:
    assert value(engine, "spark", "CAST(price AS INT)") == 2
