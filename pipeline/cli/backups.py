"""`lance-gateway backup` and `restore`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.cli.options import (
    Root,
    StorageOptions,
    create_console,
    exit_on_failure,
    for_each,
    open_tracker,
    parse_pairs,
)
from lance_gateway.pipeline.jobs.runners import format_count

if TYPE_CHECKING:
    from lance_gateway.memwal.storage.files import Storage
    from lance_gateway.memwal.storage.table_names import TableName
    from lance_gateway.pipeline.jobs.lake import LakeTable
    from lance_gateway.pipeline.snapshotting.backup import BackupReport


def backup(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[TABLE].. DEST", help="Tables by name, and the directory or prefix of backups."
        ),
    ],
    root: Root,
    everything: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--all", help="All tables, with views and schemas.")
    ] = False,
    storage_option: StorageOptions = None,
    dest_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Option of the object store of DEST; those of the root by default."
        ),
    ] = None,
    as_json: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--json", help="Print one JSON object per table.")
    ] = False,
) -> None:
    """Copy tables as they are, while others write to them.

    Files that an earlier backup in DEST has are not copied again.
    """
    with exit_on_failure():
        from lance_gateway.memwal.storage.files import Storage  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.pipeline.jobs.lake import Lake  # noqa: PLC0415
        from lance_gateway.pipeline.snapshotting.backup import back_up, back_up_names  # noqa: PLC0415

        *tables, dest = places
        if everything == bool(tables):
            raise InvalidInputError("say which tables: TABLE.. DEST, or --all DEST")
        options = parse_pairs("--storage-option", storage_option)
        lake = Lake.open(root, options)
        place = Storage.open(dest, parse_pairs("--dest-option", dest_option) or options)
        found, tracker = lake.tables(tables), open_tracker(lake)

        def one(table: LakeTable) -> None:
            with tracker.track("backup", table.name) as progress:
                report = back_up(table, place, progress=progress)
            typer.echo(json.dumps(_describe(report)) if as_json else _line(report))

        if everything:
            back_up_names(lake, place)
        for_each(found, one, are_named=True)


def restore(
    source: Annotated[str, typer.Argument(help="Directory or prefix of backups.")],
    root: Root,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Tables by name; all, with views, by default.")
    ] = None,
    backup_id: Annotated[
        str | None,
        typer.Option("--backup", metavar="ID", help="Which backup; the newest by default."),
    ] = None,
    new_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Restore one table under another name.")
    ] = None,
    lists: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--list", help="List the backups that there are, and restore nothing.")
    ] = False,
    storage_option: StorageOptions = None,
    source_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Option of the object store of SOURCE; those of the root by default."
        ),
    ] = None,
) -> None:
    """Make tables of backups; tables that exist are never touched."""
    with exit_on_failure():
        from lance_gateway.memwal.errors import NotFoundError  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.memwal.storage.files import Storage  # noqa: PLC0415
        from lance_gateway.memwal.storage.table_names import TableName  # noqa: PLC0415
        from lance_gateway.pipeline.jobs.lake import Lake  # noqa: PLC0415
        from lance_gateway.pipeline.snapshotting.copies import list_backed_up, read_backup  # noqa: PLC0415
        from lance_gateway.pipeline.snapshotting.restore import restore as run  # noqa: PLC0415
        from lance_gateway.pipeline.snapshotting.restore import restore_names  # noqa: PLC0415

        options = parse_pairs("--storage-option", storage_option)
        place = Storage.open(source, parse_pairs("--source-option", source_option) or options)
        names = tuple(map(TableName.parse, tables or ())) or list_backed_up(place)
        if not names:
            raise NotFoundError(f"there are no backups in {place.uri}")
        if lists:
            _print_list(place, names)
            return
        if (new_name is not None or backup_id is not None) and len(tables or ()) != 1:
            raise InvalidInputError("--as and --backup are of one table: name it")
        lake = Lake.open(root, options)
        tracker = open_tracker(lake)
        chosen = {name: read_backup(place, name, backup_id) for name in names}
        for name, found in chosen.items():
            target = name if new_name is None else TableName.parse(new_name)
            with tracker.track("restore", target) as progress:
                run(place, found, lake.storage, target, progress=progress)
            typer.echo(
                f"{target}: restored from backup {found.backup_id}: version {found.version}, "
                f"{format_count(len(found.manifests), 'region')}, {format_count(found.num_bytes, 'byte')}"
            )
        if not tables:
            for path in restore_names(place, lake.storage):
                typer.echo(f"{path} is there and was left as it is", err=True)


def _describe(report: BackupReport) -> dict[str, object]:
    taken = report.backup
    return {
        "table": taken.table,
        "backup": taken.backup_id,
        "version": taken.version,
        "regions": len(taken.manifests),
        "files": len(taken.files),
        "bytes": taken.num_bytes,
        "copied_files": len(report.copied),
        "copied_bytes": sum(file.size for file in report.copied),
    }


def _line(report: BackupReport) -> str:
    taken = report.backup
    files, size = format_count(len(taken.files), "file"), format_count(taken.num_bytes, "byte")
    return (
        f"{taken.table}: backup {taken.backup_id} of version {taken.version} and "
        f"{format_count(len(taken.manifests), 'region')}: {files}, {size}; "
        f"{len(report.copied):,} of them were copied"
    )


def _print_list(place: Storage, names: tuple[TableName, ...]) -> None:
    from rich.table import Table  # noqa: PLC0415 - keeps --help quick

    from lance_gateway.pipeline.snapshotting.copies import list_backup_ids, read_backup  # noqa: PLC0415

    shown = Table("table", "backup", "version", "regions", "files", "bytes", box=None, pad_edge=False)
    for name in names:
        for backup_id in list_backup_ids(place, name):
            found = read_backup(place, name, backup_id)
            numbers = (found.version, len(found.manifests), len(found.files), found.num_bytes)
            shown.add_row(name, backup_id, *map(str, numbers))
    create_console().print(shown)
