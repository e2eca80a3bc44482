"""`lance-gateway pipeline snapshot`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.failing import failing
from pipeline.cli.options import ConfigFile, RootOrFile, StorageOptions, Tables, storage_options


def snapshot(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    max_age: Annotated[
        str, typer.Option(metavar="DURATION", help="Leave younger snapshots alone, such as 60s.")
    ] = "0",
    inline_regions: Annotated[
        int | None, typer.Option(help="Tables with more regions keep snapshots in a file of their own.")
    ] = None,
) -> None:
    """Remember all regions in the MemWAL index of the base table."""
    with failing():
        from pipeline.lake import Lake  # noqa: PLC0415 - keeps --help quick
        from pipeline.progress import on_terminal  # noqa: PLC0415
        from pipeline.settings import load  # noqa: PLC0415
        from pipeline.snapshotting import snapshot as run  # noqa: PLC0415

        settings = load(
            {
                "root": root,
                "storage_options": storage_options(storage_option) or None,
                "snapshot.max_age": max_age,
                "snapshot.inline_regions": inline_regions,
            },
            config,
        )
        lake = Lake.open(settings.root, settings.storage_options)
        for table in lake.tables(tables or ()):
            report = run(table, settings.policies.snapshot, progress=on_terminal)
            if report.committed is None:
                reason = "nothing has changed" if report.is_current else "its snapshot is young enough"
                typer.echo(f"{report.table}: {report.regions} regions, {reason}")
                continue
            where = "inline" if report.committed.is_inline else "in a file of its own"
            typer.echo(
                f"{report.table}: {report.regions} regions remembered by version {report.committed.version}, "
                f"{report.committed.num_bytes} bytes {where}"
            )
