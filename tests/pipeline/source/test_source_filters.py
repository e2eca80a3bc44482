"""Filters that are pushed mean to the gateway what they mean to Spark."""

import datetime as dt
import math
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as of

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.pipeline.source.filters import translate_filter
from tests.gateway.conftest import serving
from tests.support.lake.sources import get_url, plan_read
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

UTC = dt.UTC
SIGNED_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000000))[0]
_DAY = dt.date(2026, 2, 28)
_MOMENT = dt.datetime(2026, 2, 28, 23, 59, 58, 123456)
# Column -> type and the values that rows have and filters compare with.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int64(), [0, 1, 7, 2**40]),
    "u": (pa.uint64(), [Decimal(0), Decimal(5), Decimal(2**64 - 1)]),
    "small": (pa.int8(), [-128, 0, 127]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, SIGNED_NAN]),
    "single": (pa.float32(), [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, SIGNED_NAN]),
    "flag": (pa.bool_(), [True, False]),
    "text": (
        pa.string(),
        ["", "a", "A", "a%_", "ab", "b", "it's \\", "ü", "a\U0010ffff", "\ud7ff", "\ue000"],
    ),
    "blob": (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
    "day": (pa.date32(), [_DAY, dt.date(1969, 12, 31), dt.date(1, 1, 1)]),
    "moment": (pa.timestamp("us"), [_MOMENT, dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    "instant": (pa.timestamp("ms", "Europe/Berlin"), [_MOMENT.replace(tzinfo=UTC, microsecond=5000)]),
    "price": (pa.decimal128(12, 2), [Decimal("0.00"), Decimal("-1.25"), Decimal("9999999999.99")]),
    "nested": (pa.list_(pa.int64()), [[1]]),
}
SCHEMA = pa.schema([key_field("key", pa.int64()), *((name, kind) for name, (kind, _) in COLUMNS.items())])
_HASHED = {name: values for name, (_, values) in COLUMNS.items() if name != "nested"}
_ORDERED = (of.GreaterThan, of.GreaterThanOrEqual, of.LessThan, of.LessThanOrEqual)


def stored_rows() -> list[dict[str, Any]]:
    """Every value at least once, and NULLs."""
    count = max(len(values) for _, values in COLUMNS.values())
    rows = [
        {name: values[number % len(values)] for name, (_, values) in COLUMNS.items()}
        for number in range(count)
    ]
    rows += [dict.fromkeys(COLUMNS)]
    return [{"key": number, **row} for number, row in enumerate(rows)]


def as_arrow(rows: list[dict[str, Any]]) -> pa.Table:
    plain = [{**row, "u": None if row["u"] is None else int(row["u"])} for row in rows]
    return pa.Table.from_pylist(plain, SCHEMA)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess
) -> Iterator[GatewayServer]:
    """The same rows in a base table, a generation and a log tail."""
    root = tmp_path_factory.mktemp("filters")
    rows = stored_rows()
    layout = bucketed("key", 2, recorded=True)
    table = LsmTable.create(root, "t", as_arrow(rows), layout, shared_writers, max_memtable_rows=5)
    for row in as_arrow(rows).to_pylist():
        table.put([{**row, "key": row["key"] + 100}])
    with serving(root) as started:
        yield started
    table.close_writers()


def key_of(value: Any) -> Any:
    """Orders and compares values as Spark does: one NaN, the greatest; one zero; text by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def is_true(one: of.Filter, row: dict[str, Any]) -> bool | None:
    """What Spark says of a filter: true, false or NULL."""
    if isinstance(one, of.Not):
        inner = is_true(one.child, row)
        return None if inner is None else not inner
    value = row[one.attribute[0]]  # type: ignore[attr-defined]
    match one:
        case of.IsNull():
            return value is None
        case of.IsNotNull():
            return value is not None
        case of.EqualNullSafe():
            known = value is not None and one.value is not None
            return key_of(value) == key_of(one.value) if known else value is one.value
    if value is None:
        return None
    match one:
        case of.In():
            found = key_of(value) in [key_of(each) for each in one.value if each is not None]
            return found or (None if None in one.value else False)
        case of.StringStartsWith():
            return value.startswith(one.value)
        case of.StringEndsWith():
            return value.endswith(one.value)
        case of.StringContains():
            return one.value in value
    mine, other = key_of(value), key_of(one.value)  # type: ignore[attr-defined]
    match one:
        case of.EqualTo():
            return mine == other
        case of.GreaterThan():
            return mine > other
        case of.GreaterThanOrEqual():
            return mine >= other
        case of.LessThan():
            return mine < other
    return mine <= other


@st.composite
def filters(draw: st.DrawFn) -> of.Filter:
    name = draw(st.sampled_from([*COLUMNS]))
    column, values = (name,), _HASHED.get(name, [])
    nulls = [of.IsNull(column), of.IsNotNull(column)]
    if not values:
        return draw(st.sampled_from(nulls))
    value = draw(st.sampled_from(values))
    several = tuple(draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=4)))
    made = [*nulls, of.EqualTo(column, value), of.In(column, several)]
    made += [of.EqualNullSafe(column, value), of.EqualNullSafe(column, None)]
    if name == "text":
        made += [kind(column, value) for kind in (of.StringStartsWith, of.StringEndsWith, of.StringContains)]
    if name != "flag":
        made += [kind(column, value) for kind in _ORDERED]
    one = draw(st.sampled_from(made))
    return of.Not(one) if draw(st.booleans()) else one


def spark_rows() -> list[dict[str, Any]]:
    rows = stored_rows()
    return rows + [{**row, "key": row["key"] + 100} for row in rows]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=st.lists(filters(), min_size=1, max_size=3))
@pytest.mark.soak
def test_pushed_and_handed_back_filters_give_what_spark_gives(
    server: GatewayServer, chosen: list[of.Filter]
) -> None:
    planned = plan_read(get_url(server), chosen, table="t", endpoints="2", columns="key")
    told = {row["key"] for row in planned.rows()}
    rows = {row["key"]: row for row in spark_rows()}
    left = [key for key in told if all(is_true(one, rows[key]) for one in planned.handed_back)]
    assert sorted(left) == sorted(
        key for key, row in rows.items() if all(is_true(one, row) for one in chosen)
    )


@pytest.mark.parametrize(
    ("one", "sql"),
    [
        (of.EqualTo(("id",), 7), '"id" = 7'),
        (of.Not(of.EqualTo(("id",), 7)), '"id" <> 7'),
        (of.Not(of.EqualNullSafe(("id",), 7)), '("id" <> 7 OR "id" IS NULL)'),
        (of.In(("id",), (1, None)), '"id" IN (1)'),
        (of.EqualTo(("text",), "it's"), "\"text\" = 'it''s'"),
        (of.StringStartsWith(("text",), "ab"), "(\"text\" >= 'ab' AND \"text\" < 'ac')"),
        (of.EqualTo(("blob",), b"\x00a"), "\"blob\" = X'0061'"),
        (of.LessThan(("day",), _DAY), "\"day\" < DATE '2026-02-28'"),
        (of.EqualTo(("price",), Decimal("-0.05")), "\"price\" = CAST('-0.05' AS DECIMAL(12, 2))"),
        (of.Not(of.EqualTo(("flag",), True)), '"flag" <> true'),
        (of.IsNotNull(("nested",)), '"nested" IS NOT NULL'),
    ],
)
def test_conditions_are_plain_sql(one: of.Filter, sql: str) -> None:
    made = translate_filter(one, SCHEMA)
    assert made is not None
    assert (made.sql, made.is_exact) == (sql, True)


@pytest.mark.parametrize(
    "one",
    [
        of.StringContains(("text",), "a"),  # LIKE makes more than a scan of the statement
        of.EqualTo(("nested", "x"), 1),
        of.EqualTo(("nested",), [1]),
        of.EqualTo(("small",), 300),
        of.EqualTo(("u",), Decimal(-1)),
        of.EqualTo(("price",), Decimal("0.001")),
        of.EqualTo(("moment",), _MOMENT.replace(tzinfo=UTC)),
        of.EqualTo(("instant",), _MOMENT.replace(tzinfo=UTC)),  # microseconds of a column in milliseconds
        of.EqualTo(("double",), math.nan),
        of.Not(of.GreaterThan(("double",), 1.0)),
        of.In(("id",), tuple(range(5000))),
        of.Not(of.In(("id",), (1, None))),
        of.EqualTo(("text",), "\0"),
        of.EqualTo(("nowhere",), 1),
    ],
)
def test_what_may_differ_stays_with_spark(one: of.Filter) -> None:
    assert translate_filter(one, SCHEMA) is None


def test_floats_are_looked_at_again() -> None:
    made = translate_filter(of.GreaterThan(("double",), 1.5), SCHEMA)
    assert made is not None
    assert not made.is_exact
