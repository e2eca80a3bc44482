"""`lance-gateway pipeline index` and `snapshot`: what the base table has beside its rows."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.pipeline.cli.options import (
    Archive,
    ConfigFile,
    Master,
    Root,
    RootOrFile,
    StorageOptions,
    Tables,
    exit_on_failure,
    for_each,
    open_runner,
    open_tables,
    open_tracker,
    parse_pairs,
)
from lance_gateway.pipeline.jobs.runners import format_count

if TYPE_CHECKING:
    from lance_gateway.pipeline.indexing import BuildReport, IndexReport
    from lance_gateway.pipeline.jobs.lake import LakeTable
    from lance_gateway.pipeline.snapshotting import SnapshotReport


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
    master: Master = None,
    archive: Archive = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False,
) -> None:
    """Remember all regions in the MemWAL index of the base table.

    A table whose regions are remembered as they are is left alone.
    """
    with exit_on_failure():
        from lance_gateway.pipeline.snapshotting import SnapshotJob  # noqa: PLC0415 - keeps --help quick

        keys = {"snapshot.max_age": max_age, "snapshot.hint_entries": hint_entries}
        policies, lake, found = open_tables(tables, root, config, storage_option, keys)
        tracker = open_tracker(lake)
        with open_runner(master, archive) as runner:

            def one(table: LakeTable) -> None:
                title = f"snapshot {table.name}"
                with tracker.track("snapshot", table.name):
                    (report,) = runner.run(SnapshotJob(policies.snapshot), [table], name=title)
                typer.echo(json.dumps(_document(report)) if as_json else _line(report))

            for_each(found, one, are_named=bool(tables))


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
    regions = format_count(report.regions, "region")
    if report.committed is None:
        reason = "nothing has changed" if report.is_current else "the last snapshot is young enough"
        return f"{report.table}: {regions}, {reason}"
    return (
        f"{report.table}: {regions} remembered by version {report.committed.version}, "
        f"{format_count(report.committed.num_bytes, 'byte')}"
    )


def index(
    root: Root,
    tables: Tables = None,
    storage_option: StorageOptions = None,
    builds: Annotated[
        list[str] | None,
        typer.Option("--build", metavar="COLUMN:TYPE[:NAME]", help="Build an index; may be repeated."),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Parameter of what is built, such as num_partitions=256."),
    ] = None,
    replace: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--replace", help="Build in place of indexes of that name.")
    ] = False,
    segment_rows: Annotated[
        int, typer.Option(help="Rows of a segment; segments are built side by side, and merged.")
    ] = 1_000_000,
    compact: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option(help="Put small files together.")
    ] = True,
    target_rows: Annotated[int, typer.Option(help="Rows of a fragment that is large enough.")] = 1_048_576,
    max_spare_fragments: Annotated[
        int, typer.Option(help="Put files together when that spares more fragments than this.")
    ] = 8,
    materialize_deletions: Annotated[
        float, typer.Option(help="Rewrite fragments of which a greater part is deleted; 1 for never.")
    ] = 0.1,
    max_unindexed_rows: Annotated[int, typer.Option(help="Rows that an index may lack.")] = 0,
    retrain_after: Annotated[
        int, typer.Option(help="Retrain vector indexes after rows were added so many times.")
    ] = 64,
    retrain_growth: Annotated[
        float, typer.Option(help="Retrain vector indexes once the table has so many times the rows.")
    ] = 4.0,
    retrain_codebooks: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option(help="Train those with a codebook that generations share, too.")
    ] = False,
    key_index: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option(help="Build the indexes that the primary key lacks.")
    ] = True,
    master: Master = None,
    archive: Archive = None,
    as_json: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--json", help="Print one JSON document for each table.")
    ] = False,
) -> None:
    """Bring indexes up to date with merges and put small files together; or build indexes."""
    with exit_on_failure():
        from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.pipeline.jobs.lake import Lake  # noqa: PLC0415

        policy = IndexPolicy(
            max_unindexed_rows,
            compact=compact,
            target_rows=target_rows,
            max_spare_fragments=max_spare_fragments,
            deleted_fraction=materialize_deletions,
            retrain_after=retrain_after,
            retrain_growth=retrain_growth,
            retrain_codebooks=retrain_codebooks,
            key_index=key_index,
        )
        parameters = parse_pairs("--parameter", parameter)
        specs = [
            IndexSpec.parse(build, parameters, replaces=replace, segment_rows=segment_rows)
            for build in builds or ()
        ]
        lake = Lake.open(root, parse_pairs("--storage-option", storage_option))
        found, tracker = lake.tables(tables or ()), open_tracker(lake)
        if specs and not tables:
            raise InvalidInputError(
                f"--build {specs[0].column}:{specs[0].type}: name the table that it is of"
            )
        with open_runner(master, archive) as runner:

            def one(table: LakeTable) -> None:
                for spec in specs:
                    with tracker.track("build", table.name) as progress:
                        built = build(table, spec, runner=runner, progress=progress)
                    typer.echo(json.dumps(asdict(built))) if as_json else _print_build(built)
                if not specs:
                    with tracker.track("index", table.name) as progress:
                        report = maintain(table, policy, runner=runner, progress=progress)
                    typer.echo(json.dumps(asdict(report))) if as_json else _print_maintenance(report)

            for_each(found, one, are_named=bool(tables))


def _print_build(report: BuildReport) -> None:
    how = f"{report.segments} segments side by side" if report.segments > 1 else "one segment"
    typer.echo(
        f"{report.table}: index {report.index} covers {format_count(report.rows, 'row')}, from {how} "
        f"(version {report.version})"
    )
    if not report.is_maintained:
        typer.echo(
            "  flushed generations go without it: they have trees, texts and vectors that the table maintains"
        )


def _print_maintenance(report: IndexReport) -> None:
    if not report.reasons:
        typer.echo(f"{report.table}: nothing to do")
    else:
        typer.echo(f"{report.table}: now at version {report.version}")
    for reason in report.reasons:
        typer.echo(f"  because {reason}")
    for what, names in (
        ("built for the primary key", report.built),
        ("up to date", report.optimised),
        ("retrained", report.retrained),
    ):
        if names:
            typer.echo(f"  {what}: {', '.join(names)}")
    if report.fragments_removed:
        before = format_count(report.fragments_removed, "fragment")
        typer.echo(f"  put together: {before} became {report.fragments_added:,}")
    for lag in report.lagging:
        typer.echo(f"  still to do: {lag}")
