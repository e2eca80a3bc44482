"""`lance-gateway pipeline merge`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.failing import failing
from pipeline.cli.options import Root, StorageOptions, Tables, storage_options

if TYPE_CHECKING:
    from pipeline.merging import MergeReport


def merge(
    root: Root,
    tables: Tables = None,
    storage_option: StorageOptions = None,
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Merge these regions only; may be repeated."),
    ] = None,
    min_generations: Annotated[
        int | None, typer.Option(help="Merge tables with so many pending generations.")
    ] = None,
    min_rows: Annotated[int | None, typer.Option(help="Merge tables with so many pending rows.")] = None,
    min_bytes: Annotated[int | None, typer.Option(help="Merge tables with so many pending bytes.")] = None,
    max_lag: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Merge tables with a generation flushed so long ago."),
    ] = None,
    batch_rows: Annotated[int, typer.Option(help="Rows of one commit, about.")] = 5_000_000,
    batch_bytes: Annotated[int, typer.Option(help="Bytes of one commit, about.")] = 256 << 20,
    *,
    key_index: Annotated[
        bool,
        typer.Option(help="Look a few rows of a large table up in an index on its key."),
    ] = True,
    master: Annotated[
        str | None, typer.Option(help="Find the newest rows on Spark: local[*], spark://.., yarn.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per table.")] = False,
) -> None:
    """Merge flushed generations into the base table.

    Merges everything that is pending, unless one of --min-generations, --min-rows, --min-bytes and --max-lag
    is given: then tables for which none of those given holds are left alone.
    """
    with failing(), ExitStack() as stack:
        from memwal.errors import LanceGatewayError, PreconditionError  # noqa: PLC0415 - keeps --help quick
        from pipeline.lake import Lake  # noqa: PLC0415
        from pipeline.merging import MergePolicy  # noqa: PLC0415
        from pipeline.merging import merge as run  # noqa: PLC0415
        from pipeline.progress import on_terminal  # noqa: PLC0415
        from pipeline.runners import Runner, Threads  # noqa: PLC0415
        from pipeline.spark.session import is_submitted, opened_session  # noqa: PLC0415

        policy = MergePolicy(
            min_generations, min_rows, min_bytes, max_lag, batch_rows, batch_bytes, use_key_index=key_index
        )
        found = Lake.open(root, storage_options(storage_option)).tables(tables or ())
        runner: Runner = Threads()
        if master is not None or is_submitted():
            from pipeline.spark.runner import OnSpark  # noqa: PLC0415

            runner = OnSpark(stack.enter_context(opened_session(master)))
        failed = False
        for table in found:
            try:
                report = run(table, policy, regions=region or (), runner=runner, progress=on_terminal)
            except LanceGatewayError as error:
                if len(found) == 1:
                    raise
                if tables or not isinstance(error, PreconditionError):  # Others may have no MemWAL.
                    typer.echo(f"error: {error}", err=True)
                    failed = True
                continue
            typer.echo(json.dumps(_facts(report)) if as_json else _line(report))
        if failed:
            raise typer.Exit(1)


def _facts(report: MergeReport) -> dict[str, object]:
    return {
        "table": report.table,
        "regions": report.regions,
        "generations": report.generations,
        "commits": len(report.batches),
        "upserted": report.upserted,
        "deleted": report.deleted,
        "left": report.left,
        "seconds": round(report.seconds, 3),
    }


def _line(report: MergeReport) -> str:
    if report.left:
        return f"{report.table}: {report.left} generations are pending, which is less than what was asked for"
    if not report.batches:
        return f"{report.table}: nothing is pending"
    return (
        f"{report.table}: {report.upserted:,} rows upserted, {report.deleted:,} deleted: "
        f"{report.generations:,} generations of {report.regions:,} regions "
        f"in {len(report.batches):,} commits, {report.seconds:.1f} s"
    )
