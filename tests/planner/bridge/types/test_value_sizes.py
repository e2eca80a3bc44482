"""The size that values take in plain types is known before they are made, and is never too low."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.types.plain_types import normalize_layout, plain_type
from lance_gateway.planner.bridge.types.value_sizes import MAX_MEASURED, measure, split_batch

LEAVES = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=20),
    pa.large_binary(): st.binary(max_size=20),
    pa.string_view(): st.text(max_size=40),
    pa.binary_view(): st.binary(max_size=40),
    pa.binary(3): st.binary(min_size=3, max_size=3),
    pa.decimal128(9, 2): st.decimals(-999, 999, places=2),
    pa.null(): st.none(),
}


@st.composite
def leaves(draw: st.DrawFn, length: int) -> pa.Array:
    kind = draw(st.sampled_from(list(LEAVES)))
    values = draw(st.lists(st.none() | LEAVES[kind], min_size=length, max_size=length))
    return pa.array(values, kind)


def _numbers(draw: st.DrawFn, length: int, most: int) -> list[int]:
    return draw(st.lists(st.integers(0, most), min_size=length, max_size=length))


@st.composite
def arrays(draw: st.DrawFn, length: int, depth: int = 3) -> pa.Array:
    """Values of any layout, which point to the same places and leave others out, and are slices of more."""
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    whole = draw(_whole(before + length + after, depth))
    return whole.slice(before, length)


@st.composite
def _whole(draw: st.DrawFn, length: int, depth: int) -> pa.Array:
    if not depth:
        return draw(leaves(length))
    layout = draw(st.sampled_from(["leaf", "dictionary", "runs", "list", "view", "fixed", "struct", "map"]))
    if layout == "leaf":
        return draw(leaves(length))
    if layout == "struct":
        children = [draw(arrays(length, depth - 1)) for _ in range(2)]
        return pa.StructArray.from_arrays(children, ["a", "b"], mask=_mask(draw, length))
    if layout == "fixed":
        size = draw(st.integers(0, 3))
        child = draw(arrays(length * size, depth - 1))
        return pa.FixedSizeListArray.from_arrays(child, size) if size else pa.nulls(length)
    if layout == "runs":
        ends = sorted({*_numbers(draw, 3, length), length} - {0})
        return pa.RunEndEncodedArray.from_arrays(
            pa.array(ends, pa.int32()), draw(arrays(len(ends), depth - 1))
        )
    elements = draw(st.integers(1, 6))
    if layout == "map":
        keys, items = pa.array([f"key {at}" for at in range(elements)]), draw(arrays(elements, depth - 1))
        ends = sorted(_numbers(draw, length + 1, elements))
        return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys, items)
    child = draw(arrays(elements, depth - 1))
    if layout == "dictionary":
        indices = [draw(st.none() | st.integers(0, elements - 1)) for _ in range(length)]
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), child)
    if layout == "list":
        ends = sorted(_numbers(draw, length + 1, elements))
        return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), child, mask=_mask(draw, length))
    starts = _numbers(draw, length, elements)
    lengths = [draw(st.integers(0, elements - start)) for start in starts]
    mask = _mask(draw, length)
    return pa.ListViewArray.from_arrays(
        pa.array(starts, pa.int32()), pa.array(lengths, pa.int32()), child, mask=mask
    )


def _mask(draw: st.DrawFn, length: int) -> pa.Array:
    return pa.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)), pa.bool_())


@given(st.integers(0, 5).flatmap(arrays))
def test_values_in_plain_types_are_the_same_and_never_larger_than_computed(values: pa.Array) -> None:
    values.validate(full=True)
    made = normalize_layout(values)
    made.validate(full=True)
    assert made.type == plain_type(values.type)
    assert made.to_pylist() == values.to_pylist()
    assert made.nbytes <= measure(values)


KINDS = [
    pa.int64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.decimal256(60, 10),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.list_(pa.float64()),
    pa.large_list(pa.string()),
    pa.list_(pa.float32(), 5),
    pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64(), 4)), ("c", pa.list_(pa.int64(), 4))]),
    pa.map_(pa.string(), pa.string()),
    pa.dictionary(pa.int32(), pa.string()),
]


@given(st.integers(0, 5).flatmap(arrays), st.sampled_from(KINDS))
def test_values_that_are_cast_are_never_larger_than_computed(values: pa.Array, kind: pa.DataType) -> None:
    try:
        made = normalize_layout(values).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return
    assert made.nbytes <= measure(values, kind)


@pytest.mark.parametrize("value", [-(2**63), 1.7976931348623157e308, True, dt.datetime(2024, 2, 29, 23, 59)])
def test_numbers_as_text_are_never_larger_than_computed(value: object) -> None:
    values = pa.array([value] * 100)
    assert values.cast(pa.string()).nbytes <= measure(values, pa.string())


@given(st.integers(1, 12).flatmap(arrays), st.integers(1, 400))
def test_a_batch_is_cut_into_pieces_of_a_size_in_the_order_of_its_rows(values: pa.Array, size: int) -> None:
    batch = pa.record_batch([values], ["a"])
    kind = plain_type(values.type)
    pieces = list(split_batch(batch, [kind], size, row_bytes=1 << 30))
    rows = [row for piece in pieces for row in piece.column(0).to_pylist()]
    assert rows == values.to_pylist()
    for piece in pieces:
        assert piece.num_rows == 1 or normalize_layout(piece.column(0)).nbytes <= size + 64


MIB = 1 << 20
TEXT = pa.array(["x" * MIB])
ROWS = 1000
LISTS = pa.array([[0] * MIB], pa.list_(pa.int8()))
# Length, first bytes, buffer and place of each.
VIEWS = np.array([[MIB, int.from_bytes(b"xxxx", "little"), 0, 0]] * ROWS, np.int32)
SMALL = {
    "nulls": (pa.nulls(1 << 31), pa.int64(), (1 << 31) * 8),
    "nulls of lists": (pa.nulls(1000), pa.list_(pa.float32(), 1000), 4_000_000),
    "run ends": (pa.RunEndEncodedArray.from_arrays([ROWS], TEXT), None, ROWS * MIB),
    "a dictionary": (pa.DictionaryArray.from_arrays(pa.array([0] * ROWS), TEXT), None, ROWS * MIB),
    "views": (
        pa.Array.from_buffers(pa.string_view(), ROWS, [None, pa.py_buffer(VIEWS), TEXT.buffers()[2]]),
        None,
        ROWS * MIB,
    ),
    "list views": (
        pa.ListViewArray.from_arrays(
            pa.array([0] * ROWS, pa.int32()), pa.array([MIB] * ROWS, pa.int32()), LISTS.values
        ),
        None,
        ROWS * MIB,
    ),
    "a dense union": (
        pa.UnionArray.from_dense(pa.array([0] * ROWS, pa.int8()), pa.array([0] * ROWS, pa.int32()), [TEXT]),
        pa.string(),
        ROWS * MIB,
    ),
    "a list of run ends": (
        pa.ListArray.from_arrays(
            pa.array([0, 10**9], pa.int32()),
            pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array([1])),
        ),
        None,
        8 * 10**9,
    ),
}


@pytest.mark.parametrize("what", SMALL)
def test_what_few_bytes_stand_for_is_computed_without_making_it(what: str) -> None:
    values, kind, least = SMALL[what]
    values.validate(full=True)
    before = pa.total_allocated_bytes()
    assert min(least, MAX_MEASURED + 1) <= measure(values, kind) <= 3 * least
    assert pa.total_allocated_bytes() == before
    assert values.nbytes < 2 * MIB


def test_views_of_views_do_not_overflow() -> None:
    """Ten levels, each row of which has a million rows of the next: no number of 64 bits counts them."""
    values: pa.Array = pa.nulls(100_000)
    for _ in range(10):
        offsets, sizes = pa.array([0] * 100_000, pa.int32()), pa.array([100_000] * 100_000, pa.int32())
        values = pa.ListViewArray.from_arrays(offsets, sizes, values)
    assert measure(values) == MAX_MEASURED + 1


def test_rows_that_are_usual_are_measured_closely() -> None:
    values = pa.array([f"customer {number % 100}" for number in range(10_000)])
    for encoded in (values, values.dictionary_encode(), values.cast(pa.string_view())):
        assert values.nbytes <= measure(encoded) <= 2.5 * values.nbytes
    numbers = pa.array(range(10_000))
    assert measure(numbers) <= 1.2 * numbers.nbytes


def test_a_row_that_stands_for_too_much_is_named() -> None:
    rows = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([[0], [0] * MIB], pa.list_(pa.int8())))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 5], pa.int32()), rows.take(pa.array([0, 1, 1, 1, 1])))
    batch = pa.record_batch({"id": [1, 2], "many": lists})
    kinds = [plain_type(kind) for kind in batch.schema.types]
    assert [piece.num_rows for piece in split_batch(batch, kinds, MIB, row_bytes=6 * MIB)] == [1, 1]
    with pytest.raises(
        InvalidInputError, match=r"row 2 of a batch is too large: column 'many' \(list<.*stands"
    ):
        list(split_batch(batch, kinds, MIB, row_bytes=3 * MIB))


def test_a_row_may_take_what_was_sent_for_it() -> None:
    batch = pa.record_batch({"a": pa.array(["x" * MIB], pa.string_view())})
    assert len(list(split_batch(batch, [pa.string()], 1000, row_bytes=1000))) == 1


def test_what_buffers_share_was_sent_once() -> None:
    text = pa.array(["x" * MIB])
    shared = pa.record_batch([text] * 10, [str(number) for number in range(10)])
    with pytest.raises(InvalidInputError, match="row 1 of a batch is too large"):
        list(split_batch(shared, shared.schema.types, 1000, row_bytes=1000))
