"""NULL structs have NULL children after they are read."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.columns.nested_nulls import push_nulls_down
from tests.support.null_structs import null_structs

STRUCT = pa.StructArray.from_arrays([pa.array([1, 2, 3])], names=["a"], mask=pa.array([False, True, False]))
OFFSETS = pa.array([0, 1, 2, 3], pa.int32())


def of(column: pa.Array) -> pa.Array:
    (pushed,) = push_nulls_down(pa.record_batch([column], names=["c"])).columns
    pushed.validate(full=True)
    assert pushed.type.equals(column.type)
    assert pushed.equals(column)  # Equality of Arrow does not look below NULLs.
    return pushed


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize(
    ("column", "find"),
    [
        (STRUCT, lambda one: one),
        (pa.StructArray.from_arrays([STRUCT], names=["s"]), lambda one: one.field(0)),
        (pa.ListArray.from_arrays(OFFSETS, STRUCT), lambda one: one.flatten()),
        (pa.LargeListArray.from_arrays(OFFSETS.cast("int64"), STRUCT), lambda one: one.flatten()),
        (pa.FixedSizeListArray.from_arrays(STRUCT, 1), lambda one: one.flatten()),
        (pa.MapArray.from_arrays(OFFSETS, pa.array(["k"] * 3), STRUCT), lambda one: one.items),
        (pa.ListArray.from_arrays(OFFSETS, pa.ListArray.from_arrays(OFFSETS, STRUCT)), None),
    ],
    ids=["struct", "struct of struct", "list", "large list", "fixed size list", "map", "list of lists"],
)
def test_children_of_null_structs_are_null(
    column: pa.Array, find: Callable[[Any], Any] | None, start: int
) -> None:
    pushed = of(column.slice(start))
    found = pushed.flatten().flatten() if find is None else find(pushed)
    assert found.field(0).to_pylist() == [1, None, 3][start:]


def test_a_null_list_of_any_size_stays_null() -> None:
    lists = pa.ListArray.from_arrays(OFFSETS, STRUCT, mask=pa.array([True, False, False]))
    assert of(lists).to_pylist() == [None, [None], [{"a": 3}]]
    pairs = pa.FixedSizeListArray.from_arrays(STRUCT, 1, mask=pa.array([True, False, False]))
    assert of(pairs).to_pylist() == [None, [None], [{"a": 3}]]


def test_a_child_that_may_not_be_null_is_null_below_a_null_struct() -> None:
    required = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    pushed = of(
        pa.StructArray.from_arrays([pa.array([1, 2])], fields=list(required), mask=pa.array([True, False]))
    )
    assert pushed.field(0).to_pylist() == [None, 2]


def test_nothing_is_copied_where_no_struct_is_null() -> None:
    rows = null_structs().slice(1).combine_chunks().to_batches()[0]
    assert push_nulls_down(rows) is rows
    empty = rows.slice(0, 0)
    assert push_nulls_down(empty) is empty
