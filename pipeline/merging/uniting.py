"""Unites regions that have two ids under the one that LanceDB uses.

1. The region that is not LanceDB's is claimed, flushed and sealed, so that nobody writes to it any more.
2. LanceDB's region is claimed. Another writer that claims it fences this job, which begins again.
3. Times of log entries tell which row of a key is newer. Rows of the sealed region that are newer are
   appended to LanceDB's region.
4. The sealed region's generations are recorded as merged, with no rows.

Until then readers and writers refuse the region. A job that died is repeated from the first step: rows that
it appended are the newer ones then.
"""

import random
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.columns.stored_fields import read_dataset_fields, read_entry_fields
from lance_gateway.memwal.creating import list_key_columns
from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    commit_manifest,
    read_latest_manifest,
)
from lance_gateway.memwal.regions.region_ids import find_duplicate_regions, is_drained
from lance_gateway.memwal.regions.wal import has_unflushed_rows, read_wal_entry
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing import OpenTable, WriteOptions
from lance_gateway.memwal.writing.changes import SealedError
from lance_gateway.memwal.writing.region.claim import Claim
from lance_gateway.memwal.writing.region.lance_writers import open_claim
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.jobs.runners import format_count
from lance_gateway.pipeline.merging.committing import CommitOptions, commit
from lance_gateway.pipeline.merging.generations import Reader, open_generation, read_progress
from lance_gateway.pipeline.merging.key_times import Key, KeyTimes, Version, find_copied_file, read_key_times
from lance_gateway.pipeline.merging.winners import Prefix, Winners, check_key

_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class Double:
    """A region under two ids.

    Attributes:
        own: id that LanceDB does not use.
        lancedb: id that LanceDB uses.
    """

    own: str
    lancedb: str


def find_doubles(state: TableState) -> tuple[Double, ...]:
    """Return the regions whose rows lie under two ids, or may do so."""
    manifests = [region.manifest for region in state.regions.values()]
    return tuple(
        Double(own.region_id, lancedb.region_id)
        for own, lancedb in find_duplicate_regions(state.details.region_specs, manifests)
        if not is_drained(state.table.storage, own, state.regions[own.region_id].merged)
    )


def unite(state: TableState, newer: Collection[str] = ()) -> int:
    """Unite the regions of a table that have two ids, and return their number.

    Args:
        state: state of the table.
        newer: ids of regions whose rows are newer if times of log entries don't decide it.

    Raises:
        PreconditionError: it is not known which of two rows is newer.
        UnavailableError: storage failed, or other writers fenced every attempt; can be repeated.
    """
    table, regions = state.table, find_doubles(state)
    if not regions or not table.primary_key():
        return 0  # Rows without a key don't supersede each other.
    for region in regions:
        check_key(table, table.dataset().schema)
        for attempt in range(_ATTEMPTS):
            try:
                _unite_region(table, region, newer)
                break
            except (
                UnavailableError,
                SealedError,
            ):  # Another job sealed the region before this one claimed it.
                if attempt + 1 == _ATTEMPTS:
                    raise
                time.sleep(random.uniform(0, 0.05 * 2**attempt))  # noqa: S311 - no secret
    return len(regions)


def _unite_region(table: LakeTable, double: Double, newer: Collection[str]) -> None:
    # Seal, claim, append, then record as merged: this order must not change (ADR 32).
    opened = OpenTable.open(table.name, table.storage)
    own = _seal(opened, double.own)
    # Finds undecided rows before LanceDB's writer loses the region.
    _choose_rows(table, own, read_latest_manifest(table.storage, double.lancedb), newer)
    options = WriteOptions()
    claim = open_claim(opened, double.lancedb, options)
    try:
        chosen = _choose_rows(table, own, _read_claimed_manifest(table, claim), newer)
        for rows, is_deleted in _read_rows(table, opened, double.own, chosen):
            for start in range(0, rows.num_rows, options.max_memtable_rows):
                claim.append([rows.slice(start, options.max_memtable_rows)], deleted=is_deleted)
    except BaseException:
        claim.abandon()
        raise
    _record_as_merged(table, own)
    _release(claim, table)


def _seal(opened: OpenTable, region_id: str) -> RegionManifest:
    """Flush and seal a region, and return its last manifest."""
    found = read_latest_manifest(opened.storage, region_id)
    if found is not None and found.sealed:
        if has_unflushed_rows(opened.storage, found):
            raise PreconditionError(
                f"table {opened.name!r}: region {region_id} is sealed, but its log has rows that were never "
                "flushed: restore its manifest from before it was sealed, and merge again"
            )
        return found
    claim = open_claim(opened, region_id, WriteOptions())
    table = LakeTable(TableName.parse(opened.name), opened.storage)
    _release(claim, table)
    found = _read_claimed_manifest(table, claim)
    sealed = replace(found, version=found.version + 1, sealed=True)
    if has_unflushed_rows(opened.storage, found) or not commit_manifest(opened.storage, sealed):
        raise _region_lost_error(table, region_id)
    return sealed


def _choose_rows(
    table: LakeTable, own: RegionManifest, lancedb: RegionManifest | None, newer: Collection[str]
) -> dict[Key, Version]:
    """Return the rows of the sealed region that are the newest of their keys.

    Raises:
        PreconditionError: it is not known which rows are newer.
    """
    if lancedb is None:
        return {}
    details = TableState.read(table).details
    times = read_key_times(table, own, details), read_key_times(table, lancedb, details)
    double = Double(own.region_id, lancedb.region_id)
    return _Choice(table, double, *times, frozenset(newer)).find_newer_rows()


def _release(claim: Claim, table: LakeTable) -> None:
    if not claim.close():
        raise _region_lost_error(table, claim.region_id)


def _read_claimed_manifest(table: LakeTable, claim: Claim) -> RegionManifest:
    """Read the newest manifest of a claimed region."""
    found = read_latest_manifest(table.storage, claim.region_id)
    if found is None or found.writer_epoch != claim.epoch:
        raise _region_lost_error(table, claim.region_id)
    return found


def _region_lost_error(table: LakeTable, region_id: str) -> UnavailableError:
    return UnavailableError(
        f"table {table.name!r}: another writer took region {region_id} while its rows were moved: merge again"
    )


@dataclass(frozen=True)
class _Choice:
    """Decides which rows of the sealed region are the newest of their keys.

    Attributes:
        table: table of the region.
        double: ids of the region.
        ours: rows of the sealed region.
        theirs: rows of LanceDB's region.
        newer: ids of regions whose rows are newer if times of log entries don't decide it.
    """

    table: LakeTable
    double: Double
    ours: KeyTimes
    theirs: KeyTimes
    newer: frozenset[str]

    def find_newer_rows(self) -> dict[Key, Version]:
        """Return the rows of the sealed region that are the newest of their keys.

        Raises:
            PreconditionError: it is not known which rows are newer.
        """
        doubt = self.ours.doubt or self.theirs.doubt or find_copied_file(self.table)
        found: dict[Key, Version] = {}
        unknown: dict[Key, Version] = {}
        for key, own in self.ours.versions.items():
            other = self.theirs.versions.get(key)
            if key not in self.ours.pending and key not in self.theirs.pending:
                continue  # The base table has both rows.
            if other is None:
                (found if self.theirs.is_complete else unknown)[key] = own
            elif doubt:
                unknown[key] = own
            elif own.earliest > other.latest:
                found[key] = own
            elif own.latest >= other.earliest:
                unknown[key] = own
        return found | self._apply_decision(unknown, doubt)

    def _apply_decision(self, unknown: dict[Key, Version], doubt: str) -> dict[Key, Version]:
        """Return the undecided rows that are newer by the caller's decision."""
        if not unknown or self.double.own in self.newer:
            return unknown
        if self.double.lancedb not in self.newer:
            raise self._undecided_error(unknown, doubt)
        # Keys that LanceDB's region had and cleaned up are in the base table; other keys it never had.
        lost = {key for key in unknown if key not in self.theirs.versions}
        if lost:
            names = list(self.table.primary_key())
            for batch in self.table.dataset().scanner(columns=names).to_batches():
                lost -= set(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
        return {key: unknown[key] for key in lost}

    def _undecided_error(self, unknown: dict[Key, Version], doubt: str) -> PreconditionError:
        key = next(iter(unknown))
        named = ", ".join(
            f"{name} = {value!r}" for name, value in zip(self.table.primary_key(), key, strict=True)
        )
        reason = doubt or "log entries were removed, or are of the same time"
        keys = f"{format_count(len(unknown), 'key')}, such as {named}"
        own, lancedb = self.double.own, self.double.lancedb
        name = self.table.name
        return PreconditionError(
            f"table {name!r}: one region has two ids, {own} and {lancedb} (LanceDB's). Both may have rows of "
            f"{keys}, and which are newer can't be told: {reason}. Decide it: "
            f"lance-gateway pipeline merge {name} --newer {own}, or --newer {lancedb}"
        )


def _read_rows(
    table: LakeTable, opened: OpenTable, region_id: str, chosen: dict[Key, Version]
) -> Iterator[tuple[pa.Table, bool]]:
    """Yield chosen rows in the form that region writers take, and whether they are deletes."""
    by_source: dict[int | FlushedGeneration, list[Version]] = {}
    for one in chosen.values():
        by_source.setdefault(one.source, []).append(one)
    reader = Reader.of(table, table.dataset())
    for source, versions in by_source.items():
        live = sorted(version.row for version in versions if not version.is_deleted)
        if live:
            yield opened.conform_upserts(_take_rows(reader, region_id, source, live), fill=True), False
    dead = [key for key, one in chosen.items() if one.is_deleted]
    if dead:
        columns = zip(*dead, strict=True)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(columns, opened.key_schema, strict=True)
        ]
        yield opened.conform_deletes(pa.Table.from_arrays(arrays, schema=opened.key_schema)), True


def _take_rows(reader: Reader, region_id: str, source: int | FlushedGeneration, rows: list[int]) -> pa.Table:
    """Read rows of a log entry or a generation, in the base table's columns."""
    if isinstance(source, FlushedGeneration):
        wanted = np.zeros(open_generation(reader.table, region_id, source).count_rows(), bool)
        wanted[rows] = True
        return pa.Table.from_batches(reader.read(region_id, source, wanted), reader.schema)
    entry = read_wal_entry(reader.table.storage, region_id, source)
    if entry.rows is None:
        return reader.schema.empty_table()
    stored = {field.field_id: field for field in read_entry_fields(entry.rows.schema)}
    batches = entry.rows.take(pa.array(rows)).combine_chunks().to_batches()
    return pa.Table.from_batches([reader.conform(batch, stored) for batch in batches], reader.schema)


def _record_as_merged(table: LakeTable, own: RegionManifest) -> None:
    """Record a region's generations as merged, with no rows."""
    base = table.dataset()
    merged = read_progress(table, base).get(own.region_id, 0)
    pending = own.unmerged_generations(merged)
    if not pending:
        return
    fields = {field.name: field for field in read_dataset_fields(base)}
    keys = pa.schema(
        [
            pa.field(str(fields[column].field_id), fields[column].type)
            for column in list_key_columns(base.schema)
        ]
    )
    prefix = Prefix(table, own.region_id, merged, pending)
    none = (np.zeros(0, np.uint8),) * len(pending)
    nothing = Winners(prefix, none, (0,) * len(pending), 0, keys.empty_table())
    commit(table, [nothing], CommitOptions(in_memory=True, use_key_index=False))
