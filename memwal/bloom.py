"""Bloom filters over the keys of flushed generations.

Lance writes one beside every generation, of a fixed size and for some key types only. If it is missing or too
full, a filter of our own replaces it.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pybloom_live

from memwal.errors import CorruptDataError, InvalidInputError
from memwal.storage.files import Storage
from memwal.transforms.raw_values import encode_raw

_MASK: Final = 0xFFFFFFFFFFFFFFFF
# "somepseudorandomlygeneratedbytes", as the authors of SipHash start it.
_START: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash13(message: bytes) -> int:
    """Compute the SipHash-1-3 of a message: one round per 8-byte word, three at the end."""
    v0, v1, v2, v3 = _START
    whole = len(message) & ~7
    words = [int.from_bytes(message[at : at + 8], "little") for at in range(0, whole, 8)]
    words.append((len(message) & 0xFF) << 56 | int.from_bytes(message[whole:], "little"))
    # The finalisation's rounds are rounds over zero words after one bit pattern is mixed in, so one loop does
    # for all; a call per round would double the time.
    last = len(words)
    words += (0, 0, 0)
    for at, word in enumerate(words):
        if at == last:
            v2 ^= 0xFF
        v3 ^= word
        v0 = (v0 + v1) & _MASK
        v1 = ((v1 << 13) & _MASK | v1 >> 51) ^ v0
        v0 = (v0 << 32) & _MASK | v0 >> 32
        v2 = (v2 + v3) & _MASK
        v3 = ((v3 << 16) & _MASK | v3 >> 48) ^ v2
        v0 = (v0 + v3) & _MASK
        v3 = ((v3 << 21) & _MASK | v3 >> 43) ^ v0
        v2 = (v2 + v1) & _MASK
        v1 = ((v1 << 17) & _MASK | v1 >> 47) ^ v2
        v2 = (v2 << 32) & _MASK | v2 >> 32
        v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3


FILTER_FILE: Final = "bloom_filter.bin"
USEFUL_FALSE_POSITIVE_RATE: Final = 0.05
OWN_FALSE_POSITIVE_RATE: Final = 0.01

_BLOCK_BYTES: Final = 32
_WORDS_PER_BLOCK: Final = 8
# One odd multiplier per word of a block; the same as in Parquet's split-block filters.
_SALTS: Final = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_NULL_TEXT: Final = "\x00"


class KeyFilter(Protocol):
    """A filter that can exclude keys."""

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""

    @property
    def description(self) -> str:
        """Kind, size and rate of false positives, for plans."""

    def might_contain(self, key: "tuple[object, ...] | LookupKey") -> bool:
        """Return False only if the key, one value per key column, is certainly absent."""

    def might_contain_any(self, keys: "Iterable[LookupKey]") -> bool:
        """Return False only if all keys are certainly absent."""


@dataclass(frozen=True)
class LookupKey:
    """A key with its hashes, computed once for all filters.

    Attributes:
        values: one Python value or Arrow scalar per key column.
        types: the key columns' types.
    """

    values: tuple[object, ...]
    types: tuple[pa.DataType, ...]

    def __post_init__(self) -> None:
        if len(self.values) != len(self.types):
            msg = f"Key {self.values!r} has {len(self.values)} values for {len(self.types)} key columns"
            raise InvalidInputError(msg)

    @cached_property
    def split_block(self) -> tuple[int, int] | None:
        """The hash that selects a block (32 bits) and the bits to check; None if Lance can't hash the key."""
        try:
            hashed = hash_key(self.values, self.types)
        except InvalidInputError:
            return None
        low = hashed & 0xFFFFFFFF
        bits = 0
        for word, salt in enumerate(_SALTS):
            bits |= 1 << (32 * word + ((low * salt & 0xFFFFFFFF) >> 27))
        return hashed >> 32, bits

    @cached_property
    def text(self) -> str | None:
        """The text of the key for filters of our own; None if a value does not fit its column."""
        try:
            return "\x1f".join(map(_format_value, self.values, self.types))
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class SplitBlockFilter:
    """The filter that Lance writes: blocks of 256 bits, of which a key sets eight in one block.

    Attributes:
        data: the blocks.
        key_types: types of the key columns.
    """

    data: bytes
    key_types: tuple[pa.DataType, ...]

    def __post_init__(self) -> None:
        if not self.data or len(self.data) % _BLOCK_BYTES:
            msg = (
                f"{len(self.data)} bytes are no split-block filter, which has blocks of {_BLOCK_BYTES} bytes"
            )
            raise InvalidInputError(msg)

    @cached_property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.data) // _BLOCK_BYTES

    @cached_property
    def false_positive_rate(self) -> float:
        """Share of absent keys that the filter passes, computed from the bits that are set."""
        words = np.frombuffer(self.data, "<u4").reshape(-1, _WORDS_PER_BLOCK)
        return float((np.bitwise_count(words) / 32).prod(axis=1).mean())

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return len(self.data)

    @property
    def description(self) -> str:
        """Kind, size and rate of false positives."""
        return f"split-block {self.nbytes} B, {self.false_positive_rate:.1%} fp"

    def might_contain(self, key: tuple[object, ...] | LookupKey) -> bool:
        """Return False only if the key is certainly absent."""
        probe = key if isinstance(key, LookupKey) else LookupKey(key, self.key_types)
        return self.might_contain_any((probe,))

    def might_contain_any(self, keys: Iterable[LookupKey]) -> bool:
        """Return False only if all keys are certainly absent."""
        data, blocks = self.data, self.blocks
        for key in keys:
            probe = key.split_block
            if probe is None:
                return True
            selector, bits = probe
            at = (selector * blocks >> 32) * _BLOCK_BYTES
            if int.from_bytes(data[at : at + _BLOCK_BYTES], "little") & bits == bits:
                return True
        return False


@dataclass(frozen=True)
class OwnFilter:
    """A filter built from a generation's key columns, sized for them; of any key type.

    Attributes:
        bloom: the filter over the keys' text forms.
        key_types: types of the key columns.
    """

    bloom: pybloom_live.BloomFilter
    key_types: tuple[pa.DataType, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return int(self.bloom.num_bits // 8)

    @property
    def description(self) -> str:
        """Kind, size and rate of false positives."""
        return f"pybloom {self.nbytes} B, {self.bloom.error_rate:.1%} fp"

    def might_contain(self, key: tuple[object, ...] | LookupKey) -> bool:
        """Return False only if the key is certainly absent."""
        probe = key if isinstance(key, LookupKey) else LookupKey(key, self.key_types)
        return probe.text is None or probe.text in self.bloom

    def might_contain_any(self, keys: Iterable[LookupKey]) -> bool:
        """Return False only if all keys are certainly absent."""
        return any(map(self.might_contain, keys))


def load_key_filter(
    table: Storage, generation_path: str, key_types: Sequence[pa.DataType], rows: int
) -> KeyFilter | None:
    """Read the filter that Lance wrote beside a flushed generation.

    Args:
        table: the table's directory.
        generation_path: the generation's directory below it, as `layout.generation_directory` makes it.
        key_types: types of the primary key's columns in the generation itself, in key order: Lance hashes an
            int32 otherwise than an int64 of equal value.
        rows: how many rows the generation holds.

    Returns:
        The filter; None where there is none, where Lance does not hash keys of these types, where nothing was
        put into it, or where it would let more than 5 % of absent keys pass.

    Raises:
        CorruptDataError: the file is not a split-block filter.
        UnavailableError: storage failed to answer.
    """
    if not key_types or not all(map(_is_hashed_by_lance, key_types)):
        return None
    path = f"{generation_path}/{FILTER_FILE}"
    try:
        data = table.read(path)
    except FileNotFoundError:
        return None
    try:
        loaded = SplitBlockFilter(data, tuple(key_types))
    except InvalidInputError as error:
        msg = f"{table.locate(path)}: {error}. Remove the file: lookups then make a filter from the keys"
        raise CorruptDataError(msg) from error
    is_blank = rows > 0 and not any(data)
    return None if is_blank or loaded.false_positive_rate > USEFUL_FALSE_POSITIVE_RATE else loaded


def build_key_filter(keys: pa.Table) -> KeyFilter:
    """Build a filter of a generation's keys.

    Args:
        keys: the key columns in key order, one row per row of the generation.
    """
    columns = [_decode_dictionary(column) for column in keys.columns]
    # Duplicates of a key count towards the capacity, so the number of rows is always enough.
    bloom = pybloom_live.BloomFilter(max(keys.num_rows, 1), OWN_FALSE_POSITIVE_RATE)
    texts = [_format_values(column) for column in columns]
    for text in texts[0] if len(texts) == 1 else map("\x1f".join, zip(*texts, strict=True)):
        bloom.add(text, skip_check=True)
    return OwnFilter(bloom, tuple(column.type for column in columns))


def hash_key(values: Sequence[object], types: Sequence[pa.DataType]) -> int:
    """Return the 64-bit hash of a key in Lance's filters.

    Raises:
        InvalidInputError: Lance does not hash keys of that type, or a value does not fit its column.
    """
    message = bytearray()
    for given, data_type in zip(values, types, strict=True):
        value = given.as_py() if isinstance(given, pa.Scalar) else given
        if value is None:
            message += b"\x01"
            continue
        message += b"\x00"
        try:
            message += _encode_for_hash(value, data_type)
        except (struct.error, TypeError, ValueError) as error:
            msg = f"Key value {value!r} is none of a {data_type} column: {error}"
            raise InvalidInputError(msg) from error
    return siphash13(bytes(message))


def _encode_for_hash(value: object, data_type: pa.DataType) -> bytes:
    if pa.types.is_int64(data_type):
        return struct.pack("<q", value)
    if pa.types.is_int32(data_type):
        return struct.pack("<i", value)
    if pa.types.is_string(data_type):
        return str.encode(value) + b"\xff"  # type: ignore[arg-type]
    if pa.types.is_binary(data_type):
        data = bytes.join(b"", [value])  # type: ignore[list-item]
        return struct.pack("<Q", len(data)) + data
    msg = f"Lance's bloom filters leave out key columns of type {data_type}"
    raise InvalidInputError(msg)


def _is_hashed_by_lance(data_type: pa.DataType) -> bool:
    return any(
        of_kind(data_type)
        for of_kind in (pa.types.is_int64, pa.types.is_int32, pa.types.is_string, pa.types.is_binary)
    )


def _decode_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_encoded = pa.types.is_dictionary(column.type)
    return column.cast(column.type.value_type) if is_encoded else column


def _format_value(value: object, data_type: pa.DataType) -> str:
    """Return a text that is equal for equal values of a column."""
    if value is None:
        return _NULL_TEXT
    if isinstance(value, str) and pa.types.is_string(data_type):
        return value
    if type(value) is int and pa.types.is_integer(data_type):
        return str(value)
    return _format_values(pa.array([value.as_py() if isinstance(value, pa.Scalar) else value], data_type))[0]


def _format_values(column: pa.Array | pa.ChunkedArray) -> list[str]:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return [_NULL_TEXT if value is None else value for value in column.to_pylist()]
    if pa.types.is_integer(column.type):
        return [_NULL_TEXT if value is None else str(value) for value in column.to_pylist()]
    return [
        encode_raw(column.type, scalar, source="key").hex() if scalar.is_valid else _NULL_TEXT
        for scalar in column
    ]
