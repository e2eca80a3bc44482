"""Find rows of a base table whose key a newer row of it has as well.

MemWAL specification, "LSM Tree Merging Read": of the rows of a key in one generation, the one with the
highest row address is the newest. Mergers leave one row a key, and other writers of Lance may append more
(ADR 90).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import lance
import numpy as np
import pyarrow as pa

from lance_gateway.memwal.base.index_details import list_merged_generations, read_index_details
from lance_gateway.memwal.base.versions import read_operation
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.files import Storage

_BATCH_ROWS: Final = 1 << 16
_CHECKED_ROWS: Final = 1 << 25
"""So many keys are in memory at a time, as 8 bytes each; more rows are read several times."""
_LEAST_VERSIONS: Final = 8
_ROWS_FOR_A_VERSION: Final = 100_000
"""To read a transaction takes as long as to check so many keys."""
_KEEPS_ROWS: Final = (
    lance.LanceOperation.Delete,
    lance.LanceOperation.CreateIndex,
    lance.LanceOperation.Rewrite,
    lance.LanceOperation.Project,
)


@dataclass(frozen=True, eq=False)
class KeyHistory:
    """The transactions that have led to a version of a base table.

    Attributes:
        storage: directory of the table.
        dataset: the `lance.LanceDataset`.
        key: columns of the primary key.
    """

    storage: Storage
    dataset: Any
    key: Sequence[str]

    def shows_distinct_keys(self, known: int = 0) -> bool:
        """Return whether each key has one row by what the table is made of; False where that is not certain.

        A table begins empty, or with a version of which it is known. Then all that adds rows must be merges
        of MemWAL: they replace rows by their keys, and record their progress in the same commit.

        Args:
            known: a version in which each key has one row; 0 for none.
        """
        newest: int = self.dataset.version
        first = known if known <= newest else 0
        oldest: int = newest - _LEAST_VERSIONS - self.dataset.count_rows() // _ROWS_FOR_A_VERSION
        try:
            for version in range(newest, max(first, oldest), -1):
                if version == 1:
                    return not self._list_fragments(version)
                operation = read_operation(self.dataset, version)
                if isinstance(operation, lance.LanceOperation.Overwrite):
                    return not operation.fragments
                if operation is None or not self._keeps_keys_distinct(version, operation):
                    return False
        except (LanceGatewayError, OSError, ValueError):
            return False  # A version was cleaned up.
        return oldest <= first > 0

    def _keeps_keys_distinct(self, version: int, operation: Any) -> bool:  # noqa: ANN401 - lance types
        if isinstance(operation, _KEEPS_ROWS):
            return True
        if isinstance(operation, lance.LanceOperation.UpdateConfig):
            # Before other columns became the key, merges may have left any rows.
            return not operation.field_metadata_updates
        if not isinstance(operation, lance.LanceOperation.Update):
            return self._list_fragments(version) == self._list_fragments(version - 1)
        if not operation.new_fragments:
            fields = self.dataset.lance_schema.fields()
            keys = {one.id() for one in fields if one.name() in self.key}
            return keys.isdisjoint(operation.fields_modified)
        before, after = self._list_merged(version - 1), self._list_merged(version)
        return any(number > before.get(region_id, 0) for region_id, number in after.items())

    def _list_merged(self, version: int) -> Mapping[str, int]:
        return list_merged_generations(read_index_details(self.storage, version))

    def _list_fragments(self, version: int) -> list[str]:
        """Return the fragments of a version, with their deleted rows."""
        fragments = self.dataset.checkout_version(version).get_fragments()
        return [str(one.metadata.to_json()) for one in fragments]


def find_repeated_rows(dataset: Any, key: Sequence[str]) -> np.ndarray:  # noqa: ANN401 - lance types
    """Read the keys of a version, and return the rows whose key a row with a higher address has.

    Keys are compared by 8 bytes each, which are equal for equal keys; those that repeat are read once more.

    Args:
        dataset: the `lance.LanceDataset`.
        key: columns of the primary key. Rows without a value in one of them have no key.

    Returns:
        Ascending row addresses (uint64).
    """
    parts = -(-dataset.count_rows() // _CHECKED_ROWS)
    repeated = [np.empty(0, np.uint64)]
    for part in range(parts):
        ascends, hashes = True, [np.empty(0, np.uint64)]
        last: int | None = None
        for keys, _ in _stream_keys(dataset, key, with_addresses=False):
            ascends = ascends and len(key) == 1 and pa.types.is_signed_integer(keys.schema.types[0])
            if ascends:
                values = keys.column(0).to_numpy()
                ascends = bool((values[1:] > values[:-1]).all()) and (last is None or last < values[0])
                last = int(values[-1])
            hashed = hash_keys(keys)
            hashes.append(hashed if parts == 1 else hashed[hashed % np.uint64(parts) == part])
        if ascends:
            return repeated[0]
        ordered = np.concatenate(hashes)
        ordered.sort()
        repeated.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
    wanted = np.sort(np.concatenate(repeated))
    return _find_older_rows(dataset, key, wanted) if len(wanted) else wanted


def _find_older_rows(dataset: Any, key: Sequence[str], wanted: np.ndarray) -> np.ndarray:  # noqa: ANN401 - lance types
    """Return the rows whose key a row with a higher address has, among the keys of these hashes."""
    last: dict[tuple[object, ...], int] = {}
    older = []
    for keys, addresses in _stream_keys(dataset, key, with_addresses=True):
        hashed = hash_keys(keys)
        is_wanted = wanted[np.minimum(wanted.searchsorted(hashed), len(wanted) - 1)] == hashed
        found = keys.filter(pa.array(is_wanted))
        values = zip(*(column.to_pylist() for column in found.columns), strict=True)
        for value, address in zip(values, addresses[is_wanted].tolist(), strict=True):
            before = last.get(value, -1)
            last[value] = max(before, address)
            if before >= 0:
                older.append(min(before, address))
    return np.sort(np.array(older, np.uint64))


def _stream_keys(
    dataset: Any,  # noqa: ANN401 - lance types
    key: Sequence[str],
    *,
    with_addresses: bool,
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Yield the keys of the live rows, in the order of their addresses, and these."""
    scanner = dataset.scanner(columns=list(key), with_row_address=with_addresses, batch_size=_BATCH_ROWS)
    for batch in scanner.to_batches():
        rows = batch.drop_null() if any(column.null_count for column in batch.columns) else batch
        if rows.num_rows:
            addresses = rows.column("_rowaddr").to_numpy() if with_addresses else np.empty(0, np.uint64)
            yield rows.select(list(key)), addresses


_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(29)
_ONE: Final = np.uint64(1)
_LAST_BIT: Final = np.uint64(63)


def hash_keys(keys: pa.RecordBatch) -> np.ndarray:
    """Return 8 bytes (uint64) for each key, which are equal for equal keys; an integer is its own."""
    hashes, *others = map(_hash_column, keys.columns)
    for other in others:
        hashes = ((hashes * _FACTOR) >> _SHIFT) ^ (hashes * _FACTOR) ^ other
    return hashes


def _hash_column(column: pa.Array) -> np.ndarray:
    kind = column.type
    if pa.types.is_integer(kind):
        wide = np.int64 if pa.types.is_signed_integer(kind) else np.uint64
        integers: np.ndarray = column.to_numpy().astype(wide).view(np.uint64)
        return integers
    if pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    elif not (pa.types.is_large_binary(kind) or pa.types.is_binary(kind)):
        column = column.cast(pa.large_string())
    _, offsets, data = column.cast(pa.large_binary()).buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return _hash_bytes(data, ends[:-1], np.diff(ends))


def _hash_bytes(data: pa.Buffer | None, starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return a hash (uint64) of each of some stretches of bytes, one behind the other; eight at a time."""
    first = int(starts[0])
    size = int(starts[-1] + lengths[-1]) - first
    words = np.zeros(size // 8 + 2, np.uint64)
    words.view(np.uint8)[:size] = np.frombuffer(data or b"", np.uint8, size, first)
    starts = starts - first
    hashes = lengths.astype(np.uint64) * _FACTOR
    rows: slice | np.ndarray = slice(None)
    shortest, longest = int(lengths.min()), int(lengths.max())
    for at in range(0, longest, 8):
        if shortest <= at:
            rows = np.flatnonzero(lengths > at)
        # Little-endian: a word at any place is the end of one aligned word and the start of the next. What
        # follows the stretch is in the upper bytes, and is shifted out.
        places = starts[rows] + at
        shifts = ((places & 7) << 3).astype(np.uint64)
        places >>= 3
        word = (words.take(places) >> shifts) | (words.take(places + 1) << _ONE << (_LAST_BIT - shifts))
        if shortest < at + 8:
            word <<= (np.clip(8 - (lengths[rows] - at), 0, 7) << 3).astype(np.uint64)
        mixed = (hashes[rows] ^ word) * _FACTOR
        hashes[rows] = mixed ^ (mixed >> _SHIFT)
    return hashes
