"""`lance-gateway pipeline snapshot`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.failing import failing, for_each
from pipeline.cli.options import ConfigFile, RootOrFile, StorageOptions, Tables, storage_options
from pipeline.jobs.progress import counted

if TYPE_CHECKING:
    from pipeline.jobs.lake import LakeTable
    from pipeline.snapshotting import SnapshotReport


def snapshot(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    max_age: Annotated[
        str, typer.Option(metavar="DURATION", help="Leave younger snapshots alone, such as 60s.")
    ] = "0",
    hint_entries: Annotated[
        int | None,
        typer.Option(help="Tell a region's manifest where its log ends after so many entries; 0 for never."),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False,
) -> None:
    """Remember all regions in the MemWAL index of the base table.

    A table whose regions are remembered as they are is left alone.
    """
    with failing():
        from pipeline.cli.settings import load  # noqa: PLC0415
        from pipeline.jobs.lake import Lake  # noqa: PLC0415 - keeps --help quick
        from pipeline.jobs.progress import on_terminal  # noqa: PLC0415
        from pipeline.snapshotting import snapshot as run  # noqa: PLC0415

        settings = load(
            {
                "root": root,
                "storage_options": storage_options(storage_option) or None,
                "snapshot.max_age": max_age,
                "snapshot.hint_entries": hint_entries,
            },
            config,
        )
        lake = Lake.open(settings.root, settings.storage_options)

        def one(table: LakeTable) -> None:
            report = run(table, settings.policies.snapshot, progress=on_terminal)
            typer.echo(json.dumps(_document(report)) if as_json else _line(report))

        for_each(lake.tables(tables or ()), one, are_named=bool(tables))


def _document(report: SnapshotReport) -> dict[str, object]:
    committed = report.committed
    return {
        "table": report.table,
        "regions": report.regions,
        "is_current": report.is_current,
        "version": committed and committed.version,
        "bytes": committed and committed.num_bytes,
        "hints": report.hints,
    }


def _line(report: SnapshotReport) -> str:
    regions = counted(report.regions, "region")
    if report.committed is None:
        reason = "nothing has changed" if report.is_current else "the last snapshot is young enough"
        return f"{report.table}: {regions}, {reason}"
    return (
        f"{report.table}: {regions} remembered by version {report.committed.version}, "
        f"{counted(report.committed.num_bytes, 'byte')}"
    )
