"""The vectors of a source as matrices, for searches that read every row.

Vectors of a few megabytes are cached decoded: multiplying them is faster than opening a scanner. Others are
read in blocks for each search.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS
from lance_gateway.execnodes.rows.row_mask import OFFSET_BITS, OFFSET_MASK
from lance_gateway.execnodes.search.source import SearchSource
from lance_gateway.execnodes.storage.source import (
    LanceSource,
    MemTableSource,
    combine_chunks,
    convert_columns,
)


def count_hidden_rows(source: SearchSource) -> int:
    """Return the number of rows that the source's mask hides."""
    masks = source.live.fragments
    return sum(masks[fragment].hidden_rows for fragment in source.fragments if fragment in masks)


def list_live_addresses(source: SearchSource) -> np.ndarray:
    """Return the addresses of visible rows, uint64, ascending; every fragment must have a mask."""
    masks = source.live.fragments
    parts = [
        np.flatnonzero(masks[fragment].visible.to_numpy(zero_copy_only=False)).astype(np.uint64)
        | fragment << OFFSET_BITS
        for fragment in source.fragments
    ]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def find_live(source: SearchSource, addresses: np.ndarray) -> np.ndarray:
    """Return for each address whether the row is in the source and visible."""
    fragments = addresses >> OFFSET_BITS
    searched = set(source.fragments)
    live = np.zeros(len(addresses), dtype=np.bool_)
    for fragment_id in np.unique(fragments).tolist():
        if fragment_id not in searched:
            continue
        here = fragments == fragment_id
        mask = source.live.fragments.get(fragment_id)
        if mask is None:
            live[here] = True
        else:
            live[here] = mask.find_visible(addresses[here] & OFFSET_MASK)
    return live


BLOCK_ROWS = 8192
"""Rows that are read together."""
MAX_KEPT_BYTES = 64 << 20
"""Vectors of a source that take more are read for every search: they would push out what others keep."""
MAX_KEPT_TAIL_BYTES = 8 << 20
"""Vectors in memory that take more stay where they are: as a log tail grows, each state would be kept."""
_OVERHEAD = 256

Value = TypeVar("Value")


class VectorCache(Protocol):
    """A cache of immutable values, bounded in bytes."""

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - values of many types share one budget
        """Return the value of a key, or None."""

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Store a value that was computed elsewhere."""

    def compute(
        self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int] | None = None
    ) -> Value:
        """Return the value of a key; compute it if it is not cached."""


@dataclass(frozen=True, slots=True)
class _MemoryVectors:
    """The cache key of vectors in memory; equal for the same rows and column.

    Attributes:
        rows: see `SearchSource.identity`.
        column: of the table.
    """

    rows: Hashable
    column: str


@dataclass(frozen=True, slots=True)
class _FragmentVectors:
    """The cache key of a fragment's vectors; equal for the same rows and column.

    Attributes:
        rows: see `SearchSource.fragment_identity`.
        column: of the table.
    """

    rows: Hashable
    column: str


@dataclass(frozen=True, eq=False)
class VectorBlock:
    """Vectors of rows of one fragment; rows without a vector are left out.

    Attributes:
        addresses: row addresses, uint64, ascending.
        vectors: one a row.
    """

    addresses: np.ndarray
    vectors: np.ndarray

    @property
    def fragment_id(self) -> int:
        """Id of the fragment of all rows."""
        return int(self.addresses[0]) >> OFFSET_BITS

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared length of every vector, in its own type."""
        squares: np.ndarray = np.vecdot(self.vectors, self.vectors)
        return squares

    @property
    def nbytes(self) -> int:
        """Bytes in memory, those of `squares` included."""
        squares = len(self.vectors) * self.vectors.itemsize
        return int(self.addresses.nbytes + self.vectors.nbytes + squares)


Blocks = tuple[VectorBlock, ...]


def read_vector_blocks(source: SearchSource, column: str, keep: VectorCache) -> Iterator[VectorBlock]:
    """Read all rows of a source that have a vector and are not deleted, live or not.

    Args:
        source: where.
        column: of the table; a fixed-size list of numbers.
        keep: holds vectors.
    """
    rows = source.rows
    if isinstance(rows, MemTableSource):
        vectors = rows.rows.column(column)
        if not len(vectors) or vectors.nbytes > MAX_KEPT_TAIL_BYTES:
            yield from _split_memory(vectors)
            return
        of_memory = _MemoryVectors(source.identity, column)
        every = partial(_split_memory, pa.chunked_array([combine_chunks(vectors)]))
        yield from keep.compute(of_memory, partial(_collect, every), _measure)
        return
    if rows.stored.lacks(column):
        return
    is_stored = column in rows.stored
    are_kept = (
        is_stored and source.physical_rows * _measure_row(rows.schema.field(column).type) <= MAX_KEPT_BYTES
    )
    for fragment_id in source.fragments:
        scanned = partial(scan_blocks, rows, column, fragment_id)
        if are_kept:
            key = _FragmentVectors(source.fragment_identity(fragment_id), column)
            yield from keep.compute(key, partial(_collect, scanned), _measure)
        else:
            yield from scanned()


def _measure_row(kind: pa.DataType) -> int:
    return int(kind.list_size * kind.value_type.bit_width) // 8


def scan_blocks(rows: LanceSource, column: str, fragment_id: int) -> Iterator[VectorBlock]:
    """Read the vectors of a fragment."""
    dataset: Any = rows.dataset
    scanner = dataset.scanner(
        columns=[rows.stored_names[column]] if column in rows.stored else [],
        fragments=[dataset.get_fragment(fragment_id)],
        batch_size=BLOCK_ROWS,
        with_row_address=True,
    )
    field = rows.schema.field(column)
    for batch in scanner.to_batches():
        (vectors,) = convert_columns(batch, (field,), rows.stored)
        yield from split_into_blocks(vectors, batch.column(ROW_ADDRESS).to_numpy())


def _collect(blocks: Callable[[], Iterator[VectorBlock]]) -> Blocks:
    return tuple(blocks())


def _split_memory(column: pa.ChunkedArray) -> Iterator[VectorBlock]:
    start = 0
    for vectors in column.chunks:
        yield from split_into_blocks(vectors, np.arange(start, start + len(vectors), dtype=np.uint64))
        start += len(vectors)


def split_into_blocks(vectors: pa.FixedSizeListArray, addresses: np.ndarray) -> Iterator[VectorBlock]:
    """Yield at most one block, in which every row has a vector."""
    if vectors.null_count:
        valid = vectors.is_valid()
        vectors, addresses = vectors.filter(valid), addresses[valid.to_numpy(zero_copy_only=False)]
    if not len(vectors):
        return
    matrix, whole = _to_matrix(vectors)
    if whole is not None:
        matrix, addresses = matrix[whole], addresses[whole]
    if len(addresses):
        yield VectorBlock(addresses, matrix)


def _to_matrix(vectors: pa.FixedSizeListArray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return one row per vector, and which rows have all elements; None if all have."""
    size = vectors.type.list_size
    elements = vectors.flatten()
    whole = None
    if elements.null_count:
        whole = elements.is_valid().to_numpy(zero_copy_only=False).reshape(-1, size).all(axis=1)
        elements = elements.fill_null(0)
    return elements.to_numpy(zero_copy_only=False).reshape(-1, size), whole


def _measure(blocks: Blocks) -> int:
    return sum(block.nbytes for block in blocks) + _OVERHEAD
