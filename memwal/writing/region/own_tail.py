"""What this process wrote to a region and holds in memory until it is flushed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import pyarrow as pa

from memwal.regions.wal import WalEntry
from memwal.writing.table.rows import entry_rows


@dataclass(frozen=True, eq=False)
class OwnTail:
    """What this process wrote to a region and holds in memory.

    Whoever finds `writer_epoch` in the region's newest manifest knows its whole log up to `last` without
    looking at storage, and the rows of all positions from `first` on. Positions below `first` that the
    manifest does not cover are in storage: those of former writers, and those of generations that were
    flushed since the manifest was read.

    Attributes:
        writer_epoch: of the claim.
        first: position of the oldest entry that is held; `last` + 1 where none is.
        last: position of the newest durable entry.
        entries: with rows, ascending, all those of positions `first` to `last`; what lies between them are
            fences.
    """

    writer_epoch: int
    first: int
    last: int
    entries: Sequence[WalEntry]


class HeldEntry:
    """One durable append; what readers want of it is made when the first of them asks."""

    __slots__ = ("_deleted", "_entry", "_rows", "_schema", "epoch", "generation", "nbytes", "position")

    def __init__(
        self, position: int, epoch: int, generation: int, rows: pa.Table, schema: pa.Schema, *, deleted: bool
    ) -> None:
        self.position = position
        self.epoch = epoch
        self.generation = generation
        self.nbytes = int(rows.nbytes)
        self._rows = rows
        self._schema = schema
        self._deleted = deleted
        self._entry: WalEntry | None = None

    @property
    def num_rows(self) -> int:
        """Rows or keys."""
        return int(self._rows.num_rows)

    @property
    def entry(self) -> WalEntry:
        """As it is in the log."""
        made = self._entry
        if made is None:
            rows = entry_rows(self._rows, self._schema, deleted=self._deleted)
            made = self._entry = WalEntry(
                self.position, self.epoch, self.generation, is_fence=False, rows=rows
            )
        return made


class _Entries(Sequence[WalEntry]):
    """The first entries of a list that only grows; making it copies nothing."""

    __slots__ = ("_held", "_size")

    def __init__(self, held: list[HeldEntry], size: int) -> None:
        self._held = held
        self._size = size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> WalEntry: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[WalEntry, ...]: ...

    def __getitem__(self, at: int | slice) -> WalEntry | tuple[WalEntry, ...]:
        if isinstance(at, slice):
            return tuple(self._held[one].entry for one in range(*at.indices(self._size)))
        if not -self._size <= at < self._size:
            raise IndexError(at)
        return self._held[at % self._size].entry

    def __iter__(self) -> Iterator[WalEntry]:
        return (self._held[at].entry for at in range(self._size))


class TailKeeper:
    """Collects what a claim appends; one thread at a time writes, any number reads.

    Args:
        epoch: of the claim.
        position: of the newest entry when it began.
    """

    def __init__(self, epoch: int, position: int) -> None:
        self._epoch = epoch
        self._lock = threading.Lock()
        # First position, last position, entries and how many of them: replaced together, so that readers
        # need no lock.
        self._state: tuple[int, int, list[HeldEntry], int] = (position + 1, position, [], 0)
        self.rows = 0
        self.bytes = 0

    def view(self) -> OwnTail:
        """What is held now; costs the same however much that is."""
        first, last, held, count = self._state
        return OwnTail(self._epoch, first, last, _Entries(held, count))

    def append(self, entry: HeldEntry) -> None:
        """Hold a durable entry; between it and the last there are none but fences."""
        with self._lock:
            first, _, held, _ = self._state
            held.append(entry)
            self._state = (first, entry.position, held, len(held))
            self.rows += entry.num_rows
            self.bytes += entry.nbytes

    def drop(self, generation: int) -> None:
        """Let go of the entries of all generations before this one: they are flushed."""
        if not self._state[2] or self._state[2][0].generation >= generation:
            return
        with self._lock:
            _, last, held, _ = self._state
            keep = next((at for at, one in enumerate(held) if one.generation >= generation), len(held))
            self.rows -= sum(one.num_rows for one in held[:keep])
            self.bytes -= sum(one.nbytes for one in held[:keep])
            kept = held[keep:]
            self._state = (kept[0].position if kept else last + 1, last, kept, len(kept))
