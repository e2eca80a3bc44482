"""Tables of backups: all files but the versions of the base table, and these last, the newest first.

A table is there as soon as it has a version, and then it is whole. Its regions have no owner: who writes to
them first claims them, with the next epoch, and goes on behind the last entry of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidInputError,
    UnsupportedError,
)
from lance_gateway.memwal.regions.manifest import version_hint_path
from lance_gateway.memwal.storage.files import VERSIONS, Storage, parse_base_manifest_version
from lance_gateway.memwal.storage.schemas import MARK, Schemas
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress
from lance_gateway.pipeline.snapshotting.copies import (
    Backup,
    CopiedFile,
    is_view,
    list_schemas,
    list_small_files,
    open_place,
)


def restore(
    place: Storage,
    backup: Backup,
    root: Storage,
    name: TableName | None = None,
    *,
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
) -> TableName:
    """Make a table of a backup; return its name.

    Args:
        place: of the backups.
        backup: its list.
        root: directory of all tables.
        name: of the table; None for that of the table that was backed up.
        runner: copies files.
        progress: counts files.

    Raises:
        AlreadyExistsError: a table has that name.
        InvalidInputError: no table can have the name.
        CorruptDataError: a copy is absent or has another size.
        UnsupportedError: a DynamoDB table decides which versions of the table would count.
        UnavailableError: storage failed; the table is not there, or it is whole.
    """
    name = name or backup.table
    if root.committed_by:
        msg = (
            f"tables can't be restored to {root.uri}, since DynamoDB knows which versions count: choose s3://"
        )
        raise UnsupportedError(msg)
    schemas = Schemas(root)
    if not schemas.is_usable(name.table) or not schemas.may_exist(name.schema):
        msg = f"no table can have the name {name!r}: choose another one with --as"
        raise InvalidInputError(msg)
    source, target = open_place(place, backup.table), root.child(name.directory)
    if target.list(VERSIONS):
        raise _present_error(root, name)
    _check_copies(source, backup)
    # What a restore or a DROP left that was cut short: regions of it would be taken for the table's.
    target.delete_all()
    versions = {file: number for file in backup.files if (number := _parse_version(file)) is not None}
    others = [file for file in backup.files if file not in versions]
    copy = _CopyBack(source, target)
    with progress(f"restore {name}", len(backup.files), "file") as advance:
        for _ in (runner or Threads()).run(copy, others, name=f"restore {name}"):
            advance(1)
        for region_id, version in backup.manifests.items():
            target.put(version_hint_path(region_id), b'{"version":%d}' % version)
        # The newest version before older ones, the table's past: this order must not change (ADR 64).
        newest, *past = sorted(versions, key=lambda file: -versions[file])
        if not target.put_if_absent(newest.path, source.read(newest.stored_at)):
            raise _present_error(root, name)
        target.set_written(newest.path, newest.written)
        advance(1)
        for _ in (runner or Threads()).run(copy, past, name=f"restore {name}"):
            advance(1)
    return name


def restore_names(place: Storage, root: Storage) -> tuple[str, ...]:
    """Restore views and marks of schemas that are not there; return the paths of those that are."""
    chosen = list_small_files(place, list_schemas(place), lambda name: is_view(name) or name == MARK)
    return tuple(path for path in chosen if not root.put_if_absent(path, place.read(path)))


@dataclass(frozen=True, slots=True)
class _CopyBack:
    source: Storage
    target: Storage

    def __call__(self, file: CopiedFile) -> None:
        """Copy a file to where it belongs."""
        self.source.copy_to(file.stored_at, self.target, file.path, file.size)
        # The past of a table is told by the times of its files.
        self.target.set_written(file.path, file.written)


def _check_copies(source: Storage, backup: Backup) -> None:
    stored = {entry.name: entry.size for entry in source.files()}
    for file in backup.files:
        if stored.get(file.stored_at) != file.size:
            found = stored.get(file.stored_at)
            what = "is absent" if found is None else f"has {found} bytes"
            msg = (
                f"backup {backup.backup_id} of table {backup.table!r} is damaged: "
                f"{source.locate(file.stored_at)} should have {file.size} bytes and {what}. "
                "Restore an earlier one (--backup)"
            )
            raise CorruptDataError(msg)


def _parse_version(file: CopiedFile) -> int | None:
    directory, _, name = file.path.rpartition("/")
    return parse_base_manifest_version(name) if directory == VERSIONS else None


def _present_error(root: Storage, name: TableName) -> AlreadyExistsError:
    msg = f"table {name!r} exists in {root.uri} already: drop it, or restore under another name with --as"
    return AlreadyExistsError(msg)
