"""Values of two types are compared as PostgreSQL does, wherever a statement compares them."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.engine import DEFAULT_SETTINGS, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal
from tests.support.lake.manifests import SpecField
from tests.support.lake.tables import LsmTable, bucketed, by_spec, key_field
from tests.support.processes.writer_process import WriterProcess

NEW_YORK = pa.timestamp("us", "America/New_York")
PRICES = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("big", pa.decimal128(38, 2)),
        pa.field("f", pa.float64()),
        pa.field("r", pa.float32()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
TIMES = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("at", NEW_YORK),
        pa.field("n", pa.timestamp("us")),
        pa.field("utc", pa.timestamp("us", "UTC")),
        pa.field("s", pa.string()),
        pa.field("d", pa.decimal128(10, 3)),
        pa.field("ns", pa.timestamp("ns")),
        pa.field("u", pa.timestamp("us")),
        pa.field("i", pa.int64()),
        pa.field("far", pa.timestamp("us")),
    ]
)
Ask = Callable[..., Any]


def _price(number: int, price: str, f: float, big: str | None = None) -> dict[str, Any]:
    digits = None if big is None else Decimal(big)
    return {"id": number, "price": Decimal(price), "big": digits, "f": f, "r": f, "vec": [f, 0.0]}


def _time(number: int, at: dt.datetime, n: dt.datetime, **others: object) -> dict[str, Any]:
    return dict.fromkeys(TIMES.names) | {"id": number, "at": at, "n": n, "far": FAR} | others


NOON = dt.datetime(2024, 7, 1, 12)
FAR = dt.datetime(9999, 12, 31)
SKIPPED = dt.datetime(2024, 3, 10, 2, 30)
"""A time of day that New York's clocks skip."""
EIGHT = dt.datetime(2024, 3, 10, 8)


def _aware(time: dt.datetime) -> dt.datetime:
    return time.replace(tzinfo=dt.UTC)


def _write_prices(root: Path, writers: WriterProcess) -> None:
    """Row 1 is in the base, 2 in a generation, and 3 and 4 are in the log."""
    base = pa.Table.from_pylist([_price(1, "1.10", 1.1, "12345678901234567890.12")], PRICES)
    table = LsmTable.create(root, "p", base, bucketed("id", 2, recorded=True), writers)
    table.put([_price(2, "4.44", 4.44)])
    table.close_writers()
    table.put([_price(3, "4.40", 4.4), _price(4, "9.95", 0.1)])


def _write_times(root: Path, writers: WriterProcess) -> None:
    """A region for the hour in New York of each row: 2 is in the base, and 3 in the log."""
    first = _time(
        2,
        _aware(NOON),
        NOON,
        utc=_aware(NOON),
        s="2024-07-01 12:00:00",
        d=Decimal("1.5"),
        ns=1_000_000,
        u=1000,
        i=300,
    )
    second = _time(
        3, _aware(EIGHT), SKIPPED, s="2024-03-10 08:00:00Z", d=Decimal(1), ns=1_234_567, u=1234, i=5
    )
    layout = by_spec(
        (SpecField("hour", ("at",), "int32", "hour"),), lambda row: (row["at"] and 4,), widths=(4,)
    )
    table = LsmTable.create(root, "t", pa.Table.from_pylist([first], TIMES), layout, writers)
    table.put([second])


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("types")
    _write_prices(root, shared_writers)
    _write_times(root, shared_writers)
    engine = QueryEngine(Catalog.open(str(root)), partitions=2)
    yield engine
    engine.close()


def _values(engine: QueryEngine, sql: str, *parameters: pa.Scalar, access: Access = FULL_ACCESS) -> list[Any]:
    """Return the values of the first column, in order."""
    types = [value.type for value in parameters]
    prepared = engine.prepare(sql, DEFAULT_SETTINGS, access, bound=types)
    values = prepared.execute(parameters).read_all().column(0).to_pylist()
    return sorted(values, key=lambda value: (value is None, value))


PRICE_CONDITIONS = [
    ("price = 4.44", [2]),
    ("4.44 = price", [2]),
    ("price <> 4.44", [1, 3, 4]),
    ("price >= 4.44", [2, 4]),
    ("-price = -4.44", [2]),
    ("price = 1.1 + 3.34", [2]),
    ("price = CASE WHEN id = 1 THEN 1.1 ELSE 4.44 END", [1, 2]),
    ("price IN (1.1, 4.44)", [1, 2]),
    ("price NOT IN (1.1, 4.44)", [3, 4]),
    ("price BETWEEN 4.4 AND 4.44", [2, 3]),
    ("price = ANY (ARRAY[1.1, 4.44])", [1, 2]),
    ("price <> ALL (ARRAY[1.1, CAST(4.44 AS DOUBLE)])", [3, 4]),
    ("nullif(price, 4.44) IS NULL", [2]),
    ("CASE price WHEN 4.44 THEN TRUE END", [2]),
    ("greatest(price, 4.44) = 4.44", [1, 2, 3]),
    ("price IS NOT DISTINCT FROM 4.44", [2]),
    ("(price, id) IN ((4.44, 2), (1.1, 4))", [2]),
    ("big = 12345678901234567890.12", [1]),
    ("big > 0.12345", [1]),
    ("big < 0.000000000000000000000000000000000001", []),
    ("price < 1234567890123456789012345678901234567890.5", [1, 2, 3, 4]),
    ("4.44 = ANY (make_array(price))", [2]),
    ("array_has(make_array(price, big), 4.44)", [2]),
    ("price = 4.44e0", [2]),
    ("round(price, 1) <> price", [2, 4]),
    ("round(price, 1) - price > 0", [4]),
    ("price < 1e300", [1, 2, 3, 4]),
    ("price = CAST(4.44 AS DOUBLE)", [2]),
    ("price = f", [1, 2, 3]),
    ("f <> price", [4]),
    ("price IN (f, 9.95)", [1, 2, 3, 4]),
    ("price IN (SELECT f FROM p)", [1, 2, 3]),
    ("f NOT IN (SELECT price FROM p)", [4]),
    ("price = ANY (SELECT f FROM p)", [1, 2, 3]),
    ("price > (SELECT max(f) FROM p)", [4]),
    ("price >= SOME (SELECT f FROM p WHERE id = 2)", [2, 4]),
    ("price >= ALL (SELECT f FROM p WHERE id < 3)", [2, 4]),
    ("f <> ALL (SELECT price FROM p)", [4]),
    ("coalesce(price, f) = f", [1, 2, 3]),
    ("EXISTS (SELECT 1 FROM p AS q WHERE q.f = p.price)", [1, 2, 3]),
    ("price IN (SELECT x FROM (VALUES (1.1), (4.44)) v(x))", [1, 2]),
    ("f = 4.44", [2]),
    ("f IN (0.1, 4.44)", [2, 4]),
    ("f < 1e300", [1, 2, 3, 4]),
    ("f + 0.1 = 0.2", [4]),
    ("r = 4.44", [2]),
    ("r IN (0.1, 4.44)", [2, 4]),
    ("r BETWEEN 4.4 AND 4.44", [2, 3]),
    ("r = CAST(4.44 AS REAL)", [2]),
    ("r = 4.44e0", []),
]


@pytest.mark.parametrize(("condition", "found"), PRICE_CONDITIONS)
def test_a_decimal_beside_numbers(lake: QueryEngine, condition: str, found: list[int]) -> None:
    assert _values(lake, f"SELECT id FROM p WHERE {condition}") == found
    assert _values(lake, f"SELECT id FROM (SELECT id, {condition} AS c FROM p) q WHERE c IS TRUE") == found


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT id FROM p JOIN (VALUES (1.1), (4.44)) v(x) ON price = x", [1, 2]),
        ("SELECT a.id FROM p a JOIN p b ON a.price = b.f", [1, 2, 3]),
        ("SELECT id FROM p JOIN (SELECT f AS price FROM p) q USING (price)", [1, 2, 3]),
        ("SELECT id FROM p NATURAL JOIN (SELECT f AS price FROM p) q", [1, 2, 3]),
        ("WITH q AS (SELECT price AS x FROM p) SELECT id FROM q JOIN p ON q.x = p.f", [1, 2, 3]),
        ("SELECT price FROM p WHERE id < 3 UNION SELECT 4.44", [Decimal("1.10"), Decimal("4.44")]),
        ("SELECT price FROM p UNION SELECT f FROM p", [0.1, 1.1, 4.4, 4.44, 9.95]),
        ("SELECT price FROM p EXCEPT SELECT f FROM p", [9.95]),
        ("SELECT f FROM p INTERSECT SELECT * FROM (SELECT price FROM p) q", [1.1, 4.4, 4.44]),
        ("SELECT greatest(price, 4.44) FROM p WHERE id = 2", [Decimal("4.44")]),
        ("SELECT price * 1.5 FROM p WHERE id = 1", [Decimal("1.650")]),
        ("SELECT price + f FROM p WHERE id = 1", [2.2]),
        ("SELECT 4.44", [4.44]),
        ("SELECT 1.0 / 3", [1.0 / 3]),
        ("SELECT CAST(id AS INT UNSIGNED) - CAST(3 AS INT UNSIGNED) FROM p", [-2, -1, 0, 1]),
        (
            (
                "SELECT count(*) FROM generate_series(1, 999) g(n) "
                "WHERE CAST(n / 100.0 AS DECIMAL(10, 2)) IN (n / 100.0, 0.001)"
            ),
            [999],
        ),
        (
            (
                "SELECT id FROM lance_vector_search('p', 'vec', [4.44, 0.0], k => 4) "
                "WHERE price IN (1.1, 4.44) AND price = f"
            ),
            [1, 2],
        ),
        ("SELECT id FROM lance_changes('p', since => 1) WHERE price = 4.44", [2]),
    ],
)
def test_decimals_of_joins_unions_and_searches(lake: QueryEngine, sql: str, values: list[Any]) -> None:
    assert _values(lake, sql) == values


@pytest.mark.parametrize(
    ("condition", "value", "found"),
    [
        ("price = $1", pa.scalar(4.44), [2]),
        ("price = $1", pa.scalar(4.441), []),
        ("price < $1", pa.scalar(4.401), [1, 3]),
        ("price IN ($1, 1.1)", pa.scalar(4.44), [1, 2]),
        ("price + 0 = $1", pa.scalar(4.44), [2]),
        ("f = $1", pa.scalar(Decimal("4.44")), [2]),
        ("abs(f) = $1", pa.scalar(Decimal("4.44")), [2]),
        ("r = $1", pa.scalar(4.44), [2]),
        ("big = $1", pa.scalar(Decimal("12345678901234567890.12")), [1]),
    ],
)
def test_a_parameter_means_what_the_literal_does(
    lake: QueryEngine, condition: str, value: pa.Scalar, found: list[int]
) -> None:
    assert _values(lake, f"SELECT id FROM p WHERE {condition}", value) == found


TIME_CONDITIONS = [
    ("at = TIMESTAMP '2024-07-01 12:00:00'", [2]),
    ("at = '2024-07-01 12:00:00'", [2]),
    ("at = '2024-07-01 12:00'", [2]),
    ("at = '2024-03-10 08:00:00Z'", [3]),
    ("at = '2024-03-10 10:00:00+02:00'", [3]),
    ("at = TIMESTAMP '2024-03-10 08:00:00Z'", [3]),
    ("at = TIMESTAMPTZ '2024-03-10 08:00:00Z'", [3]),
    ("at > TIMESTAMP '2024-03-10 02:30:00'", [2, 3]),
    ("at > '2024-03-10 02:30'", [2, 3]),
    ("at BETWEEN '2024-03-10 02:30' AND '2024-03-10 08:00:00'", [3]),
    ("at IN ('2024-03-10 02:30:00', '2024-07-01 12:00:00')", [2]),
    ("at NOT IN ('2024-03-10 02:30:00', CAST('2024-07-01 12:00:00' AS TIMESTAMP))", [3]),
    ("at >= DATE '2024-07-01'", [2]),
    ("at < '9999-12-31'", [2, 3]),
    ("at = n", [2]),
    ("n = at", [2]),
    ("at = s", [2, 3]),
    ("at = utc", [2]),
    ("utc = n", [2]),
    ("at IN (SELECT n FROM t)", [2]),
    ("n IN (SELECT at FROM t)", [2]),
    ("at = (SELECT max(n) FROM t)", [2]),
    ("nullif(at, n) IS NULL", [2]),
    ("CASE at WHEN n THEN TRUE END", [2]),
    ("coalesce(at, n) = n", [2]),
    ("greatest(at, TIMESTAMP '2024-03-10 02:30:00') = at", [2, 3]),
    ("at - n = INTERVAL '0 hours'", [2]),
    ("at - INTERVAL '5 hours 30 minutes' = '2024-03-10 02:30:00'", [3]),
    ("at + INTERVAL '1 day' = '2024-07-02 12:00:00'", [2]),
    ("n = '2024-03-10 02:30'", [3]),
    ("coalesce(n, TIMESTAMP '2024-03-10 02:30:00') < TIMESTAMP '2024-07-01 00:00:00'", [3]),
    ("n NOT IN (u, TIMESTAMP '2024-03-10 02:30:00')", [2]),
    ("nullif(far, TIMESTAMP '2024-03-10 02:30:00') = far", [2, 3]),
    ("CASE far WHEN TIMESTAMP '9999-12-31 00:00:00' THEN TRUE END", [2, 3]),
    ("far NOT IN (n, TIMESTAMP '2024-03-10 02:30:00')", [2, 3]),
    ("far > CAST(n AS DATE) AND far <> CAST(n AS DATE)", [2, 3]),
    ("greatest(far, TIMESTAMP '2024-03-10 02:30:00', CAST(n AS DATE)) = far", [2, 3]),
    ("n > TIMESTAMP '2024-03-10 02:31'", [2]),
    ("CAST(d AS INT) = 1", [2, 3]),
    ("d::int IN (1, 7)", [2, 3]),
    ("CAST(d AS INT) BETWEEN 1 AND 1", [2, 3]),
    ("CAST(d AS DECIMAL(10, 0)) = 2", [2]),
    ("arrow_cast(d, 'Int32') = 1", [2, 3]),
    ("CAST(ns AS TIMESTAMP(3)) = TIMESTAMP '1970-01-01 00:00:00.001'", [2, 3]),
    ("CAST(u AS TIMESTAMP(3)) = CAST('1970-01-01 00:00:00.001' AS TIMESTAMP(3))", [2, 3]),
    ("TRY_CAST(i AS TINYINT) <> 4", [3]),
    ("CAST(i AS INT) = 300", [2]),
]


@pytest.mark.parametrize(("condition", "found"), TIME_CONDITIONS)
def test_times_with_a_zone_and_casts(lake: QueryEngine, condition: str, found: list[int]) -> None:
    assert _values(lake, f"SELECT id FROM t WHERE {condition}") == found
    assert _values(lake, f"SELECT id FROM (SELECT id, {condition} AS c FROM t) q WHERE c IS TRUE") == found


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT a.id FROM t a JOIN t b ON a.at = b.n", [2]),
        ("SELECT id FROM t JOIN (SELECT n AS at FROM t) q USING (at)", [2]),
        ("SELECT at FROM t WHERE id = 2 UNION SELECT n FROM t WHERE id = 2", [_aware(NOON)]),
        ("SELECT n FROM t INTERSECT SELECT at FROM t", [_aware(NOON)]),
        ("SELECT CASE WHEN id = 3 THEN n ELSE at END FROM t WHERE id = 3", [_aware(SKIPPED)]),
        ("SELECT at FROM t WHERE id = 2", [_aware(NOON)]),
        ("SELECT id FROM (SELECT id, CAST(d AS INT) AS x FROM t) q WHERE x = 1", [2, 3]),
        ("SELECT id FROM (SELECT id, CAST(d AS INT) FROM t) q(id, x) WHERE x = 1", [2, 3]),
        ("SELECT count(*) FROM t GROUP BY CAST(d AS INT) HAVING CAST(d AS INT) = 1", [2]),
        ("SELECT CASE CAST(d AS INT) WHEN 1 THEN 'one' END FROM t", ["one", "one"]),
    ],
)
def test_times_and_casts_of_joins_and_unions(lake: QueryEngine, sql: str, values: list[Any]) -> None:
    assert _values(lake, sql) == values


@pytest.mark.parametrize(
    ("condition", "value", "found"),
    [
        ("at = $1", pa.scalar(NOON), [2]),
        ("at = $1", pa.scalar(_aware(NOON)), [2]),
        ("at = $1", pa.scalar("2024-07-01 12:00:00"), [2]),
        ("at = $1", pa.scalar("2024-03-10 08:00:00Z"), [3]),
        ("at > $1", pa.scalar(SKIPPED), [2, 3]),
        ("at IN ($1, '2024-03-10 08:00:00')", pa.scalar(NOON), [2, 3]),
        ("n = $1", pa.scalar(NOON.replace(tzinfo=dt.UTC), NEW_YORK), [2]),
    ],
)
def test_a_time_as_a_parameter_means_what_the_literal_does(
    lake: QueryEngine, condition: str, value: pa.Scalar, found: list[int]
) -> None:
    assert _values(lake, f"SELECT id FROM t WHERE {condition}", value) == found


@pytest.mark.parametrize(
    ("table", "row_filter", "found"),
    [
        ("p", "price IN (1.1, 4.44)", [1, 2]),
        ("p", "price = f -- as doubles", [1, 2, 3]),
        ("p", "r = 4.44", [2]),
        ("t", "at = TIMESTAMP '2024-07-01 12:00:00'", [2]),
        ("t", "at > '2024-03-10 02:30'", [2, 3]),
        ("t", "at = n", [2]),
        ("t", "CAST(d AS INT) = 1", [2, 3]),
    ],
)
def test_filters_of_policies(lake: QueryEngine, table: str, row_filter: str, found: list[int]) -> None:
    access = create_principal(**{table: TableAccess(row_filter=row_filter)})
    assert _values(lake, f"SELECT id FROM {table}", access=access) == found


def test_masks_of_policies(lake: QueryEngine) -> None:
    mask = "CASE WHEN price = 4.44 THEN 0 ELSE price END"
    access = create_principal(p=TableAccess(masks={"price": mask}))
    shown = [Decimal("0.00"), Decimal("1.10"), Decimal("4.40"), Decimal("9.95")]
    assert _values(lake, "SELECT price FROM p", access=access) == shown


def test_a_condition_on_a_decimal_is_one_of_storage(lake: QueryEngine) -> None:
    (_, plan), *_ = (
        row.values()
        for row in lake.execute("EXPLAIN SELECT id FROM p WHERE price = 4.44").read_all().to_pylist()
    )
    assert "full_filters=[p#1.price = Decimal128(4.44,10,2)]" in plan


@pytest.fixture
def run(tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> Ask:
    engine = open_engine(tmp_path)

    def execute(sql: str) -> list[Any]:
        result = engine.prepare_statement(sql).execute()
        return _values(engine, sql) if isinstance(result, pa.RecordBatchReader) else []

    return execute


@pytest.mark.slow
def test_writes_compare_as_queries_do(run: Ask) -> None:
    run("CREATE TABLE p (id BIGINT PRIMARY KEY, price DECIMAL(10, 2), f DOUBLE)")
    run("INSERT INTO p VALUES (1, 1.1, 1.1), (2, 4.44, 4.44), (3, 4.4, 0), (4, 9.95, 0)")
    run("UPDATE p SET price = CASE WHEN price = 4.44 THEN 5.55 ELSE 0 END WHERE price IN (1.1, 4.44)")
    assert run("SELECT price FROM p WHERE id < 3") == [Decimal("0.00"), Decimal("5.55")]
    run("DELETE FROM p WHERE price NOT IN (5.55, 4.4)")
    assert run("SELECT id FROM p") == [2, 3]
    run("INSERT INTO p VALUES (3, 1.1, 0) ON CONFLICT (id) DO UPDATE SET f = 1 WHERE p.price = 4.4")
    run("MERGE INTO p USING (VALUES (5.55)) s(x) ON p.price = s.x WHEN MATCHED THEN UPDATE SET f = 1")
    assert run("SELECT f FROM p") == [1.0, 1.0]
    assert run(
        "SELECT CAST(big AS TEXT) FROM (SELECT CAST('12345678901234567890.12' AS DECIMAL(38, 2)) AS big)"
    )
    run("DELETE FROM p WHERE price = 5.55 AND price <> f")
    assert run("SELECT id FROM p") == [3]


@pytest.mark.slow
def test_constraints_compare_as_queries_do(run: Ask) -> None:
    check = "CHECK (price <> 4.44 AND price <> f)"
    run(f"CREATE TABLE c (id BIGINT PRIMARY KEY, price DECIMAL(10, 2), f DOUBLE, {check})")
    with pytest.raises(InvalidInputError, match="violates constraint"):
        run("INSERT INTO c VALUES (1, 4.44, 0)")
    with pytest.raises(InvalidInputError, match="violates constraint"):
        run("INSERT INTO c VALUES (1, 4.4, 4.4)")
    run("INSERT INTO c VALUES (1, 5.4, 4.4)")
