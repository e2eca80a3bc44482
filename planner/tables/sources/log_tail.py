"""Log of one region without what flushed generations cover, and its rows.

The newest row of each key, and the rows of other sources that they supersede, are computed incrementally:
a query only processes the rows that were added since the previous one.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes.storage.source import (
    ColumnMapping,
    MemTableSource,
    combine_chunks,
    convert_entry,
)
from lance_gateway.memwal.columns.nested_nulls import push_nulls_down
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE, read_entry_fields
from lance_gateway.memwal.regions.manifest import ReplayStart
from lance_gateway.memwal.regions.wal import WalEntry
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.generations import LayerKeys
from lance_gateway.planner.tables.sources.keys import KeyHistory, combine_key_columns

Find = Callable[[pa.Array], np.ndarray]
ReadEntry = Callable[[int], WalEntry]

KEY_BYTES = 160
"""Bytes of a key in a dictionary."""

ENTRY_BYTES = 160
"""Bytes of an entry beside its rows."""

SMALL_ROWS = 4096
"""Entries of up to so many rows are converted together."""

_NUMBERS = itertools.count()


class _Entry(NamedTuple):
    position: int
    generation: int | None
    start: int


@dataclass(slots=True)
class _FoundKeys:
    """Positions of the keys of the first `done` rows in another source, as (start, stop, places)."""

    done: int = 0
    blocks: list[tuple[int, int, np.ndarray]] = field(default_factory=list)


class TailRows:
    """Rows of WAL entries in the table's columns; append-only and thread-safe.

    Rows have numbers, from 0. A `Tail` shows the first so many of them.

    Attributes:
        number: tells it from all others, in caches.
        region_id: region.

    Args:
        region_id: see there.
        base: a version of the table by whose columns the rows are read.
    """

    def __init__(self, region_id: str, base: BaseTable) -> None:
        self.number = next(_NUMBERS)
        self.region_id = region_id
        self._schema = tail_schema(base)
        self._fields = base.field_names
        self._key = base.primary_key
        self._lock = threading.RLock()
        self._batches: list[pa.RecordBatch] = []
        self._count = 0
        self._entries: list[_Entry] = []
        self._cuts: list[int] = []
        self._history: KeyHistory | None = None
        self._found_keys: dict[Hashable, _FoundKeys] = {}
        self._last_keys: tuple[tuple[int, int], pa.Array] | None = None
        self._stored: tuple[pa.Schema, ColumnMapping] | None = None
        self._tail: Tail | None = None

    def has_same_columns(self, base: BaseTable) -> bool:
        """Return whether another base version would read the same values from the same entries."""
        return (
            self._fields == base.field_names
            and self._key == base.primary_key
            and self._schema.equals(tail_schema(base))
        )

    def append(self, entries: Sequence[WalEntry], base: BaseTable) -> None:
        """Append the rows of entries, except of entries that are there already."""
        with self._lock:
            new = [entry for entry in entries if entry.position > self.last]
            for alike in _group_alike(new):
                self._append_rows(alike, self._read_rows([entry.rows for entry in alike], base))

    def append_own(self, rows: pa.Table) -> None:
        """Append rows that are in no log, as one entry behind the others.

        Args:
            rows: the table's columns and `_tombstone`.
        """
        with self._lock:
            own = pa.Table.from_batches(map(push_nulls_down, rows.to_batches()), rows.schema)
            self._append_rows([WalEntry(self.last + 1, 0, None, is_fence=False, rows=own)], own)

    def tail(self) -> Tail | None:
        """Return the tail with all current rows; the same object until more are appended."""
        with self._lock:
            if not self._entries:
                return None
            if self._tail is None:
                rows = pa.Table.from_batches(self._batches, self._schema)
                self._tail = Tail(self.region_id, len(self._entries), rows, self)
            return self._tail

    def find_tail(self, positions: tuple[int, ...]) -> Tail | None:
        """Return the tail of the first entries; None if they are not at these positions.

        Args:
            positions: of at least one entry, ascending.
        """
        with self._lock:
            count = len(positions)
            if self.positions(count) != positions:
                return None
            if count == len(self._entries):
                return self.tail()
            rows = pa.Table.from_batches(self._batches, self._schema).slice(0, self._entries[count].start)
            return Tail(self.region_id, count, rows, self)

    @property
    def last(self) -> int:
        """Position of the newest entry; 0 if there is none."""
        return self._entries[-1].position if self._entries else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the rows, the entries, and the keys, which are indexed when they are needed."""
        with self._lock:
            rows = sum(int(batch.nbytes) for batch in self._batches)
            return rows + ENTRY_BYTES * len(self._entries) + KEY_BYTES * self._count

    def positions(self, entries: int) -> tuple[int, ...]:
        """Return the positions of the first `entries` entries, ascending."""
        return tuple(entry.position for entry in self._entries[:entries])

    def position(self, entry: int) -> int:
        """Return the position of one entry, counted from 0."""
        return self._entries[entry].position

    def copy_from(self, position: int, base: BaseTable) -> TailRows:
        """Copy the rows without the entries before a position."""
        with self._lock:
            kept = TailRows(self.region_id, base)
            entries = [entry for entry in self._entries if entry.position >= position]
            if entries:
                first = entries[0].start
                rest = pa.Table.from_batches(self._batches, self._schema).slice(first)
                stops = [entry.start for entry in entries[1:]] + [self._count]
                for one, stop in zip(entries, stops, strict=True):
                    rows = rest.slice(one.start - first, stop - one.start)
                    kept._append_rows(
                        [WalEntry(one.position, 0, one.generation, is_fence=False, rows=rows)], rows
                    )
            return kept

    def find_generation(self, generation: int) -> tuple[int, int] | None:
        """Return the first row of a generation and the end of its rows; None if it has none here."""
        with self._lock:
            starts = [entry.start for entry in self._entries if entry.generation == generation]
            if not starts:
                return None
            stop = next((cut for cut in self._cuts if cut > starts[0]), self._count)
            return starts[0], stop

    # What is derived from the rows

    def find_newest(self, rows: int) -> np.ndarray:
        """Flag those of the first `rows` rows that are the last of their key and no tombstone."""
        with self._lock:
            return self._extend_history().find_newest(rows)

    def find_rows(self, keys: pa.Table, rows: int) -> np.ndarray | None:
        """Return ascending numbers of the last row of each key among the first `rows`; None if unknown."""
        with self._lock:
            return self._extend_history().find(combine_key_columns(keys), rows)

    def count_keys(self, start: int, stop: int) -> int:
        """Count the distinct keys of a range of rows."""
        with self._lock:
            return self._extend_history().count_keys(start, stop)

    def locate(self, source: Hashable, start: int, stop: int, find: Find) -> list[np.ndarray]:
        """Find the keys of a range of rows in another source, and remember where they are.

        Args:
            source: names rows that never change.
            start: first row.
            stop: behind the last row.
            find: places of distinct keys in the source.
        """
        with self._lock:
            known = self._found_keys.setdefault(source, _FoundKeys())
            if stop > known.done:
                for first, end in self._split_at_generations(known.done, stop):
                    places = find(self.keys(first, end))
                    if len(places):
                        known.blocks.append((first, end, places))
                known.done = stop
            found = []
            for first, end, places in reversed(known.blocks):
                if end <= start:
                    break
                if first < stop:
                    whole = start <= first and end <= stop
                    found.append(places if whole else find(self.keys(max(first, start), min(end, stop))))
            return found

    def find_located(self, source: Hashable, start: int, stop: int) -> list[np.ndarray] | None:
        """Return what `locate` would; None if it would have to search."""
        with self._lock:
            known = self._found_keys.get(source)
            if known is None or known.done < stop:
                return None
            blocks = [block for block in known.blocks if block[0] < stop and start < block[1]]
            if any(first < start or stop < end for first, end, _ in blocks):
                return None
            return [places for _, _, places in blocks]

    def keys(self, start: int, stop: int) -> pa.Array:
        """Return the distinct keys of a range of rows."""
        with self._lock:
            # Several sources are searched for the same keys.
            if self._last_keys is None or self._last_keys[0] != (start, stop):
                rows = pa.Table.from_batches(self._batches, self._schema).slice(start, stop - start)
                self._last_keys = (start, stop), pc.unique(combine_key_columns(rows.select(list(self._key))))
            return self._last_keys[1]

    def _split_at_generations(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Split a range where generations begin, so that results serve a generation when it is flushed."""
        yield from itertools.pairwise([start, *(cut for cut in self._cuts if start < cut < stop), stop])

    def _extend_history(self) -> KeyHistory:
        history = self._history
        if history is None:
            history = self._history = KeyHistory()
        if history.rows < self._count:
            rows = pa.Table.from_batches(self._batches, self._schema).slice(history.rows)
            keys = combine_key_columns(rows.select(list(self._key)))
            dead = rows.column(TOMBSTONE).to_numpy()
            before = history.rows
            starts = [one.start - before for one in self._list_entries_from(before)]
            history.extend(keys, dead, [*starts, len(keys)])
        return history

    def _list_entries_from(self, row: int) -> list[_Entry]:
        found = list(itertools.takewhile(lambda one: one.start >= row, reversed(self._entries)))
        found.reverse()
        return found

    def _read_rows(self, entries: Sequence[pa.Table | None], base: BaseTable) -> pa.Table:
        """Read the rows of a fence, or of entries with one schema; the last column mapping is reused."""
        if entries[0] is None:
            return self._schema.empty_table()
        stored_as = entries[0].schema.remove_metadata()
        if self._stored is None or not self._stored[0].equals(stored_as, check_metadata=True):
            self._stored = stored_as, base.map_stored_columns(read_entry_fields(stored_as))
        rows = entries[0]
        if len(entries) > 1:
            parts = [one.replace_schema_metadata() for one in entries if one is not None]
            rows = pa.concat_tables(parts).combine_chunks()
        return convert_entry(rows, self._schema, self._stored[1])

    def _append_rows(self, entries: Iterable[WalEntry], rows: pa.Table) -> None:
        """Append the rows of entries, in the table's columns."""
        for entry in entries:
            if self._entries and self._entries[-1].generation != entry.generation:
                self._cuts.append(self._count)
            self._entries.append(_Entry(entry.position, entry.generation, self._count))
            self._count += 0 if entry.rows is None else entry.rows.num_rows
        self._tail = None
        for added in rows.to_batches():
            # Batches are merged so that there are few, and each row is copied only a few times.
            self._batches.append(added)
            while len(self._batches) > 1 and self._batches[-2].num_rows <= 2 * self._batches[-1].num_rows:
                self._batches[-2:] = [pa.concat_batches(self._batches[-2:])]


def _group_alike(entries: Iterable[WalEntry]) -> Iterator[list[WalEntry]]:
    """Divide entries into runs of small ones with the same columns, whose rows are converted together.

    To convert a few rows takes as long as to convert some thousand, for each column.
    """
    run: list[WalEntry] = []
    for entry in entries:
        if run and not _are_alike(run[-1], entry):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _are_alike(one: WalEntry, other: WalEntry) -> bool:
    if one.rows is None or other.rows is None or max(one.rows.num_rows, other.rows.num_rows) > SMALL_ROWS:
        return False
    schema: pa.Schema = one.rows.schema.remove_metadata()
    return bool(schema.equals(other.rows.schema.remove_metadata(), check_metadata=True))


@dataclass(frozen=True, eq=False)
class Tail:
    """Unflushed rows of one region: its WAL entries that no generation in the manifest covers.

    Attributes:
        region_id: region.
        entries: how many; at least one.
        rows: the table's columns and `_tombstone`, oldest row first.
        log: whose first rows they are.
    """

    region_id: str
    entries: int
    rows: pa.Table
    log: TailRows

    @cached_property
    def first(self) -> int:
        """Position of the oldest entry."""
        return self.log.position(0)

    @cached_property
    def last(self) -> int:
        """Position of the newest entry."""
        return self.log.position(self.entries - 1)

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Positions of its entries, ascending."""
        return self.log.positions(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self.rows.nbytes)

    @cached_property
    def source(self) -> MemTableSource:
        """The tail as a source of rows."""
        label = f"region {self.region_id[:8]} WAL {self.first}..{self.last}"
        return MemTableSource(label, self.rows, lambda keys: self.find(keys.table))

    def find(self, keys: pa.Table) -> np.ndarray | None:
        """Return ascending numbers of the last row of each of these keys; None if unknown."""
        return self.log.find_rows(keys, self.rows.num_rows)

    def find_newest(self) -> np.ndarray:
        """Flag the rows that are the last of their key and no tombstone."""
        return self.log.find_newest(self.rows.num_rows)

    def keys(self, base: BaseTable) -> LayerKeys:
        """Return the keys of all rows."""
        dead = self.rows.column(TOMBSTONE).to_numpy()
        addresses = np.arange(self.rows.num_rows, dtype=np.uint64)
        columns = [combine_chunks(self.rows.column(name)) for name in base.primary_key]
        return LayerKeys(tuple(columns), addresses, dead)


class RegionLog:
    """Unflushed entries of one region; append-only and thread-safe.

    Attributes:
        region_id: region.
        after: the manifest's replay position: entries up to it are flushed.
        floor: the manifest's current generation: entries of older ones are flushed.
        replay_start: both: a manifest that has the same calls the same entries flushed.
        last: newest position that was looked at.
        rows: that were read so far; None if there are none.
        checked_epoch: of the newest manifest by which the log was searched for entries that can't be read; a
            writer of another version has a higher one.
    """

    def __init__(self, region_id: str, after: int, floor: int) -> None:
        self.region_id = region_id
        self.after = after
        self.floor = floor
        self.replay_start = ReplayStart(after, floor)
        self.last = after
        self.checked_epoch = -1
        self._lock = threading.Lock()
        self._positions: list[tuple[int, int | None]] = []
        self._unread: list[WalEntry] = []
        self.rows: TailRows | None = None
        self._last_tail: tuple[BaseTable, Tail | None] | None = None
        """Last result of `tail`, until more entries are added."""

    @property
    def positions(self) -> tuple[int, ...]:
        """Positions of all entries with rows, ascending."""
        return tuple(position for position, _ in list(self._positions))

    def advance(self, entries: Sequence[WalEntry], last: int) -> None:
        """Add the entries up to a position.

        Args:
            entries: all those behind some position that was looked at already, ascending.
            last: the newest position.
        """
        with self._lock:
            for entry in entries:
                if entry.position <= self.last or entry.is_fence:
                    continue
                if self.replay_start.is_unflushed(entry.position, entry.generation):
                    self._positions.append((entry.position, entry.generation))
                    self._unread.append(entry)
                    self._last_tail = None
            self.last = max(self.last, last)

    def tail(self, base: BaseTable, read: ReadEntry) -> Tail | None:
        """Return the rows of all entries; None if there are none.

        Args:
            base: by whose columns they are read.
            read: an entry at a position.
        """
        with self._lock:
            if not self._positions:
                return None
            if self._last_tail is not None and self._last_tail[0] is base:
                return self._last_tail[1]
            if self.rows is None or not self.rows.has_same_columns(base):
                entries = [read(position) for position, _ in self._positions]
                self.rows = TailRows(self.region_id, base)
            else:
                entries = self._unread
            self.rows.append(entries, base)
            self._unread = []
            self._last_tail = base, self.rows.tail()
            return self._last_tail[1]

    def drop_flushed(self, after: int, floor: int, base: BaseTable | None) -> RegionLog:
        """Return a log without entries that were flushed since, which shares what was read of the rest.

        Args:
            after: the newer replay position.
            floor: the newer generation.
            base: any version of the table by whose columns the rows were read; None where none is at hand.
        """
        later = RegionLog(self.region_id, max(after, self.after), max(floor, self.floor))
        with self._lock:
            later._positions = [
                (position, generation)
                for position, generation in self._positions
                if later.replay_start.is_unflushed(position, generation)
            ]
            later.last = max(self.last, later.after)
            later.checked_epoch = self.checked_epoch
            kept = later._positions
            waiting = [entry for entry in self._unread if (entry.position, entry.generation) in set(kept)]
            rows = self.rows
            if kept == self._positions:
                later.rows, later._unread = rows, waiting
            elif (
                kept
                and kept == self._positions[-len(kept) :]
                and rows is not None
                and base is not None
                and rows.has_same_columns(base)
            ):
                later.rows = rows.copy_from(kept[0][0], base)
                later._unread = waiting
        return later


def tail_schema(base: BaseTable) -> pa.Schema:
    """Return the table's columns and `_tombstone`."""
    return base.schema.append(pa.field(TOMBSTONE, pa.bool_()))
