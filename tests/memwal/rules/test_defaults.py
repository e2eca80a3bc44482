"""Defaults: how often they change, and what they are for each type."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.rules import DEFAULT, ColumnDefault, DefaultValues, list_defaults
from lance_gateway.memwal.rules.defaults import Change


@pytest.mark.parametrize(
    ("expression", "change"),
    [
        ("7", Change.NEVER),
        ("upper('a') || 'b'", Change.NEVER),
        ("now()", Change.BY_STATEMENT),
        ("CURRENT_TIMESTAMP", Change.BY_STATEMENT),
        ("current_date", Change.BY_STATEMENT),
        ("uuid()", Change.BY_ROW),
        ("concat('u-', uuid())", Change.BY_ROW),
        ("concat(uuid(), now())", Change.BY_ROW),
    ],
)
def test_how_often_the_value_changes(expression: str, change: Change) -> None:
    assert ColumnDefault(expression, pa.string()).change is change


@pytest.mark.parametrize(
    ("expression", "kind", "value"),
    [
        ("0", pa.decimal128(10, 2), Decimal("0.00")),
        ("'2024-02-29'", pa.timestamp("us"), dt.datetime(2024, 2, 29)),
        ("DATE '2024-02-29'", pa.date32(), dt.date(2024, 2, 29)),
        ("TRUE", pa.bool_(), True),
        ("X'00ff'", pa.binary(), b"\x00\xff"),
        ("1 + 1", pa.int8(), 2),
    ],
)
def test_values_have_the_type_of_their_column(expression: str, kind: pa.DataType, value: object) -> None:
    built = DefaultValues({"c": ColumnDefault(expression, kind)}).build(pa.field("c", kind), 3)
    assert (built.type, built.to_pylist()) == (kind, [value] * 3)


def test_a_statement_has_one_time_and_a_uuid_for_each_row() -> None:
    kind = pa.timestamp("us")
    defaults = DefaultValues({"at": ColumnDefault("now()", kind), "id": ColumnDefault("uuid()", pa.string())})
    at, key = pa.field("at", kind), pa.field("id", pa.string())
    times = defaults.build(at, 2).to_pylist() + defaults.build(at, 2).to_pylist()
    keys = defaults.build(key, 2).to_pylist() + defaults.build(key, 2).to_pylist()
    assert len(set(times)) == 1
    assert len(set(keys)) == 4
    assert abs(times[0] - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(minutes=10)


def test_columns_without_a_default_are_null() -> None:
    assert DefaultValues({}).build(pa.field("n", pa.int32()), 2).to_pylist() == [None, None]


@pytest.mark.parametrize(
    "expression", ["other", "(SELECT 1)", "max(1)", "1 2", "1); DROP TABLE t; (", "(" * 200 + "1" + ")" * 200]
)
def test_what_is_no_default(expression: str) -> None:
    with pytest.raises(InvalidInputError):
        _ = ColumnDefault(expression, pa.int32()).change


def test_defaults_are_in_the_metadata_of_columns() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), metadata={DEFAULT: b"7"}), pa.field("b", pa.int32())])
    assert list_defaults(schema) == {"a": ColumnDefault("7", pa.int32())}
