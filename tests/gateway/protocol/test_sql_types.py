"""What Arrow types are called in SQL, and how long their values are."""

import pyarrow as pa
import pytest

from lance_gateway.gateway.protocol.sql_types import ALL_TYPES, SqlType, find_type_name, precision_and_scale
from lance_gateway.memwal.errors import InvalidInputError

NAMES = [
    (pa.null(), "NULL", None, None),
    (pa.bool_(), "BOOLEAN", 1, None),
    (pa.int8(), "TINYINT", 3, 0),
    (pa.uint64(), "BIGINT UNSIGNED", 20, 0),
    (pa.float16(), "HALF FLOAT", 3, None),
    (pa.float32(), "REAL", 7, None),
    (pa.float64(), "DOUBLE", 15, None),
    (pa.decimal128(12, 2), "DECIMAL", 12, 2),
    (pa.decimal256(60, 0), "DECIMAL", 60, 0),
    (pa.large_string(), "VARCHAR", None, None),
    (pa.binary(16), "BYTEA", None, None),
    (pa.date32(), "DATE", 10, 0),
    (pa.date64(), "DATE", 10, 0),
    (pa.time32("s"), "TIME", 8, 0),
    (pa.time64("ns"), "TIME", 18, 9),
    (pa.timestamp("s"), "TIMESTAMP", 19, 0),
    (pa.timestamp("us"), "TIMESTAMP", 26, 6),
    (pa.timestamp("ms", "Europe/Berlin"), "TIMESTAMP WITH TIME ZONE", 29, 3),
    (pa.duration("us"), "DURATION", None, None),
    (pa.month_day_nano_interval(), "INTERVAL", None, None),
    (pa.list_(pa.float32(), 3), "ARRAY<REAL>", None, None),
    (pa.large_list(pa.list_(pa.date32())), "ARRAY<ARRAY<DATE>>", None, None),
    (pa.struct({"a": pa.int64(), "b": pa.string()}), "STRUCT<a BIGINT, b VARCHAR>", None, None),
    (pa.map_(pa.string(), pa.int32()), "MAP<VARCHAR, INTEGER>", None, None),
    (pa.sparse_union([pa.field("a", pa.int64())]), "sparse_union<a: int64=0>", None, None),
]


@pytest.mark.parametrize(
    ("data_type", "name", "precision", "scale"), NAMES, ids=[str(one[0]) for one in NAMES]
)
def test_a_type_has_a_name_and_a_length(
    data_type: pa.DataType, name: str, precision: int | None, scale: int | None
) -> None:
    assert find_type_name(data_type) == name
    assert precision_and_scale(data_type) == (precision, scale)


def test_a_value_is_no_longer_than_its_column_says() -> None:
    largest = {"TINYINT": 127, "SMALLINT": 2**15 - 1, "INTEGER": 2**31 - 1, "BIGINT": 2**63 - 1}
    sizes = {kind.name: kind.column_size for kind in ALL_TYPES}
    assert {name: sizes[name] for name in largest} == {name: len(str(most)) for name, most in largest.items()}
    assert sizes["BIGINT UNSIGNED"] == len(str(2**64 - 1))


def test_names_are_unique_and_in_the_order_of_the_protocol() -> None:
    order = [(kind.number, kind.name) for kind in ALL_TYPES]
    assert order == sorted(order)
    assert len({name for _, name in order}) == len(order)


def test_half_a_literal_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="prefix and a suffix"):
        SqlType("ODD", 0, prefix="'")
