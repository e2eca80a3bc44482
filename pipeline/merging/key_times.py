"""When the newest row of each key was written to a region, as the files of its log tell.

Entries of one region are in the order of their positions. Of two regions only the times count at which
storage says that their entries were created: each entry is a file of its own, written once, before the
write is acknowledged. Storage's clock gives them, the same for all writers of a table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from lance_gateway.memwal.base.index_details import MemWalIndexDetails
from lance_gateway.memwal.base.version_list import list_versions
from lance_gateway.memwal.columns.stored_fields import TOMBSTONE, read_dataset_fields, read_entry_fields
from lance_gateway.memwal.regions.manifest import FlushedGeneration, RegionManifest
from lance_gateway.memwal.regions.wal import parse_wal_entry_position, read_wal_entry, wal_directory
from lance_gateway.memwal.storage.files import VERSIONS, base_manifest_paths, generation_directory
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.winners import read_keys

Key = tuple[Any, ...]
"""Values of the key columns."""

_FOREVER: Final = 1 << 63
_COPIED_NANOSECONDS: Final = 600 * 10**9
"""A base manifest whose file is so much younger than the time within was copied, and its neighbours too."""


@dataclass(frozen=True, slots=True)
class Version:
    """The newest row of a key in a region.

    Attributes:
        earliest: nanoseconds since 1970 before which it was not written; 0 where nobody knows.
        latest: the same after which it was not.
        source: position of its entry, or the generation that has it.
        row: which row of that, from 0.
        is_deleted: whether it is a tombstone.
    """

    earliest: int
    latest: int
    source: int | FlushedGeneration
    row: int
    is_deleted: bool


@dataclass(frozen=True)
class KeyTimes:
    """A region's newest rows.

    Attributes:
        versions: of each key that the log or a pending generation has.
        pending: keys of rows that the base table lacks.
        is_complete: whether no other key was ever written to the region.
        doubt: why times of this region tell nothing; empty where they do.
    """

    versions: dict[Key, Version]
    pending: set[Key]
    is_complete: bool
    doubt: str


def read_key_times(table: LakeTable, manifest: RegionManifest, details: MemWalIndexDetails) -> KeyTimes:
    """Read keys and times of a region that nobody writes to meanwhile.

    Args:
        table: which one.
        manifest: of the region, the newest.
        details: MemWAL index of the newest base version.
    """
    region_id, base = manifest.region_id, table.dataset()
    names = tuple(table.primary_key())
    by_name = {field.name: field for field in read_dataset_fields(base)}
    ids = [by_name[name].field_id for name in names]
    schema = pa.schema(
        [
            *(pa.field(str(at), by_name[name].type) for at, name in zip(ids, names, strict=True)),
            pa.field(TOMBSTONE, pa.bool_()),
        ]
    )
    log = _list_log(table, region_id)
    versions, pending = _read_log_versions(table, manifest, log, ids, schema)
    merged = details.newest_merged(region_id)
    flushed: dict[Key, Version] = {}
    for generation in manifest.unmerged_generations(merged):
        latest = _read_flush_time(table, region_id, generation)
        for row, (key, is_deleted) in enumerate(
            _iterate_keys(read_keys(table, region_id, generation, schema))
        ):
            flushed[key] = Version(0, latest, generation, row, is_deleted)
    for key, version in flushed.items():
        if key not in pending:
            # The row itself comes from the generation: entries of its log may be gone.
            known = versions.get(key, version)
            latest = min(known.latest, version.latest)
            versions[key] = replace(version, earliest=min(known.earliest, latest), latest=latest)
    positions = [position for position, _ in log]
    is_complete = not merged or positions == list(range(1, len(positions) + 1))
    ascends = all(one <= other for (_, one), (_, other) in pairwise(log))
    doubt = "" if ascends else f"the files of region {region_id}'s log are not in the order of their times"
    return KeyTimes(versions, pending | flushed.keys(), is_complete, doubt)


def _read_log_versions(
    table: LakeTable,
    manifest: RegionManifest,
    log: Sequence[tuple[int, int]],
    ids: Sequence[int],
    schema: pa.Schema,
) -> tuple[dict[Key, Version], set[Key]]:
    """Newest rows as far as the log has them, and the keys of those that are not flushed."""
    versions: dict[Key, Version] = {}
    unflushed: set[Key] = set()
    # Entries that are gone lie before `whole`, and were written before that was.
    whole, since = _find_complete_start(log, manifest.replay_after_wal_entry_position)
    for position, written in log:
        entry = read_wal_entry(table.storage, manifest.region_id, position)
        if entry.rows is None:
            continue
        latest = written if position >= whole else max(written, since)
        is_unflushed = manifest.replay_start.is_unflushed(position, entry.generation)
        for row, (key, is_deleted) in enumerate(_read_entry_keys(entry.rows, ids, schema)):
            versions[key] = Version(written, latest, position, row, is_deleted)
            if is_unflushed:
                unflushed.add(key)
    return versions, unflushed


def _find_complete_start(log: Sequence[tuple[int, int]], flushed: int) -> tuple[int, int]:
    """The position from which on no entry is gone, and a time before which those were written.

    Args:
        log: position and time of each entry, ascending.
        flushed: position up to which entries must have been there.
    """
    whole, since = 1, 0
    before = 0
    for position, written in log:
        if position != before + 1:
            whole, since = position, written
        before = position
    return (whole, since) if before >= flushed else (flushed + 1, _FOREVER)


def find_copied_file(table: LakeTable) -> str:
    """Return the evidence that the table's files were copied, so that their times are wrong; "" for none."""
    storage = table.storage
    written = {entry.name: entry.written for entry in storage.list(VERSIONS)}
    for version in list_versions(table.dataset(), storage):
        for path in base_manifest_paths(version.version):
            found = written.get(path.removeprefix(f"{VERSIONS}/"))
            if found is not None and found - version.committed_at * 1000 > _COPIED_NANOSECONDS:
                return f"{storage.locate(path)} was written long after the version that it has: it is a copy"
    return ""


def _list_log(table: LakeTable, region_id: str) -> Sequence[tuple[int, int]]:
    """Position and time of each entry, ascending."""
    found = [
        (position, entry.written)
        for entry in table.storage.list(wal_directory(region_id))
        if entry.size and (position := parse_wal_entry_position(entry.name)) is not None
    ]
    return sorted(found)


def _read_entry_keys(rows: pa.Table, ids: Sequence[int], schema: pa.Schema) -> Iterator[tuple[Key, bool]]:
    """Key and tombstone of each row of a log entry."""
    stored = {field.field_id: field.name for field in read_entry_fields(rows.schema)}
    columns = [*(rows.column(stored[one]) for one in ids), rows.column(TOMBSTONE)]
    casted = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return _iterate_keys(pa.Table.from_arrays(casted, schema=schema))


def _iterate_keys(keys: pa.Table) -> Iterator[tuple[Key, bool]]:
    """Key and tombstone of each row."""
    *columns, dead = (column.to_pylist() for column in keys.columns)
    return zip(zip(*columns, strict=True), dead, strict=True)


def _read_flush_time(table: LakeTable, region_id: str, generation: FlushedGeneration) -> int:
    """When the first data file of a generation was done, in nanoseconds: its rows were written before."""
    files = table.storage.list(f"{generation_directory(region_id, generation.path)}/data")
    return min((file.written for file in files), default=_FOREVER)
