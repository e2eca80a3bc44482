"""Every single change between two states of a table: what each row was, and what became of it.

The rows of a key form a chain: what it was in the older state, what each log entry made of it, and what each
commit of another writer to the base table did, as far as it was seen. Two neighbours of a chain are one change:

    id 7 in the older state        'open'    \\  update
    log entry 12: id 7             'paid'    <
    log entry 15: id 7 deleted               >  delete
    version 20: id 7               'sent'    -  insert

Log entries have an order of their own. A version of the base table comes behind the entries that were written
before its commit, by the times of files, and behind those whose rows it contains. Of a version the net
difference is told, below the fresh rows of that moment: what these hide, nobody saw. So merges and compaction
change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from execnodes import ExecNode, TaskContext
from execnodes.storage.source import ColumnCache, convert_entry
from memwal.base.index_details import read_base_manifest
from memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnsupportedError
from memwal.regions.wal import WalEntry
from memwal.stored_fields import TOMBSTONE, read_entry_fields
from planner.scans.changes import CHANGED, NUMBER
from planner.scans.changes.changed_rows import plan_changed_rows
from planner.scans.changes.region_log import LogGoneError, ReadLogEntry, RegionLogFiles
from planner.scans.scan_plan import plan_scan
from planner.sql.as_of import format_moment, to_microseconds
from planner.tables.sources.base_table import BaseTable, open_base_table
from planner.tables.sources.keys import combine_key_columns
from planner.tables.sources.log_tail import TailRows, tail_schema
from planner.tables.sources.snapshot import RegionSnapshot, TableSnapshot
from planner.tables.visibility.visibility import Visibility

LINKS: Final = (pa.field(NUMBER, pa.int64()), pa.field(CHANGED, pa.timestamp("us")))
"""Columns of chained rows behind those of the table."""
MOST_BYTES: Final = 1 << 29
"""Most bytes of rows that one statement holds to tell single changes."""
_QUIET: Final = frozenset({"CreateIndex", "Project", "Rewrite", "UpdateConfig"})
"""Operations of Lance that leave all rows as they are."""


@dataclass(frozen=True, eq=False)
class ChainedRows:
    """All changes of a table between two states, as the rows before and behind each.

    Attributes:
        before: rows that were replaced or deleted, each with the number of the change that did it.
        after: rows that came or replaced others, likewise. A change whose number is only here is an insert;
            one whose number is only in `before`, a delete.
    """

    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class States:
    """Two states of a table, and how they are read.

    Attributes:
        older: state before, with all of its regions.
        newer: state after, whose columns rows get.
        read_entry: reads entries of logs.
        visibility: where masks come from.
        cache: where decoded columns are kept.
        context: of the execution.
        shares_rows: whether stored rows that two states show are not read.
    """

    older: TableSnapshot
    newer: TableSnapshot
    read_entry: ReadLogEntry
    visibility: Visibility
    cache: ColumnCache
    context: TaskContext
    shares_rows: bool


def chain_rows(states: States) -> ChainedRows:
    """Read every change between two states.

    Raises:
        PreconditionError: part of them was cleaned up.
        InvalidInputError: the states are exchanged, or too far apart.
        UnsupportedError: one of them is not part of the table's one history.
    """
    _check_states(states)
    # A state that a token names has no regions whose rows are all merged.
    named = {*states.older.regions, *states.newer.regions, *states.newer.base.merged_generations}
    logs = {
        region_id: RegionLogFiles(states.newer.base.storage, region_id, states.read_entry)
        for region_id in sorted(named)
    }
    try:
        return _Chains(states, logs).build()
    except LogGoneError as error:
        raise _build_gone_error(states.newer.base, states.older.base.version, logs, error) from error


def _check_states(states: States) -> None:
    older, newer = states.older.base, states.newer.base
    if older.storage.uri != newer.storage.uri:
        msg = (
            f"table {newer.name!r}: mode => 'all' tells the history of one branch; give states of the same one, "
            "or mode => 'net'"
        )
        raise UnsupportedError(msg)
    if older.details is not None and newer.details is None:
        msg = (
            f"table {newer.name!r}: its MemWAL was given up between the two states, and with it the log of single "
            "changes: give states on one side of that, or mode => 'net'"
        )
        raise UnsupportedError(msg)


class _Rows:
    """Rows of chains, in the order of what they tell."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._parts: list[pa.Table] = []
        self._dead: list[np.ndarray] = []
        self._begins: list[np.ndarray] = []
        self._times: list[np.ndarray] = []
        self._bytes = 0

    def add(self, rows: pa.Table, time: int, dead: np.ndarray | None = None, *, begins: bool = False) -> None:
        """Add rows.

        Args:
            rows: the table's columns.
            time: of the change, in microseconds since 1970.
            dead: which of them say that their key is gone; None for none.
            begins: whether they are what was there before, and count only as the first of their key.
        """
        count = rows.num_rows
        if not count:
            return
        self._bytes += int(rows.nbytes)
        if self._bytes > MOST_BYTES:
            msg = (
                f"there are more than {MOST_BYTES >> 20} MiB of single changes between the two states: choose "
                "states that are nearer to one another, or mode => 'net'"
            )
            raise InvalidInputError(msg)
        self._parts.append(rows)
        self._dead.append(np.zeros(count, np.bool_) if dead is None else dead)
        self._begins.append(np.full(count, begins))
        self._times.append(np.full(count, time, np.int64))

    def chain(self, key: Sequence[str]) -> ChainedRows:
        """Find the neighbours of each row among those of its key."""
        rows = pa.concat_tables([self.schema.empty_table(), *self._parts]).combine_chunks()
        if not rows.num_rows:
            empty = pa.schema([*self.schema, *LINKS]).empty_table()
            return ChainedRows(empty, empty)
        dead, begins, times = map(np.concatenate, (self._dead, self._begins, self._times))
        keys = pc.dictionary_encode(combine_key_columns(rows.select(list(key)))).indices.to_numpy()
        by_key = np.argsort(keys, kind="stable")
        is_first = np.ones(rows.num_rows, np.bool_)
        is_first[by_key[1:]] = keys[by_key[1:]] != keys[by_key[:-1]]
        by_key = by_key[(is_first | ~begins)[by_key]]
        following = np.full(rows.num_rows, -1)
        same = keys[by_key[1:]] == keys[by_key[:-1]]
        following[by_key[:-1][same]] = by_key[1:][same]
        before = np.flatnonzero(~dead & (following >= 0))
        after = np.flatnonzero(~dead & ~begins)
        return ChainedRows(_link(rows, before, following[before], times), _link(rows, after, after, times))


def _link(rows: pa.Table, places: np.ndarray, numbers: np.ndarray, times: np.ndarray) -> pa.Table:
    """Return some rows, with the numbers of changes and their times."""
    links = pa.array(numbers, pa.int64()), pa.array(times[numbers]).cast(pa.timestamp("us"))
    table = rows.take(pa.array(places))
    for one, values in zip(LINKS, links, strict=True):
        table = table.append_column(one, values)
    return table


@dataclass(frozen=True, slots=True)
class _Commit:
    """A version of the base table that may have changed rows.

    Attributes:
        before: the version before it.
        base: the version.
        time: of its commit, in microseconds since 1970.
    """

    before: BaseTable
    base: BaseTable
    time: int


@dataclass(slots=True)
class _GrowingTail:
    """Log entries that a version of the base table does not contain.

    Attributes:
        rows: of the entries.
        after: position of the last entry that the version contains, if it contains more than the older state.
        read_to: position of the last entry.
    """

    rows: TailRows
    after: int
    read_to: int = 0


class _Chains:
    """Collects the rows of all chains between two states.

    Args:
        states: the states.
        logs: region id -> its log.
    """

    def __init__(self, states: States, logs: Mapping[str, RegionLogFiles]) -> None:
        self._states = states
        self._older, self._newest = states.older, states.newer.base
        self._logs = logs
        self._rows = _Rows(self._newest.schema)
        self._stored: tuple[pa.Schema, Any] | None = None
        self._starts: dict[str, int] = {}
        """Region id -> position of the last entry of the older state."""
        self._read_to: dict[str, int] = {}
        """Region id -> position of the last entry that is among the rows."""
        self._tails: dict[str, _GrowingTail] = {}
        """Region id -> the fresh rows of the last commit, but those of generations."""

    def build(self) -> ChainedRows:
        """Read the rows."""
        ends = {}
        for region_id, log in self._logs.items():
            before, now = (one.regions.get(region_id) for one in (self._older, self._states.newer))
            if _count_rows(before, self._older.base, region_id) == _count_rows(now, self._newest, region_id):
                continue
            start, end = log.find_end(before, self._older.base), log.find_end(now, self._newest)
            if start > end:
                msg = (
                    f"table {self._newest.name!r}: in region {region_id} the state of since has log entries up to "
                    f"{start}, and that of until up to {end}: exchange them, or read with consistency strong"
                )
                raise InvalidInputError(msg)
            self._starts[region_id], ends[region_id] = start, end
        self._read_to |= self._starts
        self._add_rows_before(ends)
        for commit in self._list_commits():
            self._add_entries(self._find_ends(commit, ends))
            self._add_commit(commit)
        self._add_entries(ends)
        return self._rows.chain(self._newest.primary_key)

    def _add_rows_before(self, ends: Mapping[str, int]) -> None:
        """Add the rows of the older state that log entries replace."""
        older = self._older
        later = self._put_on_top(older.base, ends)
        regions = frozenset(older.regions)
        self._rows.add(self._read_difference(older, later, regions), 0, begins=True)
        self._tails.clear()  # They have entries that come later.

    def _put_on_top(self, base: BaseTable, ends: Mapping[str, int]) -> TableSnapshot:
        """Return a version of the base table under the fresh rows that there were at some time.

        Args:
            base: the version.
            ends: region id -> position of the last log entry; regions without have those of the older state.
        """
        region_ids = dict.fromkeys((*self._older.regions, *ends))
        return TableSnapshot(
            base, {one: self._find_fresh_rows(base, one, ends.get(one)) for one in region_ids}
        )

    def _find_fresh_rows(self, base: BaseTable, region_id: str, end: int | None) -> RegionSnapshot:
        """Return the fresh rows of a region on top of a version, up to an entry of its log."""
        known, log = self._older.regions.get(region_id), self._logs[region_id]
        merged = base.merged_generations.get(region_id, 0)
        is_behind = merged > self._older.base.merged_generations.get(region_id, 0)
        after = log.find_end_of(merged) if is_behind else 0
        kept = self._tails.get(region_id)
        if kept is None or kept.after != after or not kept.rows.has_same_columns(base):
            kept = self._tails[region_id] = _GrowingTail(TailRows(region_id, base), after)
            positions = () if known is None or known.tail is None else known.tail.positions
            kept.rows.append(
                [self._states.read_entry(region_id, one) for one in positions if one > after], base
            )
            kept.read_to = max(after, self._starts.get(region_id, 0))
        if end is not None and end > kept.read_to:
            kept.rows.append(list(log.read_between(kept.read_to, end)), base)
            kept.read_to = end
        generations = () if known is None else known.generations
        later = tuple([one for one in generations if one.generation > merged])
        return RegionSnapshot(region_id, later, kept.rows.tail())

    def _read_difference(
        self, shown: TableSnapshot, other: TableSnapshot, regions: frozenset[str]
    ) -> pa.Table:
        """Read the rows of a state that another one hides, in the columns of the newest.

        Args:
            shown: the state.
            other: the other one.
            regions: whose fresh rows are read.
        """
        base, states = shown.base, self._states
        sources = {name: base.field_names.get(number) for number, name in self._newest.field_names.items()}
        columns = {
            name: old
            for name, old in sources.items()
            if old is not None and base.schema.field(old).type.equals(self._newest.schema.field(name).type)
        }
        read = tuple(dict.fromkeys(columns.values()))
        node: ExecNode
        if states.shares_rows:
            node = plan_changed_rows(shown, other, regions, read, None, 1, states.visibility, states.cache)
        else:
            node = plan_scan(shown, regions, read, None, 1, states.visibility, states.cache)
        found = pa.Table.from_batches(node.execute(0, states.context), node.schema)
        arrays = [
            found.column(columns[one.name]) if one.name in columns else pa.nulls(found.num_rows, one.type)
            for one in self._newest.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self._newest.schema)

    def _add_entries(self, ends: Mapping[str, int]) -> None:
        """Add the rows of all log entries up to a position of each region, in the order of their times."""
        entries = [
            (self._logs[region_id].times[entry.position], at, entry)
            for at, (region_id, end) in enumerate(ends.items())
            for entry in self._logs[region_id].read_between(self._read_to[region_id], end)
        ]
        for time, _, entry in sorted(entries, key=lambda one: (one[0], one[1], one[2].position)):
            self._states.context.check()
            rows = self._convert(entry)
            dead = rows.column(TOMBSTONE).to_numpy()
            self._rows.add(rows.drop_columns([TOMBSTONE]), time, dead)
        self._read_to |= ends

    def _convert(self, entry: WalEntry) -> pa.Table:
        """Return the rows of an entry in the columns of the newest state, and `_tombstone`."""
        if entry.rows is None:
            return tail_schema(self._newest).empty_table()
        stored_as = entry.rows.schema
        if self._stored is None or not self._stored[0].equals(stored_as, check_metadata=True):
            self._stored = stored_as, self._newest.map_stored_columns(read_entry_fields(stored_as))
        return convert_entry(entry.rows, tail_schema(self._newest), self._stored[1])

    def _list_commits(self) -> Iterator[_Commit]:
        """Yield the versions between the states that may have changed rows, ascending.

        Raises:
            LogGoneError: a version was removed.
        """
        first, newest = self._older.base.version, self._newest
        if first == newest.version:
            return
        known = {
            int(one["version"]): to_microseconds(one["timestamp"].astimezone())
            for one in newest.dataset.versions()
        }
        before = self._older.base
        for version in range(first + 1, newest.version + 1):
            if version not in known:
                raise LogGoneError(f"version {version} was removed")
            if _read_operation(newest.dataset, version) in _QUIET:
                continue
            if before.version < version - 1:
                before = self._open(version - 1)
            base = self._open(version)
            merged, merged_before = base.merged_generations, before.merged_generations
            if any(merged.get(one, 0) < generation for one, generation in merged_before.items()):
                msg = (
                    f"table {newest.name!r}: version {version} is a former one without generations that had been "
                    f"merged; single changes are told up to version {version - 1}, or from version {version} on"
                )
                raise UnsupportedError(msg)
            if merged == merged_before:
                yield _Commit(before, base, known[version])
            before = base

    def _open(self, version: int) -> BaseTable:
        newest = self._newest
        for known in (newest, self._older.base):
            if known.version == version:
                return known
        try:
            return open_base_table(newest.name, newest.storage, version, newest.session, newest.place)
        except NotFoundError as error:
            raise LogGoneError(f"version {version} was removed") from error

    def _find_ends(self, commit: _Commit, ends: Mapping[str, int]) -> dict[str, int]:
        """Return region id -> position of the last log entry before a commit."""
        found = {}
        for region_id, end in ends.items():
            log, start = self._logs[region_id], self._read_to[region_id]
            merged = commit.base.merged_generations.get(region_id, 0)
            if merged > self._older.base.merged_generations.get(region_id, 0):
                start = max(start, log.find_end_of(merged))
            while start < end and log.times.get(start + 1, commit.time) < commit.time:
                start += 1
            found[region_id] = min(start, end)
        return found

    def _add_commit(self, commit: _Commit) -> None:
        """Add what a commit changed of the rows that no fresh row hid."""
        before, after = (self._put_on_top(base, self._read_to) for base in (commit.before, commit.base))
        none: frozenset[str] = frozenset()
        gone, come = self._read_difference(before, after, none), self._read_difference(after, before, none)
        self._rows.add(gone, commit.time, begins=True)
        key = list(self._newest.primary_key)
        come_keys, gone_keys = (combine_key_columns(rows.select(key)) for rows in (come, gone))
        lost = gone.filter(pc.invert(pc.is_in(gone_keys, come_keys)))
        self._rows.add(lost, commit.time, np.ones(lost.num_rows, np.bool_))
        self._rows.add(come, commit.time)


def _count_rows(region: RegionSnapshot | None, base: BaseTable, region_id: str) -> tuple[int, int]:
    """Return the newest generation of a region that a state has, and the last entry of its log tail."""
    newest = base.merged_generations.get(region_id, 0)
    if region is None:
        return newest, 0
    if region.generations:
        newest = max(newest, region.generations[-1].generation)
    return newest, 0 if region.tail is None else region.tail.last


def _read_operation(dataset: Any, version: int) -> str | None:  # noqa: ANN401 - lance types
    """Return the name of Lance's operation that made a version; None if it is not recorded."""
    try:
        transaction = dataset.read_transaction(version)
    except (OSError, ValueError):
        return None
    return None if transaction is None else type(transaction.operation).__name__


def _build_gone_error(
    newest: BaseTable, since: int, logs: Mapping[str, RegionLogFiles], error: LogGoneError
) -> PreconditionError:
    """Build the error for changes that are gone; it names the oldest version from which all are there."""
    versions = {int(one["version"]): one["timestamp"] for one in newest.dataset.versions()}
    oldest = newest.version
    for version in range(newest.version - 1, since, -1):
        if version not in versions or version + 1 not in versions or not _tells_all(newest, version, logs):
            break
        oldest = version
    at = format_moment(to_microseconds(versions[oldest].astimezone())) if oldest in versions else "now"
    return PreconditionError(
        f"table {newest.name!r}: single changes since this state were cleaned up ({error}). They are left since "
        f"version {oldest}, of {at}: begin anew, since => {oldest}, or ask for mode => 'net'. What clean keeps "
        "is said by its option keep_changes"
    )


def _tells_all(newest: BaseTable, version: int, logs: Mapping[str, RegionLogFiles]) -> bool:
    """Return whether the entries of all logs behind what a version contains are there."""
    details = read_base_manifest(newest.storage, version).details
    try:
        for region_id, log in logs.items():
            merged = 0 if details is None else details.newest_merged(region_id)
            first = log.find_end_of(merged) + 1
            if not all(position in log.times for position in range(first, max(log.times, default=0) + 1)):
                return False
    except LogGoneError:
        return False
    return True
