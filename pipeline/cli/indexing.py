"""`lance-gateway pipeline index`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memwal.errors import InvalidInputError
from pipeline.cli.failing import failing, for_each
from pipeline.cli.options import Master, Root, StorageOptions, Tables, opened_runner, pairs, storage_options
from pipeline.jobs.progress import counted

if TYPE_CHECKING:
    from pipeline.indexing import BuildReport, IndexReport
    from pipeline.jobs.lake import LakeTable


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
        int, typer.Option(help="Train vector indexes anew after rows were added so many times.")
    ] = 64,
    retrain_growth: Annotated[
        float, typer.Option(help="Train vector indexes anew once the table has so many times the rows.")
    ] = 4.0,
    master: Master = None,
    as_json: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--json", help="Print one JSON document for each table.")
    ] = False,
) -> None:
    """Bring indexes up to date with merges and put small files together; or build indexes."""
    with failing():
        from pipeline.indexing import IndexPolicy, IndexSpec, build, maintain  # noqa: PLC0415 - keeps --help quick
        from pipeline.jobs.lake import Lake  # noqa: PLC0415
        from pipeline.jobs.progress import on_terminal  # noqa: PLC0415

        policy = IndexPolicy(
            max_unindexed_rows,
            compact=compact,
            target_rows=target_rows,
            max_spare_fragments=max_spare_fragments,
            deleted_fraction=materialize_deletions,
            retrain_after=retrain_after,
            retrain_growth=retrain_growth,
        )
        parameters = pairs("--parameter", parameter)
        specs = [
            IndexSpec.parse(one, parameters, replaces=replace, segment_rows=segment_rows)
            for one in builds or ()
        ]
        found = Lake.open(root, storage_options(storage_option)).tables(tables or ())
        if specs and not tables:
            msg = f"--build {specs[0].column}:{specs[0].type}: name the table that it is of"
            raise InvalidInputError(msg)
        with opened_runner(master) as runner:

            def one(table: LakeTable) -> None:
                for spec in specs:
                    _tell_built(build(table, spec, runner=runner, progress=on_terminal), as_json=as_json)
                if not specs:
                    report = maintain(table, policy, runner=runner, progress=on_terminal)
                    _tell_maintained(report, as_json=as_json)

            for_each(found, one, are_named=bool(tables))


def _tell_built(report: BuildReport, *, as_json: bool) -> None:
    if as_json:
        _print_json(report)
        return
    how = f"{report.segments} segments side by side" if report.segments > 1 else "one segment"
    typer.echo(
        f"{report.table}: index {report.index} covers {counted(report.rows, 'row')}, from {how} (version "
        f"{report.version})"
    )
    if not report.is_maintained:
        typer.echo(
            "  flushed generations go without it: they have trees, texts and vectors that the table maintains"
        )


def _tell_maintained(report: IndexReport, *, as_json: bool) -> None:
    if as_json:
        _print_json(report)
        return
    if not report.reasons:
        typer.echo(f"{report.table}: nothing to do")
    else:
        typer.echo(f"{report.table}: now at version {report.version}")
    for reason in report.reasons:
        typer.echo(f"  because {reason}")
    for what, names in (("up to date", report.optimised), ("trained anew", report.retrained)):
        if names:
            typer.echo(f"  {what}: {', '.join(names)}")
    if report.fragments_removed:
        before = counted(report.fragments_removed, "fragment")
        typer.echo(f"  put together: {before} became {report.fragments_added:,}")
    for lag in report.lagging:
        typer.echo(f"  still to do: {lag}")


def _print_json(report: BuildReport | IndexReport) -> None:
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    typer.echo(json.dumps(asdict(report)))
