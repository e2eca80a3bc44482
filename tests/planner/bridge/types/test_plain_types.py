"""Results: plain types, and batches under exactly the schema that was advertised."""

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError
from lance_gateway.planner.bridge.types.plain_types import (
    bind_value,
    bindable_type,
    cast_values,
    check_types,
    conform,
    normalize_layout,
    plain_schema,
    plain_type,
)


@pytest.mark.parametrize(
    ("data_type", "plain"),
    [
        (pa.int32(), pa.int32()),
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
        (pa.list_(pa.string_view()), pa.list_(pa.string())),
        (pa.list_view(pa.int32()), pa.list_(pa.int32())),
        (pa.large_list(pa.string_view()), pa.large_list(pa.string())),
        (pa.list_(pa.float32(), 3), pa.list_(pa.float32(), 3)),
        (
            pa.struct([pa.field("a", pa.string_view(), nullable=False)]),
            pa.struct([pa.field("a", pa.string(), nullable=False)]),
        ),
        (pa.map_(pa.string_view(), pa.string_view()), pa.map_(pa.string(), pa.string())),
    ],
)
def test_a_schema_is_advertised_with_plain_types(data_type: pa.DataType, plain: pa.DataType) -> None:
    schema = pa.schema([pa.field("a", data_type, nullable=False, metadata={"b": "c"})], metadata={"d": "e"})
    expected = pa.schema([pa.field("a", plain, nullable=False)])
    assert plain_schema(schema).equals(expected, check_metadata=True)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "b"]).cast(pa.string_view()),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.array(["a", None, "b"]).cast(pa.large_string()),
    ],
)
def test_a_batch_is_cast_to_what_was_advertised(column: pa.Array) -> None:
    schema = pa.schema([("a", pa.string())])
    batch = conform(pa.record_batch({"a": column}), schema)
    assert batch.schema == schema
    assert batch.column(0).to_pylist() == ["a", None, "b"]


LISTS = [[1, None, 3], None, [2], [], [4, 5]]


@pytest.mark.parametrize(
    ("view", "plain"),
    [
        (pa.list_view(pa.int64()), pa.list_(pa.int64())),
        (pa.large_list_view(pa.int64()), pa.large_list(pa.int64())),
    ],
)
@pytest.mark.parametrize("part", [slice(None), slice(2, 4), slice(1, 2), slice(0, 0)])
def test_list_views_become_lists(view: pa.DataType, plain: pa.DataType, part: slice) -> None:
    column = pa.array(LISTS, view)[part]
    batch = conform(pa.record_batch({"a": column}), pa.schema([("a", plain)]))
    batch.validate(full=True)
    assert batch.column(0).to_pylist() == LISTS[part]


def test_what_is_nested_in_them_is_laid_out_too() -> None:
    ends = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    assert normalize_layout(ends).to_pylist() == ["a", "a", "b"]
    nested = normalize_layout(pa.array([[[1], None], []], pa.list_view(pa.list_view(pa.int8()))))
    nested.validate(full=True)
    assert nested.type == pa.list_(pa.list_(pa.int8()))
    assert nested.to_pylist() == [[[1], None], []]


def test_list_views_within_other_types_keep_their_order() -> None:
    views = pa.ListViewArray.from_arrays(
        pa.array([3, 0, 1], pa.int32()), pa.array([2, 1, 2], pa.int32()), pa.array([10, 11, 12, 13, 14])
    )
    for nested in (
        pa.StructArray.from_arrays([views], ["a"]),
        pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), views),
    ):
        made = conform(pa.record_batch({"a": nested}), pa.schema([("a", plain_type(nested.type))]))
        made.validate(full=True)
        assert made.column(0).to_pylist() == nested.to_pylist()


def test_a_dictionary_without_entries_has_rows_that_are_null() -> None:
    rows = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string_view()))
    assert normalize_layout(rows).equals(pa.nulls(2, pa.string()))


def test_rows_of_null_structs_may_point_into_a_dictionary_without_entries() -> None:
    kind = pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))])
    rows = normalize_layout(pa.array([None, [None]], pa.list_(kind)))
    assert rows.to_pylist() == [None, [None]]
    assert rows.type == pa.list_(pa.struct([("d", pa.string())]))


def test_a_batch_takes_the_advertised_nullability() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    assert conform(pa.record_batch({"a": [1]}), schema).schema == schema
    with pytest.raises(LanceGatewayError, match="'a' was advertised without NULLs and holds 1"):
        conform(pa.record_batch({"a": pa.array([None], pa.int64())}), schema)


def test_a_batch_that_does_not_fit_is_refused() -> None:
    schema = pa.schema([("a", pa.int8())])
    with pytest.raises(LanceGatewayError, match="does not fit the advertised int8"):
        conform(pa.record_batch({"a": [1000]}), schema)
    with pytest.raises(LanceGatewayError, match=r"\['b', 'c'\], advertised were \['a'\]"):
        conform(pa.record_batch({"b": [1], "c": [2]}), schema)


@pytest.mark.parametrize(
    ("data_type", "plain"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.int64(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.decimal32(4, 1), pa.decimal128(4, 1)),
        (pa.decimal64(12, 1), pa.decimal128(12, 1)),
        (pa.decimal256(50, 3), pa.decimal256(50, 3)),
        (pa.string_view(), pa.string()),
        (pa.timestamp("us", "Europe/Berlin"), pa.timestamp("us")),
        (pa.list_(pa.float16(), 4), pa.list_(pa.float32(), 4)),
        (pa.list_(pa.struct([("a", pa.uint8())])), pa.list_(pa.struct([("a", pa.int16())]))),
        (pa.map_(pa.uint8(), pa.uint16()), pa.map_(pa.int16(), pa.int32())),
    ],
)
def test_the_jdbc_driver_gets_types_that_it_reads_rightly(data_type: pa.DataType, plain: pa.DataType) -> None:
    assert plain_type(data_type, "jdbc") == plain


@pytest.mark.parametrize(
    ("values", "plain", "expected"),
    [
        (pa.array([200, None], pa.uint8()), pa.int16(), [200, None]),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([[0.5]], pa.list_(pa.float16())), pa.list_(pa.float32()), [[0.5]]),
        (
            pa.array([3600], pa.timestamp("s", "Europe/Berlin")),
            pa.timestamp("s"),
            [dt.datetime(1970, 1, 1, 1)],
        ),
    ],
)
def test_no_value_is_lost_on_the_jdbc_driver(
    values: pa.Array, plain: pa.DataType, expected: list[object]
) -> None:
    batch = conform(pa.record_batch({"a": values}), pa.schema([("a", plain)]))
    assert batch.column(0).to_pylist() == expected


@pytest.mark.parametrize(
    ("data_type", "bound"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.uint64()),
        (pa.timestamp("ns"), pa.timestamp("ms")),
        (pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.time64("us"), pa.time32("ms")),
        (pa.date64(), pa.date32()),
        (pa.string(), pa.string()),
        (pa.float16(), pa.float32()),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.list_(pa.float16(), 4), pa.list_(pa.float32(), 4)),
    ],
)
def test_the_jdbc_driver_binds_what_can_be_cast(data_type: pa.DataType, bound: pa.DataType) -> None:
    assert bindable_type(data_type, "jdbc") == bound
    assert bindable_type(data_type, "arrow") == data_type
    assert pa.nulls(1, bound).cast(data_type).type == data_type


def _nest(kind: pa.DataType, levels: int) -> pa.DataType:
    for _ in range(levels):
        kind = pa.list_(kind)
    return kind


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (_nest(pa.int8(), 65), "column 'a' has 65 levels, and at most 64 are taken"),
        (pa.dictionary(pa.int8(), _nest(pa.int8(), 64)), "has 65 levels"),
        (pa.binary(1_000_001), "column 'a' has a fixed size of 1000001 elements or bytes"),
        (pa.list_(pa.struct([("b", pa.list_(pa.int8(), 1001))]), 1000), "a fixed size of 1001000"),
    ],
)
def test_types_that_are_too_deep_or_too_wide_are_refused(kind: pa.DataType, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        check_types(pa.schema([("a", kind)]))


def test_types_of_64_levels_and_vectors_are_taken() -> None:
    check_types(pa.schema([("a", _nest(pa.int8(), 64)), ("b", pa.list_(pa.float32(), 4096))]))


@pytest.mark.parametrize("rows", [slice(0, 4), slice(1, 3), slice(3, 4), slice(2, 2)])
def test_uuids_are_written_as_sql_does(rows: slice) -> None:
    values = [UUID(int=1), None, UUID(int=2**128 - 1), UUID("12345678-1234-5678-9abc-def012345678")]
    batch = pa.record_batch({"u": pa.array([one and one.bytes for one in values], pa.uuid())})
    schema = plain_schema(batch.schema, "jdbc")
    assert schema.types == [pa.string()]
    written = conform(batch.slice(rows.start, rows.stop - rows.start), schema)
    assert written["u"].to_pylist() == [one and str(one) for one in values[rows]]


@pytest.mark.parametrize("precision", [38, 76])
def test_a_decimal_becomes_the_nearest_double(precision: int) -> None:
    exact = ["9.95", "0.0000001", "-12345678901234567890.12", "0.1234567891"]
    kind = pa.decimal256(precision, 10) if precision > 38 else pa.decimal128(precision, 10)
    values = pa.array([*map(Decimal, exact), None], kind)
    assert cast_values(values, pa.float64()).to_pylist() == [*map(float, exact), None]
    assert bind_value(1, values[0], pa.float64()).as_py() == 9.95
    assert bind_value(1, values[0], pa.float32()).as_py() == pa.scalar(9.95, pa.float32()).as_py()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)], ids=str)
def test_bound_texts_are_bytes_as_postgresql_writes_them(kind: pa.DataType):
    for text in (r"\x6162", "ab"):
        assert bind_value(1, pa.scalar(text), kind) == pa.scalar(b"ab", kind)
    with pytest.raises(InvalidInputError, match=r"parameter \$1 .* pairs of hexadecimal digits"):
        bind_value(1, pa.scalar(r"\x6"), kind)
