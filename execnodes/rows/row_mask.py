"""Visibility masks: which rows of a source are the newest version of their key."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.ma  # pyarrow asks it about every array: the first query should not have to load it
import pyarrow as pa
import pyarrow.compute as pc

OFFSET_BITS = 32
OFFSET_MASK = (1 << OFFSET_BITS) - 1
CHUNK_ROWS = 65_536
"""Rows that are masked, and kept, together."""

_SPARSEST = 64
"""A mask of up to so many rows for each that is hidden is unpacked; bits of fewer are hidden one by one."""

ShownRows = tuple[tuple[int, tuple[bytes, ...] | None], ...]
"""Fragment ids, each with the digests of what is visible of its chunks; None where all rows are."""


@dataclass(frozen=True, eq=False)
class FragmentMask:
    """The visible rows of one fragment, by physical row offset.

    Args:
        visible: one flag per physical row.
        hides_deleted: whether rows that Lance has deleted are known to be hidden as well.
    """

    visible: pa.BooleanArray
    hides_deleted: bool = False

    def __post_init__(self) -> None:
        if self.visible.offset or self.visible.null_count:
            msg = "a fragment mask starts at the fragment's first row and has no NULLs"
            raise ValueError(msg)

    @cached_property
    def visible_rows(self) -> int:
        """Number of visible physical rows."""
        return int(self.visible.true_count)

    @property
    def hidden_rows(self) -> int:
        """Number of hidden physical rows."""
        return len(self.visible) - self.visible_rows

    @cached_property
    def digests(self) -> tuple[bytes, ...]:
        """A digest per chunk: equal digests show the same rows."""
        return tuple(self._compute_digest(number) for number in range(-(-len(self.visible) // CHUNK_ROWS)))

    def chunks(self) -> list[pa.BooleanArray | None]:
        """Return the mask of each chunk; None if all its rows are visible."""
        masks = [self.visible.slice(at, CHUNK_ROWS) for at in range(0, len(self.visible), CHUNK_ROWS)]
        return [None if mask.true_count == len(mask) else mask for mask in masks]

    def without(self, offsets: np.ndarray) -> FragmentMask:
        """Return a mask that also hides the rows at these offsets (in any order, with repetitions)."""
        rows = len(self.visible)
        bits = np.frombuffer(self.visible.buffers()[1], np.uint8, (rows + 7) // 8)
        if len(offsets) * _SPARSEST < rows:
            bits = bits.copy()
            np.bitwise_and.at(bits, offsets >> 3, ~(1 << (offsets & 7)).astype(np.uint8))
        else:
            flags = np.unpackbits(bits, count=rows, bitorder="little")
            flags[offsets] = 0
            bits = np.packbits(flags, bitorder="little")
        mask = FragmentMask(_wrap_bits(bits, rows), self.hides_deleted)
        known = vars(self).get("digests")
        if known is not None:
            digests = list(known)
            for number in np.unique(offsets // CHUNK_ROWS).tolist():
                digests[number] = mask._compute_digest(number)
            vars(mask)["digests"] = tuple(digests)
        return mask

    def both(self, other: FragmentMask) -> FragmentMask:
        """Return the intersection of both masks."""
        return FragmentMask(pc.and_(self.visible, other.visible), self.hides_deleted or other.hides_deleted)

    def _compute_digest(self, number: int) -> bytes:
        size = CHUNK_ROWS // 8
        stop = min((number + 1) * size, (len(self.visible) + 7) // 8)
        bits = self.visible.buffers()[1][number * size : stop]
        return hashlib.blake2b(bits, digest_size=16).digest()

    def find_visible(self, offsets: np.ndarray) -> np.ndarray:
        """Return whether the rows at these offsets (uint64, in any order) are visible."""
        bits = np.frombuffer(self.visible.buffers()[1], np.uint8)
        shown: np.ndarray = (bits[offsets >> 3] >> (offsets & 7).astype(np.uint8) & 1).astype(np.bool_)
        return shown

    def at(self, offsets: pa.UInt64Array) -> pa.BooleanArray:
        """Return one boolean for each of these ascending offsets within the fragment."""
        first, last = offsets[0].as_py() & OFFSET_MASK, offsets[-1].as_py() & OFFSET_MASK
        if last - first + 1 == len(offsets):
            return self.visible.slice(first, len(offsets))
        return pc.take(self.visible, pa.array((offsets.to_numpy() & OFFSET_MASK).astype(np.uint32)))


@dataclass(frozen=True, eq=False)
class RowMask:
    """The visible rows of one source: neither superseded by a newer source nor tombstones.

    Args:
        fragments: fragment id -> mask; a fragment that is absent is visible as a whole.
    """

    fragments: Mapping[int, FragmentMask] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(int(mask.visible.nbytes) for mask in self.fragments.values())

    @cached_property
    def hidden_rows(self) -> int:
        """Number of hidden rows."""
        return sum(mask.hidden_rows for mask in self.fragments.values())

    def digests(self, fragment_ids: Iterable[int]) -> ShownRows:
        """Return the digests of the visible rows of fragments."""
        masks = ((fragment_id, self.fragments.get(fragment_id)) for fragment_id in fragment_ids)
        return tuple((one, None if mask is None else mask.digests) for one, mask in masks)

    def without(self, hidden: Mapping[int, np.ndarray], physical_rows: Mapping[int, int]) -> RowMask:
        """Return a mask that also hides these rows; it shares unchanged fragments with this one.

        Args:
            hidden: fragment id -> offsets of rows (uint32, any order, repeats allowed).
            physical_rows: fragment id -> rows; other fragments no longer exist and are left out.
        """
        fragments = dict(self.fragments)
        for fragment_id, offsets in hidden.items():
            if len(offsets) and fragment_id in physical_rows:
                before = fragments.get(fragment_id)
                fragments[fragment_id] = build_fragment_mask(physical_rows[fragment_id], offsets, before)
        return RowMask(fragments)

    def keep(self, batch: pa.RecordBatch, addresses: pa.UInt64Array) -> pa.RecordBatch:
        """Return the visible rows of a batch.

        Args:
            batch: rows of the source, in any projection.
            addresses: their row addresses; those of a fragment together, in ascending order.
        """
        if not batch.num_rows or not self.fragments:
            return batch
        first, last = addresses[0].as_py() >> OFFSET_BITS, addresses[-1].as_py() >> OFFSET_BITS
        if first == last:
            mask = self.fragments.get(first)
            return batch if mask is None else filter_visible(batch, mask.at(addresses))
        fragment_ids = addresses.to_numpy() >> OFFSET_BITS
        cuts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(fragment_ids)]
        parts = [
            self.keep(batch.slice(start, stop - start), addresses.slice(start, stop - start))
            for start, stop in itertools.pairwise(cuts)
        ]
        return pa.concat_batches(parts)


EVERYTHING_VISIBLE = RowMask()


def _wrap_bits(bits: np.ndarray, rows: int) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(bits)])


def pack_flags(flags: np.ndarray) -> pa.BooleanArray:
    """Return flags as an array of Arrow, in a fifteenth of the time that `pa.array` takes."""
    return _wrap_bits(np.packbits(flags, bitorder="little"), len(flags))


def filter_visible(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """Return the rows of `batch` whose flag is set."""
    return batch if mask.true_count == len(mask) else batch.filter(mask)


def build_fragment_mask(
    physical_rows: int, hidden: np.ndarray, before: FragmentMask | None = None
) -> FragmentMask:
    """Return a mask that hides the rows at these offsets (uint32, in any order, with repetitions).

    Args:
        physical_rows: rows of the fragment.
        hidden: offsets.
        before: what is hidden already.
    """
    if before is not None:
        return before.without(hidden)
    flags = np.ones(physical_rows, dtype=np.bool_)
    flags[hidden] = False
    return FragmentMask(pack_flags(flags))


def group_by_fragment(addresses: np.ndarray) -> dict[int, np.ndarray]:
    """Return ascending offsets per fragment of row addresses."""
    if not len(addresses):
        return {}
    ordered = addresses if (addresses[1:] >= addresses[:-1]).all() else np.sort(addresses)
    fragment_ids = ordered >> OFFSET_BITS
    if fragment_ids[0] == fragment_ids[-1]:
        return {int(fragment_ids[0]): (ordered & OFFSET_MASK).astype(np.uint32)}
    starts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist()]
    offsets = np.split((ordered & OFFSET_MASK).astype(np.uint32), starts[1:])
    return {int(fragment_ids[start]): part for start, part in zip(starts, offsets, strict=True)}


def build_mask(addresses: np.ndarray, fragment_rows: Mapping[int, int]) -> RowMask:
    """Return a mask that shows only the rows at these addresses, none of which is deleted."""
    shown = group_by_fragment(addresses)
    masks = {}
    for fragment_id, rows in fragment_rows.items():
        flags = np.zeros(rows, dtype=np.bool_)
        if fragment_id in shown:
            flags[shown[fragment_id]] = True
        masks[fragment_id] = FragmentMask(pack_flags(flags), hides_deleted=True)
    return RowMask(masks)
