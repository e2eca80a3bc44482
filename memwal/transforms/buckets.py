"""Bucket transforms: Murmur3 (x86, 32 bits, seed 0) over whole columns, in the two readings of region specs.

Both hash numbers alike: 4 little-endian bytes for booleans, dates, times of day in seconds or milliseconds,
`float32` and integers of up to 32 bits, 8 bytes for everything wider. They differ in strings whose length is
not a multiple of 4: Lance mixes each byte of the tail as a signed word of its own, where the algorithm as
published mixes the tail once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.transform import Transform, check_positive, one_column_error

Words = npt.NDArray[np.uint32]

_NARROW: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_boolean,
    pa.types.is_int8,
    pa.types.is_int16,
    pa.types.is_int32,
    pa.types.is_uint8,
    pa.types.is_uint16,
    pa.types.is_uint32,
    pa.types.is_date32,
    pa.types.is_time32,
)
_WIDE: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_int64,
    pa.types.is_uint64,
    pa.types.is_timestamp,
    pa.types.is_time64,
)


class BucketHash(Enum):
    """The two hash functions of the `bucket` transform; recorded values tell which one a table uses.

    - LANCE: what Lance itself writes: `(hash & 0x7fffffff) % N` with its own treatment of string tails; NULL
      is in bucket 0.
    - SPECIFICATION: `abs(murmur3(col0)) % N` with Murmur3 as published; NULL stays NULL. Here too an `int32`
      and an `int64` of equal value are in different buckets, although the specification asks expressions to
      survive type promotion: it does not say how.
    """

    LANCE = "lance"
    SPECIFICATION = "specification"


@dataclass(frozen=True)
class Bucket(Transform):
    """The hash of one column modulo a number of buckets, as an int32.

    Attributes:
        num_buckets: 1 or more.
        reading: which hash, and what becomes of NULL.
    """

    num_buckets: int
    reading: BucketHash = BucketHash.LANCE

    def __post_init__(self) -> None:
        check_positive("bucket", "num_buckets", self.num_buckets)

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:  # noqa: ARG002
        """Return bucket numbers from 0 to `num_buckets` - 1."""
        if len(columns) != 1:
            raise one_column_error("bucket", columns)
        column = columns[0]
        if self.reading is BucketHash.LANCE:
            hashes = hash_as_lance(column) & np.uint32(0x7FFFFFFF)
            return pa.array((hashes % np.uint32(self.num_buckets)).astype(np.int32))
        # In 64 bits: the absolute value of the smallest hash does not fit 32.
        signed = hash_as_published(column).view(np.int32).astype(np.int64)
        buckets = (np.abs(signed) % self.num_buckets).astype(np.int32)
        return pa.array(buckets, mask=column.is_null().to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class MultiBucket(Transform):
    """The hash of several columns modulo a number of buckets, as an int32: `abs(hash) % num_buckets`.

    NULL fields are left out of the hash, and the bucket is NULL only if all fields are. The specification
    leaves open how fields are joined; here their bytes, as `bucket` hashes them, follow each other without a
    separator, so that one column alone gives the same bucket as `bucket` in the specification's reading.

    Attributes:
        num_buckets: 1 or more.
    """

    num_buckets: int

    def __post_init__(self) -> None:
        check_positive("multi_bucket", "num_buckets", self.num_buckets)

    def apply(self, columns: Sequence[pa.Array], *, rows: int | None = None) -> pa.Array:  # noqa: ARG002
        """Return bucket numbers from 0 to `num_buckets` - 1."""
        if not columns:
            msg = "Region transform 'multi_bucket' takes one column or more, got none"
            raise InvalidInputError(msg)
        return pa.array(map(self._bucket, zip(*map(encode_little_endian, columns), strict=True)), pa.int32())

    def _bucket(self, fields: tuple[bytes | None, ...]) -> int | None:
        present = [field for field in fields if field is not None]
        return abs(mmh3.hash(b"".join(present))) % self.num_buckets if present else None


def hash_as_lance(column: pa.Array) -> Words:
    """Hash every value as Lance's own bucket transform does; NULL hashes to 0.

    Raises:
        UnsupportedError: Lance does not hash values of this type.
    """
    if len(column) == 1 and pa.types.is_integer(column.type):
        return np.array([_hash_integer(column[0])], np.uint32)
    hashes = _hash_text(column) if _is_text(column.type) else _hash_numbers(_convert_to_integers(column))
    hashes[_null_mask(column)] = 0
    return hashes


def hash_as_published(column: pa.Array) -> Words:
    """Hash every value as the algorithm is published; the hash of NULL is undefined.

    Raises:
        UnsupportedError: values of this type have no agreed bytes.
    """
    if _is_text(column.type) or _is_binary(column.type):
        hashes = (mmh3.hash(value or b"", signed=False) for value in encode_little_endian(column))
        return np.fromiter(hashes, np.uint32)
    return _hash_numbers(_convert_to_integers(column))


def encode_little_endian(column: pa.Array) -> list[bytes | None]:
    """Return the hashed bytes of every value, None for NULL.

    Raises:
        UnsupportedError: values of this type have no agreed bytes.
    """
    if _is_text(column.type):
        return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]
    if _is_binary(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    numbers = _convert_to_integers(column)
    raw, width = numbers.astype(numbers.dtype.newbyteorder("<")).tobytes(), numbers.dtype.itemsize
    nulls = _null_mask(column)
    return [None if null else raw[at * width : at * width + width] for at, null in enumerate(nulls)]


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


def _null_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _convert_to_integers(column: pa.Array) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    """Return the hashed form of every value as int32 or int64; NULL becomes 0."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int32)
    if pa.types.is_floating(kind) and not pa.types.is_float16(kind):
        return _convert_to_float_bits(column)
    if any(is_kind(kind) for is_kind in _NARROW):
        plain = column.view(pa.int32()) if pa.types.is_temporal(kind) else column.cast(pa.int64())
        # Unsigned values above the signed range wrap around.
        narrow: npt.NDArray[np.int32] = plain.fill_null(0).to_numpy().astype(np.int32)
        return narrow
    if any(is_kind(kind) for is_kind in _WIDE):
        wide: npt.NDArray[np.int64] = column.view(pa.int64()).fill_null(0).to_numpy()
        return wide
    msg = f"Values of type {kind} are not hashed into buckets; numbers, dates, times and strings are"
    raise UnsupportedError(msg)


def _convert_to_float_bits(column: pa.Array) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    values = np.array(column.fill_null(0).to_numpy())
    values[values == 0] = 0  # Negative zero is zero.
    values[np.isnan(values)] = np.nan  # There are many NaNs, and one hash for all of them.
    return values.view(np.int32) if values.dtype == np.float32 else values.view(np.int64)


def _hash_numbers(numbers: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> Words:
    words = numbers.view(np.uint32).reshape(-1, numbers.dtype.itemsize // 4)
    hashes = np.zeros(len(numbers), np.uint32)
    for at in range(words.shape[1]):
        hashes = _mix(hashes, words[:, at])
    return _finalize(hashes, np.full(len(numbers), numbers.dtype.itemsize, np.uint32))


def _hash_integer(value: pa.Scalar) -> int:
    """Hash one number; quicker for a single row than the steps over columns."""
    number, width = value.as_py(), max(4, value.type.bit_width // 8)
    if number is None:
        return 0
    return int(mmh3.hash((number & (1 << 8 * width) - 1).to_bytes(width, "little"), signed=False))


def _hash_text(column: pa.Array) -> Words:
    """Hash strings as Lance does, word by word over all strings that still have one."""
    text = column.cast(pa.large_string())  # A cast may begin again where a slice begins.
    _, offset_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.zeros(len(column), np.uint32)
    for word in range(int(lengths.max(initial=0)) // 4):
        (rows,) = np.nonzero(lengths >= 4 * word + 4)
        quads = data[starts[rows, None] + (4 * word + np.arange(4))]
        hashes[rows] = _mix(hashes[rows], quads.view("<u4")[:, 0])
    for tail in range(3):
        (rows,) = np.nonzero(lengths % 4 > tail)
        signed = data[starts[rows] + lengths[rows] // 4 * 4 + tail].view(np.int8)
        hashes[rows] = _mix(hashes[rows], signed.astype(np.int32).view(np.uint32))
    return _finalize(hashes, lengths.astype(np.uint32))


def _rotate(words: Words, by: int) -> Words:
    return words << np.uint32(by) | words >> np.uint32(32 - by)


def _mix(hashes: Words, words: Words) -> Words:
    scrambled = _rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate(hashes ^ scrambled, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finalize(hashes: Words, lengths: Words) -> Words:
    mixed = hashes ^ lengths
    mixed = (mixed ^ mixed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ mixed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return mixed ^ mixed >> np.uint32(16)
