"""`lance-gateway pipeline merge`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.failing import failing, for_each
from pipeline.cli.options import (
    ConfigFile,
    Master,
    RootOrFile,
    StorageOptions,
    Tables,
    opened_runner,
    storage_options,
)
from pipeline.jobs.progress import counted

if TYPE_CHECKING:
    from pipeline.jobs.lake import LakeTable
    from pipeline.merging import MergeReport


def merge(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Merge these regions only; may be repeated."),
    ] = None,
    newer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID",
            help="Where a region has two ids and no time tells which of two rows is newer: that of this id; "
            "may be repeated.",
        ),
    ] = None,
    min_generations: Annotated[
        int | None, typer.Option(help="Merge tables with so many pending generations.")
    ] = None,
    min_rows: Annotated[int | None, typer.Option(help="Merge tables with so many pending rows.")] = None,
    min_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Merge tables with so many pending bytes, such as 64MiB."),
    ] = None,
    max_lag: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Merge tables with a generation older than that, such as 5m."),
    ] = None,
    batch_rows: Annotated[int | None, typer.Option(help="Rows of one commit, about.")] = None,
    batch_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Bytes of one commit, about.")
    ] = None,
    master: Master = None,
    *,
    key_index: Annotated[
        bool | None,
        typer.Option(
            "--key-index/--no-key-index", help="Look a few rows of a large table up in an index on its key."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Merge everything that is pending, whatever the file says.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False,
) -> None:
    """Merge flushed generations into the base table.

    Merges everything that is pending, unless one of --min-generations, --min-rows, --min-bytes and --max-lag
    is given: then tables for which none of those given holds are left alone.
    """
    with failing():
        from pipeline.cli.settings import load  # noqa: PLC0415
        from pipeline.jobs.lake import Lake  # noqa: PLC0415 - keeps --help quick
        from pipeline.jobs.progress import on_terminal  # noqa: PLC0415
        from pipeline.merging import merge as run  # noqa: PLC0415

        settings = load(
            {
                "root": root,
                "storage_options": storage_options(storage_option) or None,
                "merge.min_generations": 1 if force else min_generations,
                "merge.min_rows": min_rows,
                "merge.min_bytes": min_bytes,
                "merge.max_lag": max_lag,
                "merge.batch_rows": batch_rows,
                "merge.batch_bytes": batch_bytes,
                "merge.use_key_index": key_index,
            },
            config,
        )
        found = Lake.open(settings.root, settings.storage_options).tables(tables or ())
        policy = settings.policies.merge
        with opened_runner(master) as runner:

            def one(table: LakeTable) -> None:
                report = run(
                    table,
                    policy,
                    regions=region or (),
                    newer=newer or (),
                    runner=runner,
                    progress=on_terminal,
                )
                typer.echo(json.dumps(_facts(report)) if as_json else _line(report))

            for_each(found, one, are_named=bool(tables))


def _facts(report: MergeReport) -> dict[str, object]:
    return {
        "table": report.table,
        "regions": report.regions,
        "generations": report.generations,
        "commits": len(report.batches),
        "upserted": report.upserted,
        "deleted": report.deleted,
        "left": report.left,
        "united": report.united,
        "seconds": round(report.seconds, 3),
    }


def _line(report: MergeReport) -> str:
    if report.united:
        united = f"{report.table}: {counted(report.united, 'region')} had two ids and one now"
        return f"{united}\n{_line(replace(report, united=0))}"
    if report.left:
        pending = counted(report.left, "generation")
        return f"{report.table}: {pending} pending, which is less than what was asked for"
    if not report.batches:
        return f"{report.table}: nothing is pending"
    what, where = counted(report.generations, "generation"), counted(report.regions, "region")
    return (
        f"{report.table}: {counted(report.upserted, 'row')} upserted, {report.deleted:,} deleted: {what} of "
        f"{where} in {counted(len(report.batches), 'commit')}, {report.seconds:.1f} s"
    )
