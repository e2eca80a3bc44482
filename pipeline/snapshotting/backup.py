"""Backups: a table as it is at one moment, copied while others write, merge and clean it.

Nothing that a table consists of is changed once it is written, but for hints and records of owners, which
no copy needs. So a backup is a choice of files: manifests of regions first, then a version of the base table,
and the logs up to an entry each. That is the order in which readers look (ADR 5), and what they would find is
in it. Files that were copied for an earlier backup are not copied again.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from lance_gateway.memwal.errors import PreconditionError, UnavailableError, UnsupportedError
from lance_gateway.memwal.regions.log_values import BLOB_SUFFIX
from lance_gateway.memwal.regions.manifest import RegionManifest, manifest_directory, parse_manifest_version
from lance_gateway.memwal.regions.wal import (
    find_last_wal_position,
    parse_wal_entry_position,
    wal_directory,
    wal_entry_path,
)
from lance_gateway.memwal.storage.files import (
    MEM_WAL,
    VERSIONS,
    Storage,
    generation_directory,
    parse_base_manifest_version,
    region_directory,
)
from lance_gateway.memwal.storage.schemas import MARK, Schemas
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from lance_gateway.pipeline.jobs.lake import (
    Lake,
    LakeTable,
    NoMemWalError,
    RegionState,
    TableState,
    keeps_in_place,
)
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress
from lance_gateway.pipeline.snapshotting.copies import (
    FILES,
    Backup,
    CopiedFile,
    is_view,
    list_small_files,
    open_place,
    write_backup,
)

_ATTEMPTS: Final = 5
_NOTES: Final = ("_gateway/ingest", "_gateway/indexing")
"""What is told of the table beside it, and holds for a copy as well: owners of regions do not."""
_APART: Final = frozenset({MEM_WAL, VERSIONS, "_gateway"})
_GENERATION: Final = re.compile(r"[0-9a-f]{8}_gen_([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The result of a backup.

    Attributes:
        backup: what was taken.
        copied: files that no earlier backup had.
    """

    backup: Backup
    copied: tuple[CopiedFile, ...]


@keeps_in_place
def back_up(
    table: LakeTable,
    place: Storage,
    *,
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
    now: Callable[[], float] = time.time,
) -> BackupReport:
    """Copy a table as it is; what was acknowledged before this began is in the backup.

    Args:
        table: table with a MemWAL or without.
        place: directory of backups.
        runner: copies files.
        progress: counts files.
        now: Unix time in seconds.

    Raises:
        UnsupportedError: a DynamoDB table decides which versions count.
        PreconditionError: the table is a clone that consists of files of another one.
        UnavailableError: storage failed, or files went in every attempt.
    """
    if table.storage.committed_by:
        msg = f"table {table.name!r}: {table.uri} is not backed up, since DynamoDB knows which versions count"
        raise UnsupportedError(msg)
    began = now()
    stamp = datetime.fromtimestamp(began, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    target = open_place(place, table.name)
    copied: list[CopiedFile] = []
    for _ in range(_ATTEMPTS):
        contents = _Contents.read(table)
        stored = {f"{FILES}/{entry.name}": entry.size for entry in target.files(FILES)}
        missing = [file for file in contents.files if stored.get(file.stored_at) != file.size]
        is_whole = True
        with progress(f"back up {table.name}", len(missing), "file") as advance:
            for file, is_copied in (runner or Threads()).run(
                _Copy(table.storage, target), missing, name=f"back up {table.name}"
            ):
                is_whole = is_whole and is_copied
                copied += [file] if is_copied else []
                advance(1)
        if is_whole and contents.is_complete():
            manifests = {one.region_id: one.version for one in contents.manifests}
            backup_id = f"{stamp}-{uuid.uuid4().hex[:8]}"
            made_by = version("lance-gateway")
            backup = Backup(
                backup_id, table.name, began, contents.version, manifests, contents.files, made_by
            )
            write_backup(place, backup)
            return BackupReport(backup, tuple(copied))
    msg = (
        f"table {table.name!r}: no backup was taken, since {_ATTEMPTS} times files went before they were "
        "copied: is it cleaned with a short grace? Try again"
    )
    raise UnavailableError(msg)


def back_up_names(lake: Lake, place: Storage) -> int:
    """Copy views and the marks of schemas; return how many there are."""
    schemas = (MAIN_SCHEMA, *Schemas(lake.storage).names())
    paths = list_small_files(lake.storage, schemas, lambda name: is_view(name) or name == MARK)
    for path in paths:
        place.put(path, lake.storage.read(path))
    return len(paths)


@dataclass(frozen=True, slots=True)
class _Copy:
    source: Storage
    target: Storage

    def __call__(self, file: CopiedFile) -> tuple[CopiedFile, bool]:
        """Copy a file; return False for one that is gone, or another one by now."""
        try:
            return file, self.source.copy_to(file.path, self.target, file.stored_at, file.size)
        except FileNotFoundError:
            return file, False


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a table consists of at one moment.

    Attributes:
        table: the table.
        manifests: newest manifest of each region.
        version: newest version of the base table.
        files: files of the table.
        needed: files and directories without which rows would be missing.
    """

    table: LakeTable
    manifests: tuple[RegionManifest, ...]
    version: int
    files: tuple[CopiedFile, ...]
    needed: frozenset[str]

    @staticmethod
    def read(table: LakeTable) -> _Contents:
        """Choose the files; raises PreconditionError for a clone."""
        storage = table.storage
        # Batches that are complete before the rows that they wrote: this order must not change (ADR 64).
        files = [file for note in _NOTES for file in _list_files(storage, note)]
        # Manifests before logs, and before the base version: this order must not change (ADR 5).
        regions, base = _read_state(table)
        needed: set[str] = set()
        for region in regions:
            # The end of the log, and not all that is listed: nobody reads behind a gap.
            after = region.manifest.replay_after_wal_entry_position
            last = find_last_wal_position(storage, region.region_id, after=after)
            files += _list_region_files(storage, region.manifest, last)
            needed |= {wal_entry_path(region.region_id, one) for one in range(after + 1, last + 1)}
            needed |= {generation_directory(region.region_id, one.path) for one in region.pending}
        files += _list_base_files(storage, base)
        manifests = tuple(region.manifest for region in regions)
        return _Contents(table, manifests, base, tuple(files), frozenset(needed))

    def is_complete(self) -> bool:
        """Return whether nothing is missing that a clean-up may have taken before it was listed.

        Raises:
            PreconditionError: files of the table lie elsewhere.
        """
        versions = {parse_base_manifest_version(entry.name) for entry in self.table.storage.list(VERSIONS)}
        paths = {file.path for file in self.files}
        directories = {"/".join(path.split("/")[:3]) for path in paths}
        if self.version not in versions or not self.needed <= paths | directories:
            return False
        dataset = self.table.dataset(self.version)
        if any(one.base_id is not None for one in _list_parts(dataset)):
            places = ", ".join(sorted({base.path for base in dataset.base_paths().values()}))
            msg = (
                f"table {self.table.name!r} has files that lie elsewhere ({places}), as a clone does that "
                "consists of files of another table: a backup lacks these. Back up a copy by CREATE TABLE .. "
                "CLONE .."
            )
            raise PreconditionError(msg)
        return all(
            f"data/{file.path}" in paths
            for fragment in dataset.get_fragments()
            for file in fragment.metadata.files
        )


def _list_parts(dataset: Any) -> Iterator[Any]:  # noqa: ANN401 - lance types
    """Yield what may lie in another base: data files, deletion files and segments of indexes."""
    for fragment in dataset.get_fragments():
        yield from fragment.metadata.files
        if fragment.metadata.deletion_file is not None:
            yield fragment.metadata.deletion_file
    for index in dataset.describe_indices():
        yield from index.segments


def _read_state(table: LakeTable) -> tuple[tuple[RegionState, ...], int]:
    try:
        state = TableState.read(table)
    except NoMemWalError:
        return (), table.dataset().version
    return tuple(state.regions.values()), state.version


def _list_region_files(storage: Storage, manifest: RegionManifest, last: int) -> Iterator[CopiedFile]:
    """Yield the manifests of a region, its log up to an entry, and its generations."""
    region_id, newest = manifest.region_id, manifest.version
    yield from _list_numbered(storage, manifest_directory(region_id), parse_manifest_version, newest)
    yield from _list_numbered(storage, wal_directory(region_id), parse_wal_entry_position, last)
    listed = {flushed.path for flushed in manifest.flushed_generations}
    directory = region_directory(region_id)
    for name in storage.directories(directory):
        found = _GENERATION.fullmatch(name)
        is_flushed = found is not None and int(found.group(1)) < manifest.current_generation
        is_whole = name in listed or is_flushed
        for file in _list_files(storage, f"{directory}/{name}"):
            if is_whole or file.path.endswith(BLOB_SUFFIX):  # Entries of the log may have blobs there.
                yield file


def _list_base_files(storage: Storage, base: int) -> Iterator[CopiedFile]:
    """Yield the versions of a base table up to one, and everything that they may consist of."""
    yield from _list_numbered(storage, VERSIONS, parse_base_manifest_version, base)
    for entry in storage.list():
        if not entry.is_dir:
            yield CopiedFile(entry.name, entry.size, entry.written)
        elif entry.name not in _APART:
            yield from _list_files(storage, entry.name)


def _list_numbered(
    storage: Storage, directory: str, parse: Callable[[str], int | None], last: int
) -> Iterator[CopiedFile]:
    for entry in storage.list(directory):
        number = parse(entry.name)
        if number is not None and number <= last:
            yield CopiedFile(f"{directory}/{entry.name}", entry.size, entry.written)


def _list_files(storage: Storage, directory: str) -> Iterator[CopiedFile]:
    for entry in storage.files(directory):
        yield CopiedFile(f"{directory}/{entry.name}", entry.size, entry.written)
