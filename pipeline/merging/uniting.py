"""Regions with two ids, brought back to one: to LanceDB's, since LanceDB knows no other.

1. The region that is not LanceDB's is claimed, flushed and sealed: nobody writes to it any more.
2. LanceDB's region is claimed, so that whoever writes to it meanwhile fences this job, which begins anew.
3. For each key the newer of the two rows is found, by the times of log entries. Where that is the sealed
   region's, its row is appended to LanceDB's region.
4. The sealed region's generations are recorded as merged, with no rows.

Until then readers and writers refuse the region. Whatever step a job dies in, the next one begins at the
first: what was appended is the newer row then.
"""

import random
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from memwal.creating import list_key_columns
from memwal.errors import PreconditionError, UnavailableError
from memwal.regions.manifest import FlushedGeneration, RegionManifest, commit_manifest, read_latest_manifest
from memwal.regions.region_ids import find_duplicate_regions, is_drained
from memwal.regions.wal import has_unflushed_rows, read_wal_entry
from memwal.stored_fields import read_dataset_fields, read_entry_fields
from memwal.writing import OpenTable, WriteOptions
from memwal.writing.changes import SealedError
from memwal.writing.region.claim import Claim
from memwal.writing.region.lance_writers import open_claim
from pipeline.jobs.lake import LakeTable, TableState
from pipeline.jobs.runners import counted
from pipeline.merging.committing import Manner, commit
from pipeline.merging.generations import Reader, open_generation, recorded
from pipeline.merging.key_times import Key, KeyTimes, Version, copied, key_times
from pipeline.merging.winners import Prefix, Winners, check_key

_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class Double:
    """One region under two ids.

    Attributes:
        own: id that is not LanceDB's.
        lancedb: id that is.
    """

    own: str
    lancedb: str


def find_doubles(state: TableState) -> tuple[Double, ...]:
    """Regions whose rows lie under two ids, or may come to."""
    manifests = [one.manifest for one in state.regions.values()]
    found = []
    for own, lancedb in find_duplicate_regions(state.details.region_specs, manifests):
        if not is_drained(state.table.storage, own, state.regions[own.region_id].merged):
            found.append(Double(own.region_id, lancedb.region_id))
    return tuple(found)


def unite(state: TableState, newer: Collection[str] = ()) -> int:
    """Bring regions of a table back to one id; how many there were.

    Args:
        state: of the table.
        newer: ids of regions whose rows count as newer where no time tells.

    Raises:
        PreconditionError: which of two rows is newer can't be told.
        UnavailableError: storage failed, or others write all the time; it can be repeated.
    """
    table, found = state.table, find_doubles(state)
    if not found or not table.primary_key():
        return 0  # Rows without a key are not in each other's way.
    for one in found:
        check_key(table, table.dataset().schema)
        for attempt in range(_ATTEMPTS):
            try:
                _united(table, one, newer)
                break
            except (UnavailableError, SealedError):  # Sealed by another job, just before it was claimed here.
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - no secret
    return len(found)


def _united(table: LakeTable, double: Double, newer: Collection[str]) -> None:
    # Seal, claim, append, then record as merged: this order must not change (ADR 32).
    opened = OpenTable.open(table.name, table.storage)
    own = _sealed(opened, double.own)
    # What can't be decided is found out before LanceDB's writer loses the region.
    _chosen(table, own, read_latest_manifest(table.storage, double.lancedb), newer)
    options = WriteOptions()
    claim = open_claim(opened, double.lancedb, options)
    try:
        chosen = _chosen(table, own, _claimed(table, claim), newer)
        for rows, is_deleted in _rows(table, opened, double.own, chosen):
            for start in range(0, rows.num_rows, options.max_memtable_rows):
                claim.append([rows.slice(start, options.max_memtable_rows)], deleted=is_deleted)
    except BaseException:
        claim.abandon()
        raise
    _record(table, own)
    _let_go(claim, table)


def _sealed(opened: OpenTable, region_id: str) -> RegionManifest:
    """A region's last manifest: all rows are flushed, and nobody writes to it any more."""
    found = read_latest_manifest(opened.storage, region_id)
    if found is not None and found.sealed:
        if has_unflushed_rows(opened.storage, found):
            raise PreconditionError(
                f"table {opened.name!r}: region {region_id} is sealed, but its log has rows that were never "
                "flushed: restore its manifest from before it was sealed, and merge again"
            )
        return found
    claim = open_claim(opened, region_id, WriteOptions())
    table = LakeTable(opened.name, opened.storage)
    _let_go(claim, table)
    found = _claimed(table, claim)
    sealed = replace(found, version=found.version + 1, sealed=True)
    if has_unflushed_rows(opened.storage, found) or not commit_manifest(opened.storage, sealed):
        raise _taken(table, region_id)
    return sealed


def _chosen(
    table: LakeTable, own: RegionManifest, lancedb: RegionManifest | None, newer: Collection[str]
) -> dict[Key, Version]:
    """Rows of the region that goes that are the newest of their keys.

    Raises:
        PreconditionError: which are can't be told.
    """
    if lancedb is None:
        return {}
    details = TableState.read(table).details
    times = key_times(table, own, details), key_times(table, lancedb, details)
    double = Double(own.region_id, lancedb.region_id)
    return _Choice(table, double, *times, frozenset(newer)).newer_of_ours()


def _let_go(claim: Claim, table: LakeTable) -> None:
    if not claim.close():
        raise _taken(table, claim.region_id)


def _claimed(table: LakeTable, claim: Claim) -> RegionManifest:
    """The newest manifest of a region that is claimed."""
    found = read_latest_manifest(table.storage, claim.region_id)
    if found is None or found.writer_epoch != claim.epoch:
        raise _taken(table, claim.region_id)
    return found


def _taken(table: LakeTable, region_id: str) -> UnavailableError:
    return UnavailableError(
        f"table {table.name!r}: another writer took region {region_id} while its rows were moved: merge again"
    )


@dataclass(frozen=True)
class _Choice:
    """Which rows of the region that goes are the newest of their keys.

    Attributes:
        table: which one.
        double: the region's ids.
        ours: rows under the id that goes.
        theirs: rows under LanceDB's.
        newer: ids of regions whose rows count as newer where no time tells.
    """

    table: LakeTable
    double: Double
    ours: KeyTimes
    theirs: KeyTimes
    newer: frozenset[str]

    def newer_of_ours(self) -> dict[Key, Version]:
        """Those rows.

        Raises:
            PreconditionError: it can't be told.
        """
        doubt = self.ours.doubt or self.theirs.doubt or copied(self.table)
        found: dict[Key, Version] = {}
        unknown: dict[Key, Version] = {}
        for key, own in self.ours.versions.items():
            other = self.theirs.versions.get(key)
            if key not in self.ours.pending and key not in self.theirs.pending:
                continue  # The base table has what there is.
            if other is None:
                (found if self.theirs.is_complete else unknown)[key] = own
            elif doubt:
                unknown[key] = own
            elif own.earliest > other.latest:
                found[key] = own
            elif own.latest >= other.earliest:
                unknown[key] = own
        return found | self._decided(unknown, doubt)

    def _decided(self, unknown: dict[Key, Version], doubt: str) -> dict[Key, Version]:
        """Of rows that no time tells about, those that somebody says are the newer ones."""
        if not unknown or self.double.own in self.newer:
            return unknown
        if self.double.lancedb not in self.newer:
            raise self._undecided(unknown, doubt)
        # What LanceDB's region merged and cleaned up is in the base table; other keys it never had.
        lost = {key for key in unknown if key not in self.theirs.versions}
        if lost:
            names = list(self.table.primary_key())
            for batch in self.table.dataset().scanner(columns=names).to_batches():
                lost -= set(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
        return {key: unknown[key] for key in lost}

    def _undecided(self, unknown: dict[Key, Version], doubt: str) -> PreconditionError:
        key = next(iter(unknown))
        named = ", ".join(
            f"{name} = {value!r}" for name, value in zip(self.table.primary_key(), key, strict=True)
        )
        reason = doubt or "log entries were removed, or are of the same time"
        keys = f"{counted(len(unknown), 'key')}, such as {named}"
        own, lancedb = self.double.own, self.double.lancedb
        name = self.table.name
        return PreconditionError(
            f"table {name!r}: one region has two ids, {own} and {lancedb} (LanceDB's). Both may have rows of "
            f"{keys}, and which are newer can't be told: {reason}. Decide it: "
            f"lance-gateway pipeline merge {name} --newer {own}, or --newer {lancedb}"
        )


def _rows(
    table: LakeTable, opened: OpenTable, region_id: str, chosen: dict[Key, Version]
) -> Iterator[tuple[pa.Table, bool]]:
    """Chosen rows as region writers take them, and whether they are keys to delete."""
    by_source: dict[int | FlushedGeneration, list[Version]] = {}
    for one in chosen.values():
        by_source.setdefault(one.source, []).append(one)
    reader = Reader.of(table, table.dataset())
    for source, versions in by_source.items():
        live = sorted(one.row for one in versions if not one.is_deleted)
        if live:
            yield opened.conform_upserts(_taken_from(reader, region_id, source, live), fill=True), False
    dead = [key for key, one in chosen.items() if one.is_deleted]
    if dead:
        columns = zip(*dead, strict=True)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(columns, opened.key_schema, strict=True)
        ]
        yield opened.conform_deletes(pa.Table.from_arrays(arrays, schema=opened.key_schema)), True


def _taken_from(reader: Reader, region_id: str, source: int | FlushedGeneration, rows: list[int]) -> pa.Table:
    """Rows of a log entry or a generation, in the base table's columns."""
    if isinstance(source, FlushedGeneration):
        wanted = np.zeros(open_generation(reader.table, region_id, source).count_rows(), bool)
        wanted[rows] = True
        return pa.Table.from_batches(reader.read(region_id, source, wanted), reader.schema)
    entry = read_wal_entry(reader.table.storage, region_id, source)
    if entry.rows is None:
        return reader.schema.empty_table()
    stored = {one.field_id: one for one in read_entry_fields(entry.rows.schema)}
    taken = entry.rows.take(pa.array(rows)).combine_chunks().to_batches()
    return pa.Table.from_batches([reader.conformed(one, stored) for one in taken], reader.schema)


def _record(table: LakeTable, own: RegionManifest) -> None:
    """Record a region's generations as merged, with no rows."""
    base = table.dataset()
    merged = recorded(table, base).get(own.region_id, 0)
    pending = own.unmerged_generations(merged)
    if not pending:
        return
    fields = {one.name: one for one in read_dataset_fields(base)}
    keys = pa.schema(
        [pa.field(str(fields[one].field_id), fields[one].type) for one in list_key_columns(base.schema)]
    )
    prefix = Prefix(table, own.region_id, merged, pending)
    none = (np.zeros(0, np.uint8),) * len(pending)
    nothing = Winners(prefix, none, (0,) * len(pending), 0, keys.empty_table())
    commit(table, [nothing], Manner(in_memory=True, use_key_index=False))
