"""Values become values of a column's type, or the error says which value of which row is none."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.writes.dml.values.assignment import assign, check_assignable

VECTOR = pa.list_(pa.float32(), 3)
MOMENT = datetime(2023, 11, 14, 22, 13, 20, 123456)
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)

FITTING: list[tuple[list[Any], pa.DataType | None, pa.DataType, list[Any]]] = [
    ([1, None, -128], None, pa.int8(), [1, None, -128]),
    ([1.0, 2.0], None, pa.int32(), [1, 2]),
    ([0.1, float("inf")], None, pa.float32(), [pytest.approx(0.1), float("inf")]),
    ([7], None, pa.decimal128(10, 2), [Decimal("7.00")]),
    ([1.25], None, pa.decimal128(10, 2), [Decimal("1.25")]),
    (["1.5"], None, pa.decimal128(10, 2), [Decimal("1.50")]),
    ([Decimal("1.5")], None, pa.float64(), [1.5]),
    ([Decimal("9.95")], pa.decimal128(38, 10), pa.float64(), [9.95]),
    ([Decimal("1.235"), Decimal("-1.235")], None, pa.decimal128(10, 2), [Decimal("1.24"), Decimal("-1.24")]),
    (["1.239", None], None, pa.decimal128(10, 2), [Decimal("1.24"), None]),
    ([" 12 ", None], None, pa.int32(), [12, None]),
    (["true", "0", None, " Yes", "f", "OFF"], None, pa.bool_(), [True, False, None, True, False, False]),
    ([1, 0], None, pa.bool_(), [True, False]),
    ([1, None], None, pa.string(), ["1", None]),
    (["2024-02-29"], None, pa.date32(), [date(2024, 2, 29)]),
    (
        ["2024-02-29 23:59:59", None, "1969-12-31"],
        None,
        pa.date32(),
        [date(2024, 2, 29), None, date(1969, 12, 31)],
    ),
    (["2024-02-29T23:30:00-01:00"], None, pa.date32(), [date(2024, 3, 1)]),
    ([datetime(2024, 1, 1)], pa.timestamp("us"), pa.date32(), [date(2024, 1, 1)]),
    ([datetime(2024, 1, 1, 5)], pa.timestamp("us", "UTC"), pa.date32(), [date(2024, 1, 1)]),
    (
        [1_700_000_000_123_456_789],
        pa.timestamp("ns"),
        pa.timestamp("ms"),
        [MOMENT.replace(microsecond=123000)],
    ),
    (["2023-11-14 22:13:20.123456789"], None, pa.timestamp("us"), [MOMENT]),
    (["12:30:00"], None, pa.time64("us"), [time(12, 30)]),
    (["2024-01-01 12:00:00"], None, pa.timestamp("us"), [NOON.replace(tzinfo=None)]),
    (["2024-01-01"], None, pa.timestamp("ms"), [datetime(2024, 1, 1)]),
    (
        ["2024-01-01T14:00:00+02:00", "2024-01-01 12:00:00Z", "2024-01-01 12:00"],
        None,
        pa.timestamp("us", "UTC"),
        [NOON] * 3,
    ),
    ([NOON], pa.timestamp("us", "UTC"), pa.timestamp("ms"), [NOON.replace(tzinfo=None)]),
    ([[1, 2, 3], None], None, VECTOR, [[1.0, 2.0, 3.0], None]),
    (["[1, 2.5, -3e1]", None], None, VECTOR, [[1.0, 2.5, -30.0], None]),
    ([[1.0, 2.0, 3.0]], pa.list_(pa.float64(), 3), VECTOR, [[1.0, 2.0, 3.0]]),
    ([None, None], pa.null(), VECTOR, [None, None]),
    ([[1, 2], [], None], None, pa.list_(pa.int8()), [[1, 2], [], None]),
    ([["a"]], pa.large_list(pa.string()), pa.list_(pa.large_string()), [["a"]]),
    ([[1], [2, 3]], pa.list_view(pa.int32()), pa.list_(pa.int64()), [[1], [2, 3]]),
    (
        [{"b": "x", "a": 1}, None],
        None,
        pa.struct([("a", pa.int8()), ("b", pa.string()), ("c", pa.bool_())]),
        [{"a": 1, "b": "x", "c": None}, None],
    ),
    (["a", "b", "a"], None, pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    (["a"], pa.dictionary(pa.int32(), pa.string()), pa.string(), ["a"]),
    (["a"], pa.string_view(), pa.large_string(), ["a"]),
    ([b"abc"], None, pa.binary(3), [b"abc"]),
    (["abc"], None, pa.large_binary(), [b"abc"]),
    ([r"\x6162", "ab", r"\x", None], None, pa.binary(), [b"ab", b"ab", b"", None]),
    ([r"\x616263"], None, pa.binary(3), [b"abc"]),
    ([b"abc"], None, pa.string(), ["abc"]),
]


@pytest.mark.parametrize(
    ("given", "kind", "column", "expected"),
    FITTING,
    ids=[f"{i}: {pa.array(one[0], one[1]).type} -> {one[2]}" for i, one in enumerate(FITTING)],
)
def test_fits(given: list[Any], kind: pa.DataType | None, column: pa.DataType, expected: list[Any]) -> None:
    made = assign(pa.array(given, kind), pa.field("c", column))
    made.validate(full=True)
    assert made.type == column
    assert made.to_pylist() == expected


@pytest.mark.parametrize(
    ("given", "column", "message"),
    [
        ([1, 300], pa.int8(), "row 2: 300 does not fit"),
        ([-1], pa.uint8(), "row 1: -1 does not fit"),
        ([0.5], pa.int64(), "row 1: 0.5 does not fit"),
        ([1e300], pa.float32(), "out of range for float"),
        ([2**53 + 1], pa.float64(), "9007199254740993 does not fit"),
        (["1.2.3"], pa.decimal128(10, 2), "'1.2.3' does not fit: no number"),
        ([Decimal("123456789.1")], pa.decimal128(10, 2), "does not fit in precision 10"),
        ([10**9], pa.decimal128(10, 2), "does not fit in precision 10"),
        (["x"], pa.int32(), "'x' does not fit"),
        ([2], pa.bool_(), "neither 0 nor 1"),
        (["2023-02-29"], pa.date32(), "'2023-02-29' does not fit"),
        (["2024-01-01T00:00:00Z"], pa.timestamp("us"), "it has a time zone, and the column has none"),
        ([[1, 2, 3], [1, 2]], VECTOR, "row 2: .* it has 2 dimensions, and 3 are needed"),
        ([[1, None, 3]], VECTOR, "a vector has no NULLs"),
        (["[1, 2]"], VECTOR, "it has 2 dimensions, and 3 are needed"),
        (["1, 2, 3"], VECTOR, "no list of numbers"),
        ([b"ab"], pa.binary(3), "it has not 3 bytes"),
        ([r"\x6"], pa.binary(), "has something else than pairs of hexadecimal digits"),
        ([b"\xff"], pa.string(), "Invalid UTF8"),
        ([{"z": 1}], pa.struct([("a", pa.int8())]), "it has a field 'z', and the column has a"),
    ],
    ids=str,
)
def test_does_not_fit(given: list[Any], column: pa.DataType, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as refused:
        assign(pa.array(given), pa.field("c", column))
    assert str(refused.value).startswith(f"column 'c' ({column}), row ")


def test_columns_of_the_right_type_are_not_copied() -> None:
    given = pa.chunked_array([[1, 2], [3]], pa.int64())
    assert assign(given, pa.field("c", pa.int64())) is given


def test_rows_are_counted_across_chunks_and_batches() -> None:
    given = pa.chunked_array([["1", "2"], ["3", "x"]])
    with pytest.raises(InvalidInputError, match="row 14: 'x'"):
        assign(given, pa.field("c", pa.int64()), first_row=11)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.list_(pa.int8()), pa.int8()),
        (pa.string(), pa.struct([("a", pa.int8())])),
        (pa.int64(), pa.timestamp("us")),
        (pa.bool_(), pa.int32()),
        (pa.int32(), pa.binary()),
    ],
    ids=str,
)
def test_types_that_never_fit_are_known_without_values(kind: pa.DataType, column: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match=r"column 'c' is .* and is given"):
        check_assignable(kind, pa.field("c", column))
