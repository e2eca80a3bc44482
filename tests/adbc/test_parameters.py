"""Parameters of every type, as ADBC binds them."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.adbc.values import VALUES

EVERY_TYPE = pytest.mark.parametrize("name", VALUES)
PYTHON_VALUES = [
    ("bool_", True),
    ("int64_", 7),
    ("float64_", 2.5),
    ("string_", "text"),
    ("binary_", b"\x01"),
    ("date32_", VALUES["date32_"][1]),
    ("time64_us", VALUES["time64_us"][1]),
    ("timestamp_us", VALUES["timestamp_us"][1]),
    ("instant_utc", VALUES["instant_utc"][1]),
    ("decimal128_", VALUES["decimal128_"][1]),
    ("list_", [1, 2]),
]


def bound(name: str, *values: Any) -> pa.Table:
    return pa.table({"value": pa.array(values, VALUES[name][0])})


@pytest.mark.slow
@EVERY_TYPE
def test_a_value_equals_the_column_that_holds_it(cursor: Any, name: str) -> None:
    kind, value = VALUES[name]
    cursor.execute(f"SELECT id, {name} FROM typed WHERE {name} = ?", bound(name, value))
    table = cursor.fetch_arrow_table()
    assert table.to_pylist() == [{"id": 1, name: value}]
    assert table.schema.field(name).type == kind
    cursor.execute(f"SELECT id FROM typed WHERE {name} = ?", bound(name, None))
    assert cursor.fetchall() == []


TEXT = VALUES["string_"][1]
# Other forms in which clients may hold a value: the column, and the array that is bound.
FORMS = {
    "view": ("string_", pa.array([TEXT], pa.string_view())),
    "large": ("string_", pa.array([TEXT], pa.large_string())),
    "dictionary": ("string_", pa.array([TEXT]).dictionary_encode()),
    "run ends": ("string_", pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([TEXT]))),
    "extension": ("string_", pa.array([TEXT], pa.json_())),
    "binary view": ("binary_", pa.array([VALUES["binary_"][1]], pa.binary_view())),
    "list view": ("list_", pa.array([[1, None, 3]], pa.list_view(pa.int64()))),
    "large list view": ("list_", pa.array([[1, None, 3]], pa.large_list_view(pa.int64()))),
    "list of a fixed size": ("list_", pa.array([[1, None, 3]], pa.list_(pa.int64(), 3))),
    "milliseconds": ("duration_s", pa.array([VALUES["duration_s"][1]], pa.duration("ms"))),
    "nanoseconds": ("duration_us", pa.array([1000], pa.duration("ns"))),
    "narrow integer": ("uint8_", pa.array([255], pa.int16())),
    "text for a number": ("int64_", pa.array([str(VALUES["int64_"][1])])),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_value_may_come_in_another_form(cursor: Any, form: str) -> None:
    name, array = FORMS[form]
    cursor.execute(f"SELECT id FROM typed WHERE {name} = ?", pa.table({"value": array}))
    assert cursor.fetchall() == [(1,)]


NARROW = [pa.decimal32(3, 2), pa.decimal64(3, 2), pa.decimal128(3, 2), pa.float32()]


@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_a_number_is_cast_to_what_the_statement_says(cursor: Any, kind: pa.DataType) -> None:
    value = pa.array([Decimal("1.25")]).cast(kind)
    cursor.execute("SELECT CAST(? AS DECIMAL(10, 2)) AS v", pa.table({"value": value}))
    assert cursor.fetchall() == [(Decimal("1.25"),)]


def test_intervals_are_bound_where_they_are_cast(cursor: Any) -> None:
    interval = pa.array([(1, 2, 3000)], pa.month_day_nano_interval())
    cursor.execute(
        "SELECT TIMESTAMP '2026-01-01 00:00:00' + CAST(? AS INTERVAL) AS v", pa.table({"value": interval})
    )
    assert cursor.fetch_arrow_table()["v"].cast(pa.timestamp("us")).to_pylist() == [
        dt.datetime(2026, 2, 3, 0, 0, 0, 3)
    ]


def test_an_array_is_searched_where_it_is_cast(cursor: Any) -> None:
    numbers = pa.table({"value": pa.array([[7, 8, 5000]])})
    cursor.execute("SELECT id FROM orders WHERE id = ANY(CAST(? AS BIGINT[])) ORDER BY id", numbers)
    assert cursor.fetchall() == [(7,), (8,)]


@pytest.mark.parametrize("name", ["int8_", "string_", "instant_berlin", "list_", "struct_"])
def test_null_is_not_distinct_from_null(cursor: Any, name: str) -> None:
    cursor.execute(f"SELECT id FROM typed WHERE {name} IS NOT DISTINCT FROM ?", bound(name, None))
    assert cursor.fetchall() == [(2,)]


@pytest.mark.parametrize(("name", "value"), PYTHON_VALUES, ids=[name for name, _ in PYTHON_VALUES])
def test_a_python_value_is_bound_by_its_own_type(cursor: Any, name: str, value: Any) -> None:
    cursor.execute(
        f"SELECT id FROM typed WHERE {name} = ? OR {name} IS NOT NULL AND ? IS NULL", (value, None)
    )
    expected = [(1,)]
    assert cursor.fetchall() == expected


OPEN = [
    ("SELECT ? AS v", (7,), pa.int64(), 7),
    ("SELECT ? AS v", ("x",), pa.string(), "x"),
    ("SELECT ? AS v", (Decimal("1.50"),), pa.decimal128(3, 2), Decimal("1.50")),
    ("SELECT abs(?) AS v", (-1.5,), pa.float64(), 1.5),
    ("SELECT sum(id * ?) AS v FROM typed", (1.5,), pa.float64(), 4.5),
    ("SELECT sum(CASE WHEN id > 1 THEN ? ELSE ? END) AS v FROM typed", (1, 2), pa.int64(), 3),
    ("SELECT max(id) AS v FROM typed WHERE id = ANY(?)", ([1, 9],), pa.int64(), 1),
    ("SELECT coalesce(?, text) AS v FROM (SELECT 'y' AS text) t", ("x",), pa.string(), "x"),
]


@pytest.mark.parametrize(("sql", "values", "kind", "expected"), OPEN)
def test_a_parameter_that_meets_nothing_has_the_type_of_its_value(
    cursor: Any, sql: str, values: tuple[Any, ...], kind: pa.DataType, expected: Any
) -> None:
    cursor.execute(sql, values)
    table = cursor.fetch_arrow_table()
    assert (table.schema.types, table.to_pylist()) == ([kind], [{"v": expected}])


def test_one_cursor_binds_one_type_after_another(cursor: Any) -> None:
    for value, expected in ((2, 2), (0.5, 0.5), ("0.5", "0.5"), (None, None), (3, 3)):
        cursor.execute("SELECT ? AS v", (value,))
        assert cursor.fetchall() == [(expected,)]


def test_outputs_may_share_a_name(cursor: Any) -> None:
    cursor.execute("SELECT id, id, count(*) AS id FROM typed WHERE id = ? GROUP BY id", (1,))
    assert [column[0] for column in cursor.description] == ["id", "id", "id"]
    assert cursor.fetchall() == [(1, 1, 1)]


def test_a_parameter_that_is_cast_is_what_it_is_cast_to(cursor: Any) -> None:
    cursor.execute("SELECT CAST(? AS BIGINT) AS v", (7,))
    assert cursor.fetchall() == [(7,)]


def test_several_rows_of_parameters_run_a_query_for_each(cursor: Any) -> None:
    cursor.execute("SELECT id FROM orders WHERE id = ? OR id = ?", pa.table({"a": [1, 2], "b": [3, 4]}))
    assert sorted(cursor.fetchall()) == [(1,), (2,), (3,), (4,)]


def test_executemany_is_for_updates_and_says_so(cursor: Any) -> None:
    with pytest.raises(Exception, match="cannot be an update: execute it as a query") as caught:
        cursor.executemany("SELECT id FROM orders WHERE id = ?", [(1,), (2,)])
    assert caught.value.status_code.name == "INVALID_ARGUMENT"


def test_prepared_parameters_have_types(cursor: Any) -> None:
    schema = cursor.adbc_prepare("SELECT id FROM orders WHERE customer = ? AND amount > ?")
    assert schema == pa.schema({"$1": pa.string(), "$2": pa.float64()})


@pytest.mark.parametrize(
    ("values", "said"), [((1,), "2 parameters and 1"), ((1, 2, 3), "2 parameters and 3")]
)
def test_a_wrong_number_of_parameters_is_refused(cursor: Any, values: tuple[int, ...], said: str) -> None:
    with pytest.raises(Exception, match=said) as caught:
        cursor.execute("SELECT id FROM orders WHERE id = ? OR id = ?", values)
    assert caught.value.status_code.name == "INVALID_ARGUMENT"


def test_parameters_in_a_subquery_and_a_view_are_bound_too(cursor: Any) -> None:
    statement = (
        "SELECT count(*) FROM big_orders WHERE id IN (SELECT id FROM orders WHERE id < ?) AND amount < ?"
    )
    cursor.execute(statement, (900, 410.0))
    assert cursor.fetchall() == [(18,)]
