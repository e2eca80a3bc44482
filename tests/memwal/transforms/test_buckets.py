"""Hashes of columns against the mmh3 package, value by value."""

import math
import struct
from collections.abc import Sequence
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lance_gateway.memwal.transforms.buckets import encode_little_endian, hash_as_lance, hash_as_published
from tests.support.sampling import sample


def whole(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    lowest = -(1 << bits - 1) if signed else 0
    return st.integers(lowest, lowest + (1 << bits) - 1)


NUMBERS = {
    pa.bool_(): (st.booleans(), "<i"),
    pa.int8(): (whole(8), "<i"),
    pa.int16(): (whole(16), "<i"),
    pa.int32(): (whole(32), "<i"),
    pa.int64(): (whole(64), "<q"),
    pa.uint8(): (whole(8, signed=False), "<I"),
    pa.uint16(): (whole(16, signed=False), "<I"),
    pa.uint32(): (whole(32, signed=False), "<I"),
    pa.uint64(): (whole(64, signed=False), "<Q"),
    pa.float32(): (st.floats(width=32), "<f"),
    pa.float64(): (st.floats(), "<d"),
    pa.date32(): (whole(32), "<i"),
    pa.time32("ms"): (st.integers(0, 86_399_999), "<i"),
    pa.time64("us"): (st.integers(0, 86_399_999_999), "<q"),
    pa.timestamp("us"): (whole(64), "<q"),
    pa.timestamp("ns", "UTC"): (whole(64), "<q"),
}


def packed(value: float | None, form: str) -> bytes | None:
    """Bytes of a number: one zero, and one NaN."""
    if isinstance(value, float):
        value = math.nan if math.isnan(value) else value or 0.0
    return None if value is None else struct.pack(form, value)


def mixed_by_words(raw: bytes) -> int:
    """The hash of a string as Lance computes it, whose tail is mixed in byte by byte."""

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> 32 - by) & 0xFFFFFFFF

    cut = len(raw) // 4 * 4
    words = [word for (word,) in struct.iter_unpack("<I", raw[:cut])]
    hashed = 0
    for word in words + [one - 256 if one > 127 else one for one in raw[cut:]]:
        scrambled = rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        hashed = (rotated(hashed ^ scrambled, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    hashed ^= len(raw)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return hashed ^ hashed >> 16


def check(column: pa.Array, raw: Sequence[bytes | None], lances: Sequence[int] | None) -> None:
    """Looks at a column's hashes; those of NULL are defined for Lance's reading only."""
    assert encode_little_endian(column) == raw
    present = [at for at, one in enumerate(raw) if one is not None]
    published = hash_as_published(column)
    assert (published.dtype, len(published)) == (np.uint32, len(raw))
    assert published[present].tolist() == [mmh3.hash(one, signed=False) for one in raw if one is not None]
    if lances is not None:
        hashes = hash_as_lance(column)
        assert hashes.dtype == np.uint32
        assert hashes.tolist() == lances


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample(NUMBERS, 6), ids=str)
@given(data=st.data())
def test_numbers_of_every_type_hash_as_their_bytes(kind: pa.DataType, data: st.DataObject):
    value, form = NUMBERS[kind]
    values: list[Any] = data.draw(st.lists(st.none() | value, max_size=9))
    start, stop = (data.draw(st.integers(0, len(values))) for _ in range(2))
    column = pa.array(values, kind).slice(start, max(stop - start, 0))
    raw = [packed(one, form) for one in values[start:stop]]
    check(column, raw, [0 if one is None else mmh3.hash(one, signed=False) for one in raw])


@pytest.mark.slow
@given(
    values=st.lists(st.none() | st.text(max_size=40), max_size=9),
    cut=st.integers(0, 9),
    count=st.integers(0, 9),
)
@example(values=[], cut=0, count=0)
@example(values=[None, None, None], cut=1, count=2)
@example(values=["é" * 5000, "x" * 4001, None, "🦜" * 1000, "", "ab\0"], cut=0, count=6)
def test_texts_of_any_length_hash_as_their_bytes(values: list[str | None], cut: int, count: int):
    raw = [None if one is None else one.encode() for one in values[cut : cut + count]]
    lances = [0 if one is None else mixed_by_words(one) for one in raw]
    for kind in (pa.string(), pa.large_string()):
        check(pa.array(values, kind).slice(cut, count), raw, lances)
    for kind in (pa.binary(), pa.large_binary()):
        column = pa.array([None if one is None else one.encode() for one in values], kind)
        check(column.slice(cut, count), raw, None)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_columns_without_a_type_have_no_bytes(rows: int):
    check(pa.nulls(rows), [None] * rows, [0] * rows)
