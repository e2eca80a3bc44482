"""The unflushed rows of one region, which grow entry by entry.

What is derived from them (which rows are the newest of their key, which rows of other sources they supersede)
grows with them: a query pays for the rows that came since the query before.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes.storage.source import MemTableSource, StoredColumn, convert_columns
from memwal.regions.wal import WalEntry
from memwal.stored_fields import TOMBSTONE, read_entry_fields
from planner.tables.sources.base_table import BaseTable
from planner.tables.sources.generations import LayerKeys
from planner.tables.sources.keys import KeyHistory, key_column

Find = Callable[[pa.Array], np.ndarray]

KEY_BYTES = 160
"""What a key is booked at, with its place in a dictionary."""

_NUMBERS = itertools.count()


class _Entry(NamedTuple):
    position: int
    generation: int | None
    start: int


@dataclass(slots=True)
class _Located:
    """Where rows up to number `done` were found in another source, in blocks of (start, stop, places)."""

    done: int = 0
    blocks: list[tuple[int, int, np.ndarray]] = field(default_factory=list)


class TailRows:
    """Rows of WAL entries in the table's columns; only appended to. Safe to share between threads.

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
        self._located: dict[Hashable, _Located] = {}
        self._last_keys: tuple[tuple[int, int], pa.Array] | None = None
        self._stored: tuple[pa.Schema, Mapping[str, StoredColumn]] | None = None
        self._tail: Tail | None = None

    def reads_as(self, base: BaseTable) -> bool:
        """Whether another version of the base would read the same values from the same entries."""
        return (
            self._fields == base.field_names
            and self._key == base.primary_key
            and self._schema.equals(tail_schema(base))
        )

    def append(self, entries: Sequence[WalEntry], base: BaseTable) -> None:
        """Add entries with rows; those at positions that are there already are left out."""
        with self._lock:
            for entry in entries:
                if not self._entries or entry.position > self._entries[-1].position:
                    self._add(entry.position, entry.generation, self._rows_of(entry, base))

    def tail(self) -> Tail | None:
        """All rows that are there now; the same object while no more have come."""
        with self._lock:
            if not self._entries:
                return None
            if self._tail is None:
                rows = pa.Table.from_batches(self._batches, self._schema)
                self._tail = Tail(self.region_id, len(self._entries), rows, self)
            return self._tail

    @property
    def nbytes(self) -> int:
        """Bytes held, keys included where they are needed."""
        keys = 0 if self._history is None else KEY_BYTES * self._history.rows
        return sum(int(batch.nbytes) for batch in self._batches) + keys

    def positions(self, entries: int) -> tuple[int, ...]:
        """Of the first so many entries, ascending."""
        return tuple(one.position for one in self._entries[:entries])

    def position(self, entry: int) -> int:
        """Of one entry, counted from 0."""
        return self._entries[entry].position

    def since(self, position: int, base: BaseTable) -> TailRows:
        """A copy without the entries before a position."""
        with self._lock:
            kept = TailRows(self.region_id, base)
            entries = [one for one in self._entries if one.position >= position]
            if entries:
                first = entries[0].start
                rest = pa.Table.from_batches(self._batches, self._schema).slice(first)
                stops = [one.start for one in entries[1:]] + [self._count]
                for one, stop in zip(entries, stops, strict=True):
                    kept._add(one.position, one.generation, rest.slice(one.start - first, stop - one.start))
            return kept

    def stretch(self, generation: int) -> tuple[int, int] | None:
        """First row of a generation and the row behind its last one; None where it has none here."""
        with self._lock:
            starts = [one.start for one in self._entries if one.generation == generation]
            if not starts:
                return None
            stop = next((cut for cut in self._cuts if cut > starts[0]), self._count)
            return starts[0], stop

    # What is derived from the rows

    def newest(self, rows: int) -> np.ndarray:
        """Which of the first so many rows are the last of their key among them, and no tombstones."""
        with self._lock:
            return self._known_history().newest(rows)

    def find_rows(self, keys: pa.Table, rows: int) -> np.ndarray | None:
        """Ascending numbers of the last row of each key among the first so many; None where not known."""
        with self._lock:
            return self._known_history().find(key_column(keys), rows)

    def distinct_keys(self, start: int, stop: int) -> int:
        """How many keys a stretch of rows has."""
        with self._lock:
            return self._known_history().distinct(start, stop)

    def located(self, source: Hashable, start: int, stop: int, find: Find) -> list[np.ndarray]:
        """Where another source has the keys of a stretch of rows.

        Args:
            source: names rows that never change.
            start: first row.
            stop: behind the last row.
            find: places of distinct keys in the source.
        """
        with self._lock:
            known = self._located.setdefault(source, _Located())
            if stop > known.done:
                for first, end in self._pieces(known.done, stop):
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

    def located_so_far(self, source: Hashable, start: int, stop: int) -> list[np.ndarray] | None:
        """See `located`; None where it would have to ask."""
        with self._lock:
            known = self._located.get(source)
            if known is None or known.done < stop:
                return None
            blocks = [one for one in known.blocks if one[0] < stop and start < one[1]]
            if any(first < start or stop < end for first, end, _ in blocks):
                return None
            return [places for _, _, places in blocks]

    def keys(self, start: int, stop: int) -> pa.Array:
        """Distinct keys of a stretch of rows."""
        with self._lock:
            # One source after another is asked for the same ones.
            if self._last_keys is None or self._last_keys[0] != (start, stop):
                rows = pa.Table.from_batches(self._batches, self._schema).slice(start, stop - start)
                self._last_keys = (start, stop), pc.unique(key_column(rows.select(list(self._key))))
            return self._last_keys[1]

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """A stretch, cut where generations begin: what is found of one serves it when it is flushed."""
        yield from itertools.pairwise([start, *(cut for cut in self._cuts if start < cut < stop), stop])

    def _known_history(self) -> KeyHistory:
        history = self._history
        if history is None:
            history = self._history = KeyHistory()
        if history.rows < self._count:
            rows = pa.Table.from_batches(self._batches, self._schema).slice(history.rows)
            keys = key_column(rows.select(list(self._key)))
            dead = rows.column(TOMBSTONE).to_numpy()
            before = history.rows
            starts = [one.start - before for one in self._entries_from(before)]
            history.extend(keys, dead, [*starts, len(keys)])
        return history

    def _entries_from(self, row: int) -> list[_Entry]:
        found = list(itertools.takewhile(lambda one: one.start >= row, reversed(self._entries)))
        found.reverse()
        return found

    def _rows_of(self, entry: WalEntry, base: BaseTable) -> pa.Table:
        """The entry's rows; neighbours have their columns in the same places as a rule."""
        if entry.rows is None:
            return self._schema.empty_table()
        stored_as = entry.rows.schema
        if self._stored is None or not self._stored[0].equals(stored_as, check_metadata=True):
            self._stored = stored_as, base.stored_columns(read_entry_fields(stored_as))
        return entry_rows(entry.rows, self._schema, self._stored[1])

    def _add(self, position: int, generation: int | None, rows: pa.Table) -> None:
        if self._entries and self._entries[-1].generation != generation:
            self._cuts.append(self._count)
        self._entries.append(_Entry(position, generation, self._count))
        self._count += rows.num_rows
        self._tail = None
        for added in rows.to_batches():
            # Every row is copied a few times at most, and there are few batches however many entries come.
            self._batches.append(added)
            while len(self._batches) > 1 and self._batches[-2].num_rows <= 2 * self._batches[-1].num_rows:
                self._batches[-2:] = [pa.concat_batches(self._batches[-2:])]


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
        """Of its entries, ascending."""
        return self.log.positions(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.rows.nbytes)

    @cached_property
    def source(self) -> MemTableSource:
        """The tail as a source of rows."""
        label = f"region {self.region_id[:8]} WAL {self.first}..{self.last}"
        return MemTableSource(label, self.rows, lambda keys: self.find(keys.table))

    def find(self, keys: pa.Table) -> np.ndarray | None:
        """Ascending numbers of the last row of each of these keys; None where that is not known."""
        return self.log.find_rows(keys, self.rows.num_rows)

    def newest(self) -> np.ndarray:
        """Which rows are the last of their key, and no tombstones."""
        return self.log.newest(self.rows.num_rows)

    def keys(self, base: BaseTable) -> LayerKeys:
        """Keys of all rows."""
        dead = self.rows.column(TOMBSTONE).to_numpy()
        addresses = np.arange(self.rows.num_rows, dtype=np.uint64)
        return LayerKeys(key_column(self.rows.select(list(base.primary_key))), addresses, dead)


def tail_schema(base: BaseTable) -> pa.Schema:
    """The table's columns and `_tombstone`."""
    return base.schema.append(pa.field(TOMBSTONE, pa.bool_()))


def entry_rows(rows: pa.Table, schema: pa.Schema, stored: Mapping[str, StoredColumn]) -> pa.Table:
    """Rows of a WAL entry as the table's rows.

    Args:
        rows: as they are in the log.
        schema: see `tail_schema`.
        stored: where the entry has the table's columns.
    """
    *columns, _ = schema
    batches = []
    for batch in rows.to_batches():
        arrays = convert_columns(batch, columns, stored)
        if TOMBSTONE in batch.schema.names:
            arrays.append(batch.column(TOMBSTONE))
        else:
            arrays.append(pa.array(np.zeros(batch.num_rows, dtype=np.bool_)))
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)
