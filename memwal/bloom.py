"""Bloom filters over the keys of flushed generations.

Lance writes one beside every generation, of a fixed size and for some key types only. If it is missing or too
full, a filter of our own replaces it.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pybloom_live
from datafusion import SessionConfig, SessionContext

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError
from lance_gateway.memwal.storage.files import Storage

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
_SEPARATOR: Final = "\x1f"


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
            return _SEPARATOR.join(map(_format_value, self.values, self.types))
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
    if keys.num_rows:
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, _SEPARATOR)
        _add_all(bloom, joined)
    return OwnFilter(bloom, tuple(column.type for column in columns))


def _add_all(bloom: pybloom_live.BloomFilter, texts: pa.ChunkedArray) -> None:
    """Set the bits that `bloom.add` sets for each of some texts, for all at a time.

    pybloom reads a bit in each slice from one digest of a salt and the text: seven slices need no more.
    """
    slices, size = bloom.num_slices, bloom.bits_per_slice
    word = np.dtype(np.uint64 if size >= 1 << 31 else np.uint32 if size >= 1 << 15 else np.uint16)
    digests = _compute_digests(bloom.hashfn, texts.cast(pa.large_binary()))
    words = np.frombuffer(digests, word).reshape(len(texts), -1)[:, :slices]
    flags = np.zeros(bloom.num_bits, np.bool_)
    flags[(words % size).astype(np.int64) + np.arange(slices) * size] = True
    bits = bloom.bitarray
    bits.clear()
    bits.frombytes(np.packbits(flags, bitorder="little").tobytes())
    del bits[bloom.num_bits :]
    bloom.count = len(texts)


def _compute_digests(algorithm: Callable[[bytes], Any], texts: pa.ChunkedArray) -> bytes:
    """Return the digests of pybloom's salt and each text, one behind the other."""
    salt = algorithm(struct.pack("I", 0)).digest()
    if algorithm is not hashlib.sha256:
        return b"".join([algorithm(salt + text).digest() for text in texts.to_pylist()])
    # Which is how filters of some 24,000 keys or more are made; DataFusion hashes without Python's lock.
    salted = pc.binary_join_element_wise(
        pa.scalar(salt, pa.large_binary()), texts, pa.scalar(b"", pa.large_binary())
    )
    context = SessionContext(SessionConfig().with_target_partitions(1))
    context.register_record_batches("texts", [pa.table({"text": salted}).to_batches()])
    with ThreadPoolExecutor(1) as thread:  # A thread of DataFusion that plans a lookup may not wait for it.
        found = thread.submit(
            lambda: context.sql("SELECT sha256(text) AS digest FROM texts").collect()
        ).result()
    columns = [batch.column("digest").cast(pa.binary(32)) for batch in found]
    return b"".join(
        [one.buffers()[1][one.offset * 32 : (one.offset + len(one)) * 32].to_pybytes() for one in columns]
    )


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
    array = pa.array([value.as_py() if isinstance(value, pa.Scalar) else value], data_type)
    return str(_format_values(array)[0])


def _format_values(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a text for each value, which is equal for equal values of a column."""
    if (
        pa.types.is_string(column.type)
        or pa.types.is_large_string(column.type)
        or pa.types.is_integer(column.type)
    ):
        return pc.fill_null(column.cast(pa.string()), _NULL_TEXT)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        texts = [_NULL_TEXT if value is None else value.hex() for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.chunked_array([_format_fixed(chunk) for chunk in chunks], pa.string())


def _format_fixed(values: pa.Array) -> pa.Array:
    """Return the bytes of each value as hexadecimal digits."""
    values = values.cast(pa.uint8()) if pa.types.is_boolean(values.type) else values
    width = values.type.bit_width // 8
    digits = values.buffers()[1][values.offset * width : (values.offset + len(values)) * width].hex()
    texts = pa.array([digits[at : at + 2 * width] for at in range(0, len(digits), 2 * width)], pa.string())
    return pc.if_else(values.is_valid(), texts, _NULL_TEXT)
