"""Every single change between two states of a table: what each row was, and what became of it.

The rows of a key form a chain: what it was in the older state, what each log entry made of it, and what each
commit to the base table past the log did, as far as it was seen. Two neighbours of a chain are one change:

    id 7 in the older state        'open'    -  update
    log entry 12: id 7             'paid'    -
    log entry 15: id 7 deleted               -  delete
    version 20: id 7               'sent'    -  insert

Log entries have an order of their own. A version of the base table comes behind the entries that were written
before its commit, by the times of files, and behind those whose rows it contains. Of a version the net
difference is told, below the fresh rows of that moment: what these hide, nobody saw. So merges and compaction
change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.execnodes import ExecNode, TaskContext
from lance_gateway.execnodes.storage.source import ColumnCache, convert_entry
from lance_gateway.memwal.base.version_list import read_commit_time
from lance_gateway.memwal.base.versions import read_operation_name
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE, read_entry_fields
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnsupportedError
from lance_gateway.memwal.regions.wal import WalEntry
from lance_gateway.planner.scans.changes.changed_rows import plan_changed_rows
from lance_gateway.planner.scans.changes.key_parts import KeyPart
from lance_gateway.planner.scans.changes.region_log import LogGoneError, ReadLogEntry, RegionLogFiles
from lance_gateway.planner.scans.changes.row_chains import ChainedRows, RowChains, check_bytes
from lance_gateway.planner.scans.scan_plan import plan_scan
from lance_gateway.planner.sql.text.as_of import format_moment
from lance_gateway.planner.tables.sources.base_table import BaseTable, open_base_table
from lance_gateway.planner.tables.sources.keys import combine_key_columns
from lance_gateway.planner.tables.sources.log_tail import TailRows, tail_schema
from lance_gateway.planner.tables.sources.snapshot import RegionSnapshot, TableSnapshot
from lance_gateway.planner.tables.visibility.visibility import Visibility

_QUIET: Final = frozenset({"CreateIndex", "Project", "Rewrite", "UpdateConfig"})
"""Operations of Lance that leave all rows as they are."""


@dataclass(frozen=True, slots=True)
class BaseCommit:
    """A version of the base table that may have changed rows.

    Attributes:
        before: the version before it.
        base: the version.
        time: of its commit, in microseconds since 1970.
    """

    before: BaseTable
    base: BaseTable
    time: int


def list_commits(older: BaseTable, newest: BaseTable) -> Iterator[BaseCommit]:
    """Yield the versions behind one, up to another, that may have changed rows, ascending.

    Raises:
        LogGoneError: a version was removed.
        UnsupportedError: one of them gave up rows that had been merged.
    """
    if older.version == newest.version:
        return
    before = older
    for version in range(older.version + 1, newest.version + 1):
        if read_operation_name(newest.dataset, version) in _QUIET:
            continue
        if before.version < version - 1:
            before = open_version(newest, version - 1)
        base = open_version(newest, version)
        merged, merged_before = base.merged_generations, before.merged_generations
        if any(merged.get(one, 0) < generation for one, generation in merged_before.items()):
            msg = (
                f"table {newest.name!r}: version {version} is a former one without generations that had "
                f"been merged; single changes are told until {version - 1}, or since {version}"
            )
            raise UnsupportedError(msg)
        if merged == merged_before:
            yield BaseCommit(before, base, read_commit_time(base.dataset))
        before = base


def open_version(newest: BaseTable, version: int) -> BaseTable:
    """Open a version up to the newest.

    Raises:
        LogGoneError: it was removed.
    """
    if version == newest.version:
        return newest
    try:
        return open_base_table(newest.name, newest.storage, version, newest.session, newest.place)
    except NotFoundError as error:
        raise LogGoneError(f"version {version} was removed") from error


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
        part: the keys whose changes are told; None for all of them.
    """

    older: TableSnapshot
    newer: TableSnapshot
    read_entry: ReadLogEntry
    visibility: Visibility
    cache: ColumnCache
    context: TaskContext
    shares_rows: bool
    part: KeyPart | None = None


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
            f"table {newer.name!r}: mode => 'all' tells the history of one branch; give states of the same "
            "one, or mode => 'net'"
        )
        raise UnsupportedError(msg)
    if older.details is not None and newer.details is None:
        msg = (
            f"table {newer.name!r}: its MemWAL was given up between the two states, and with it the log of "
            "single changes: give states on one side of that, or mode => 'net'"
        )
        raise UnsupportedError(msg)


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
        self._rows = RowChains(self._newest.schema, self._newest.primary_key, states.part)
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
                    f"table {self._newest.name!r}: in region {region_id} the state of since has log entries "
                    f"up to {start}, and that of until up to {end}: exchange them, or read with consistency "
                    "strong"
                )
                raise InvalidInputError(msg)
            self._starts[region_id], ends[region_id] = start, end
        # All of them are held at a time.
        check_bytes(sum(self._logs[one].count_bytes(self._starts[one], end) for one, end in ends.items()))
        self._read_to |= self._starts
        self._add_rows_before(ends)
        for commit in list_commits(self._older.base, self._newest):
            self._add_entries(self._find_ends(commit, ends))
            self._add_commit(commit)
        self._add_entries(ends)
        return self._rows.chain()

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

    def _find_ends(self, commit: BaseCommit, ends: Mapping[str, int]) -> dict[str, int]:
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

    def _add_commit(self, commit: BaseCommit) -> None:
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


def _build_gone_error(
    newest: BaseTable, since: int, logs: Mapping[str, RegionLogFiles], error: LogGoneError
) -> PreconditionError:
    """Build the error for changes that are gone; it names the oldest version from which all are there."""
    oldest = newest
    for version in range(newest.version - 1, since, -1):
        try:
            if not _tells_all(newest, version, logs):
                break
            oldest = open_version(newest, version)
        except LogGoneError:
            break
    at = format_moment(read_commit_time(oldest.dataset))
    return PreconditionError(
        f"table {newest.name!r}: single changes since this state were cleaned up ({error}). They are left "
        f"since version {oldest.version}, of {at}: begin again, since => {oldest.version}, or ask for "
        "mode => 'net'. How long clean keeps them is said by its option keep_changes"
    )


def _tells_all(newest: BaseTable, version: int, logs: Mapping[str, RegionLogFiles]) -> bool:
    """Return whether the entries of all logs behind what a version contains are there.

    Raises:
        LogGoneError: the version was removed, or where its rows end in a log is not known any more.
    """
    details = open_version(newest, version).details
    for region_id, log in logs.items():
        merged = 0 if details is None else details.newest_merged(region_id)
        first = log.find_end_of(merged) + 1
        if not all(position in log.times for position in range(first, max(log.times, default=0) + 1)):
            return False
    return True
