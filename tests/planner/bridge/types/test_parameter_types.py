"""Parameters: literals that are exactly the bound value, and the types that DataFusion expects."""

import datetime as dt
import decimal
from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.bridge.types.parameter_types import infer_parameter_types, sql_literal
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.names import TABLES, bound, context, context_with

CONTEXT = context()

VALUES = [
    *(pa.scalar(value, pa.int8()) for value in (0, -128, 127)),
    *(pa.scalar(value, pa.int16()) for value in (-32768, 32767)),
    *(pa.scalar(value, pa.int32()) for value in (-(2**31), 2**31 - 1)),
    *(pa.scalar(value, pa.int64()) for value in (-(2**63), 2**63 - 1, -1)),
    *(
        pa.scalar(value, dtype())
        for value, dtype in ((255, pa.uint8), (65535, pa.uint16), (2**32 - 1, pa.uint32))
    ),
    pa.scalar(2**64 - 1, pa.uint64()),
    *(pa.scalar(value) for value in (0.0, -0.0, 1.5, -1e300, 5e-324, 0.1, 1e22, float("inf"), float("-inf"))),
    *(pa.scalar(value, pa.float32()) for value in (0.1, -3.4e38, float("inf"))),
    pa.scalar(1.5, pa.float16()),
    pa.scalar(decimal.Decimal("-1.25"), pa.decimal128(10, 2)),
    pa.scalar(decimal.Decimal("12345678901234567890123456789012345.678"), pa.decimal128(38, 3)),
    pa.scalar(decimal.Decimal("1e40"), pa.decimal256(50, 3)),
    pa.scalar(decimal.Decimal("1.5"), pa.decimal32(5, 2)),
    *(pa.scalar(value) for value in ("", "it's", "a\\b\n\t", "FROM orders -- ?", "é😀", "$1", '"')),
    pa.scalar("large", pa.large_string()),
    pa.scalar("view", pa.string_view()),
    *(pa.scalar(value) for value in (b"", b"\x00\xff'")),
    pa.scalar(b"large", pa.large_binary()),
    pa.scalar(b"view", pa.binary_view()),
    pa.scalar(b"abcd", pa.binary(4)),
    pa.scalar(True),
    pa.scalar(False),
    pa.scalar(dt.date(1, 1, 1)),
    pa.scalar(dt.date(9999, 12, 31)),
    pa.scalar(86_400_000, pa.date64()),
    pa.scalar(3599, pa.time32("s")),
    pa.scalar(3599, pa.time32("ms")),
    pa.scalar(3599, pa.time64("us")),
    pa.scalar(3599, pa.time64("ns")),
    *(pa.scalar(-1_700_000_000, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")),
    *(pa.scalar(1_700_000_000, pa.timestamp("us", zone)) for zone in ("UTC", "+02:00", "Europe/Berlin")),
    *(pa.scalar(-5, pa.duration(unit)) for unit in ("s", "ms", "us", "ns")),
    pa.scalar((1, -2, 3), pa.month_day_nano_interval()),
    pa.scalar([1, None, -3]),
    pa.scalar([], pa.list_(pa.int64())),
    pa.scalar([1, 2], pa.list_(pa.int8())),
    pa.scalar([0.1, None, -2.5], pa.list_(pa.float32())),
    pa.scalar([0.1, float("inf")], pa.list_(pa.float32(), 2)),
    pa.scalar(["it's", None], pa.large_list(pa.string())),
    pa.scalar([[1], [], None], pa.list_(pa.list_(pa.int32()))),
    pa.scalar([dt.date(2024, 1, 1)]),
    pa.scalar([2**64 - 1], pa.list_(pa.uint64())),
    pa.scalar({"a": 1, "b's": "x", "c": None}),
    pa.scalar([{"a": 1}], pa.list_(pa.struct([("a", pa.int32())]))),
    pa.scalar([("k", 1)], pa.map_(pa.string(), pa.int64())),
]
NULLS = [
    pa.scalar(None, value.type)
    for value in {str(one.type): one for one in VALUES}.values()
]  # fmt: skip


def answer(literal: str) -> pa.Scalar:
    return CONTEXT.sql(f"SELECT {literal} AS v").to_arrow_table().column(0)[0]


@pytest.mark.slow
@pytest.mark.parametrize("value", [*VALUES, *NULLS], ids=lambda value: str(value.type))
def test_a_literal_is_the_value_in_value_and_type(value: pa.Scalar):
    found = answer(sql_literal(value))
    assert found.type == value.type
    assert found.equals(value)


@pytest.mark.parametrize("value", [*VALUES, *NULLS], ids=lambda value: str(value.type))
def test_a_bound_value_keeps_value_type_and_column_name(value: pa.Scalar):
    text, values = bound("SELECT ? IS NULL AS b, ?").with_values([pa.scalar(None, pa.int32()), value])
    found = context().sql(text, param_values=values).to_arrow_table()
    assert found.column(1)[0].type == value.type
    assert found.column(1)[0].equals(value)
    assert found.schema.names == ["b", "$2"] or pa.types.is_nested(value.type)


def test_bound_values_are_counted():
    with pytest.raises(InvalidInputError, match=r"2 parameter\(s\), and 1 value\(s\)"):
        bound("SELECT ?, ?").with_values([pa.scalar(1)])


def test_nan_is_nan():
    for dtype in (pa.float32(), pa.float64()):
        found = answer(sql_literal(pa.scalar(float("nan"), dtype)))
        assert found.type == dtype
        assert str(found) == "nan"


def test_minus_zero_keeps_its_sign():
    assert str(answer(sql_literal(pa.scalar(-0.0)))) == "-0.0"


def test_untyped_null():
    assert answer(sql_literal(pa.scalar(None))).type == pa.null()


def test_wrapped_values_become_plain():
    assert sql_literal(pa.array(["a"]).dictionary_encode()[0]) == "'a'"
    assert sql_literal(pa.scalar(None, pa.dictionary(pa.int8(), pa.string()))) == "arrow_cast(NULL, 'Utf8')"
    assert sql_literal(pa.RunEndEncodedArray.from_arrays([2], [7])[0]) == "7"
    assert sql_literal(pa.array([b"0" * 16], pa.binary(16)).cast(pa.uuid())[0]).startswith("arrow_cast(X'")


@pytest.mark.parametrize(
    "value",
    [
        pa.scalar(decimal.Decimal(12300), pa.decimal128(5, -2)),
        pa.scalar(None, pa.struct([('a"b', pa.int64())])),
    ],
    ids=str,
)
def test_values_without_a_literal_are_named(value: pa.Scalar):
    with pytest.raises(UnsupportedError, match=r"negative scale|struct field"):
        sql_literal(value)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.one_of(
        st.text().map(pa.scalar),
        st.binary().map(pa.scalar),
        st.integers(-(2**63), 2**63 - 1).map(pa.scalar),
        st.floats(allow_nan=False).map(pa.scalar),
        st.floats(width=32, allow_nan=False).map(lambda value: pa.scalar(value, pa.float32())),
        st.integers(-(2**63), 2**63 - 1).map(lambda value: pa.scalar(value, pa.timestamp("ns", "UTC"))),
        st.lists(st.one_of(st.none(), st.text())).map(lambda value: pa.scalar(value, pa.list_(pa.string()))),
    )
)
def test_any_value_survives(value: pa.Scalar):
    found = answer(sql_literal(value))
    assert found.type == value.type
    assert found.equals(value)


def expected_types(sql: str) -> list[str]:
    statement = bound(sql)
    found = context_with({one.private_name: TABLES[one.table] for one in statement.references})
    frame = found.sql(statement.text)
    count = statement.parameter_count
    return [
        str(one) for one in infer_parameter_types(frame.logical_plan(), count, frame.optimized_logical_plan)
    ]


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT id FROM orders WHERE id = ? AND item > ?", ["int64", "string"]),
        ("SELECT id FROM orders WHERE ? < day OR qty IN (1, ?)", ["date32[day]", "int32"]),
        ("SELECT id FROM orders WHERE qty BETWEEN ? AND ? AND item LIKE ?", ["int32", "int32", "string"]),
        ("SELECT id FROM orders WHERE parts = ?", ["list<item: int64>"]),
        ("SELECT CASE WHEN id = ? THEN 1 END FROM orders", ["int64"]),
        ("SELECT sum(qty) FILTER (WHERE qty > ?) FROM orders", ["int32"]),
        ("SELECT id FROM orders LIMIT ? OFFSET ?", ["int64", "int64"]),
        ("SELECT ?::date, CAST(? AS decimal(10, 2))", ["date32[day]", "decimal128(10, 2)"]),
        ("SELECT TRY_CAST(? AS timestamp)", ["timestamp[ns]"]),
        ("SELECT id FROM orders WHERE id IN (SELECT id FROM orders WHERE day = ?)", ["date32[day]"]),
        ("SELECT 1 FROM orders WHERE EXISTS (SELECT 1 FROM items WHERE id = 1 AND price > ?)", ["double"]),
        ("WITH a AS (SELECT id FROM orders WHERE qty = ?) SELECT id = ? FROM a", ["int32", "int64"]),
        ("SELECT $2, id FROM orders WHERE id = $1 AND qty = $1", ["int64", "string"]),
        ("SELECT ?, abs(?), ? + ?", ["string", "string", "string", "string"]),
        ("SELECT ? IS NULL", ["string"]),
        ("SELECT id FROM orders ORDER BY ?, CAST(? AS date)", ["string", "date32[day]"]),
        ("SELECT sum(id) OVER (PARTITION BY qty = ? ORDER BY day) FROM orders", ["int32"]),
        ("SELECT o.id FROM orders o JOIN items i ON i.price > ? AND i.price < o.id", ["double"]),
        ("SELECT a FROM (VALUES (1, CAST(? AS bigint)), (2, 3)) AS v (a, b)", ["int64"]),
        ("SELECT qty + ? AS a FROM orders GROUP BY a", ["int32"]),
        ("SELECT id FROM orders GROUP BY id HAVING id > ? LIMIT ?", ["int64", "int64"]),
        ("SELECT count(*) FROM orders UNION ALL SELECT id FROM orders WHERE qty = ?", ["int32"]),
        ("EXPLAIN SELECT id FROM orders WHERE id = ?", ["int64"]),
        ("SELECT 1", []),
    ],
)  # fmt: skip
def test_types_follow_from_use(sql: str, types: list[str]):
    assert expected_types(sql) == types


STRUCT = pa.struct([("a", pa.int64()), ("b", pa.decimal128(10, 2))])
NESTED = {
    "struct": (STRUCT, {"a": 1, "b": None}),
    "list": (pa.list_(STRUCT), [None, {"a": None, "b": None}]),
    "texts": (pa.list_(pa.string()), ["a", None]),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    root = tmp_path_factory.mktemp("typed")
    rows = {
        "id": [1, 2, 3],
        "b": [True, None, False],
        "d": pa.array([decimal.Decimal("1.10")] * 3, pa.decimal128(10, 2)),
        "bytes": pa.array([b"", b"a", None], pa.large_binary()),
        **{name: pa.array([value, None, value], kind) for name, (kind, value) in NESTED.items()},
    }
    lance.write_dataset(pa.table(rows), root / "t.lance", data_storage_version="2.2")
    engine = QueryEngine(Catalog.open(str(root)))
    yield engine
    engine.close()


@pytest.mark.parametrize(
    ("sql", "values", "expected"),
    [
        ("SELECT id FROM t WHERE id NOT IN (SELECT id FROM t WHERE b >= $1 AND FALSE)", [True], 3),
        ("SELECT id FROM t WHERE NULL AND id NOT IN (SELECT id FROM t WHERE b >= $1)", [True], 0),
        ("SELECT id FROM t WHERE TRUE OR EXISTS (SELECT 1 FROM t WHERE b >= $1)", [True], 3),
        ("SELECT id FROM t WHERE id < 0 AND id = (SELECT 1 FROM t WHERE FALSE AND b >= $1)", [True], 0),
        ("SELECT id FROM t WHERE FALSE AND id IN (SELECT id FROM t WHERE bytes IN ($1, X''))", [b"a"], 0),
        ("SELECT x FROM (SELECT id AS x, (SELECT 1 FROM t WHERE b > $1) AS y FROM t)", [True], 3),
        ("SELECT 1 FROM t WHERE id IN (SELECT 1 FROM t WHERE b = $1) GROUP BY CUBE (b)", [True], 2),
    ],
)  # fmt: skip
def test_types_follow_from_subqueries_that_no_row_needs(
    engine: QueryEngine, sql: str, values: list[object], expected: int
):
    prepared = engine.prepare(sql)
    kinds = {bool: pa.bool_(), bytes: pa.large_binary(), int: pa.int64()}
    scalars = [pa.scalar(value, kinds[type(value)]) for value in values]
    assert prepared.parameter_schema.types == [one.type for one in scalars]
    assert prepared.execute(scalars).read_all().num_rows == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("coalesce($1, '1.104')", False),
        ("CASE WHEN id > 0 THEN $1 ELSE '1.104' END", False),
        ("nullif($1, '1.104')", None),
    ],
)
def test_arguments_in_a_subquery_have_the_types_of_their_values(
    engine: QueryEngine, call: str, expected: bool | None
):
    inner = f"SELECT t.d = {call} AS v, CAST($2 AS int) AS w FROM t WHERE t.id = u.id"
    sql = f"SELECT q.v, q.w FROM t AS u CROSS JOIN LATERAL ({inner}) q WHERE u.id = 1"
    values = [pa.scalar(decimal.Decimal("1.104")), pa.scalar(2.0)]
    prepared = engine.prepare_statement(sql, bound=[one.type for one in values])
    assert isinstance(prepared, PreparedQuery)
    assert prepared.execute(values).read_all().to_pylist() == [{"v": expected, "w": 2}]
    assert engine.prepare(sql).parameter_schema.types[1] == pa.int32()


@pytest.mark.parametrize("column", NESTED)
@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id FROM t WHERE coalesce({c}, $1) = {c}", 2),
        ("SELECT id FROM t ORDER BY CASE {c} WHEN {c} THEN 1 WHEN $1 THEN 2 END", 3),
        ("SELECT {c} FROM t UNION SELECT $1", 2),
        ("SELECT {c} FROM t EXCEPT SELECT $1", 1),
        ("SELECT nullif({c}, $1) AS v FROM t", 3),
        ("SELECT id FROM t WHERE {c} IS DISTINCT FROM $1", 1),
    ],
)
def test_types_follow_from_nested_values(engine: QueryEngine, column: str, sql: str, expected: int):
    kind, value = NESTED[column]
    prepared = engine.prepare(sql.format(c=f'"{column}"'))
    assert prepared.parameter_schema.types == [kind]
    assert prepared.execute([pa.scalar(value, kind)]).read_all().num_rows == expected
    prepared.execute([pa.scalar(None, kind)]).read_all()


@pytest.mark.parametrize(
    "printed",
    [
        'Placeholder { id: "$1", field: Some(Field { name: "x", data_type: Utf8 })',
        'Cast(C { expr: Placeholder(Placeholder { id: "$1", field: None }), field: Field { data_type: Utf8',
        'fetch: Some(Placeholder(Placeholder { id: "$1", field: None }))',
    ],
)
def test_texts_are_no_types(printed: str):
    sql = f"SELECT '{printed}' AS a FROM orders WHERE item <> '{printed}' AND qty = ?"
    assert expected_types(sql) == ["int32"]


@pytest.mark.parametrize(
    "dtype",
    [
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.time64("ns"),
        pa.duration("ms"),
        pa.decimal256(50, 3),
        pa.binary(4),
        pa.list_(pa.float32(), 3),
        pa.large_list(pa.string()),
        pa.struct([("a", pa.int64()), ("b c", pa.list_(pa.timestamp("s", "Europe/Berlin")))]),
        pa.map_(pa.string(), pa.list_(pa.int64())),
        pa.month_day_nano_interval(),
        pa.float16(),
        pa.bool_(),
        pa.large_binary(),
    ],
    ids=str,
)
def test_every_column_type_is_read_back(dtype: pa.DataType):
    found = context_with({"t": pa.table({"c": pa.nulls(1, dtype)})})
    assert infer_parameter_types(found.sql("SELECT 1 FROM t WHERE c = $1").logical_plan(), 1) == (dtype,)


def test_dictionaries_and_views_are_asked_for_as_plain_types():
    for dtype in (pa.dictionary(pa.int8(), pa.string()), pa.string_view()):
        found = context_with({"t": pa.table({"c": pa.nulls(1, dtype)})})
        assert infer_parameter_types(found.sql("SELECT 1 FROM t WHERE c = $1").logical_plan(), 1) == (
            pa.string(),
        )
