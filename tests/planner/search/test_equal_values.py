"""Whether two stored values are the same, for columns of every type."""

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.planner.search.sources.same_rows import compare_values

POINT = pa.struct([("x", pa.float32()), ("name", pa.string())])


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        (pa.int64(), 1, 2),
        (pa.bool_(), True, False),
        (pa.float64(), 0.0, -0.0),
        (pa.float32(), math.nan, 1.0),
        (pa.float16(), 1.5, 2.5),
        (pa.string(), "a", ""),
        (pa.large_binary(), b"a", b"A"),
        (pa.decimal128(10, 2), Decimal("1.50"), Decimal("1.51")),
        (pa.timestamp("us"), datetime(2026, 1, 1), datetime(2026, 1, 2)),
        (pa.dictionary(pa.int8(), pa.string()), "a", "b"),
        (pa.list_(pa.float32(), 2), [1.0, 2.0], [2.0, 1.0]),
        (pa.list_(pa.float32(), 2), [1.0, None], [1.0, 2.0]),
        (pa.list_(pa.string()), ["a", "b"], ["a"]),
        (pa.list_(pa.string()), [], None),
        (pa.list_(pa.string()), [None], []),
        (pa.large_list(pa.list_(pa.int32())), [[1], [2, 3]], [[1, 2], [3]]),
        (POINT, {"x": 1.0, "name": "a"}, {"x": 1.0, "name": None}),
        (POINT, {"x": None, "name": None}, None),
        (pa.list_(POINT), [{"x": 1.0, "name": "a"}], [{"x": 1.0, "name": "b"}]),
    ],
    ids=str,
)
def test_values_are_the_same_or_not(kind: pa.DataType, value: Any, other: Any):
    left = pa.array([value, value, other, None, None, value, other], kind)
    right = pa.array([value, other, value, None, value, None, other], kind)
    same = [True, False, False, True, False, False, True]
    if other is None:
        same[4:6] = [False, False]
    assert compare_values(left, right).tolist() == same
    assert compare_values(left.slice(1), right.slice(1)).tolist() == same[1:]


def test_what_cannot_be_compared_is_different():
    maps = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    assert compare_values(maps, maps).tolist() == [False, True]


def test_columns_of_different_types_or_lengths_are_refused():
    with pytest.raises(ValueError, match=r"int64 x 1 and int32 x 1"):
        compare_values(pa.array([1]), pa.array([1], pa.int32()))
    with pytest.raises(ValueError, match=r"int64 x 1 and int64 x 2"):
        compare_values(pa.array([1]), pa.array([1, 2]))
