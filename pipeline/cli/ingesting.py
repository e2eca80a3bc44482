"""`lance-gateway pipeline ingest`."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from lance_gateway.pipeline.cli.options import (
    Archive,
    Master,
    Root,
    StorageOptions,
    exit_on_failure,
    open_tracker,
    parse_pairs,
)
from lance_gateway.pipeline.jobs.runners import format_count

if TYPE_CHECKING:
    from lance_gateway.pipeline.ingesting import IngestReport
    from lance_gateway.pipeline.ingesting.streaming import IngestStream


def ingest(
    table: Annotated[str, typer.Argument(help="Table that rows go into.")],
    root: Root,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH", help="File or directory that Spark reads.")
    ] = None,
    source_format: Annotated[
        str, typer.Option("--format", help="Any that Spark knows: parquet, csv, json, orc, delta, kafka..")
    ] = "parquet",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="KEY=VALUE", help="Option of Spark's reader; may be repeated."),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help="Columns of the files, as SQL writes them: 'id BIGINT, text STRING'.")
    ] = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option(help="Column by which the last row of a key is found; may be repeated."),
    ] = None,
    deleted_column: Annotated[
        str | None, typer.Option(help="Boolean column of the rows: true deletes the row's key.")
    ] = None,
    stream: Annotated[  # noqa: FBT002 - typer's way
        bool, typer.Option("--stream", help="Go on with what comes, until stopped (Ctrl-C, SIGTERM).")
    ] = False,
    checkpoint: Annotated[
        str | None, typer.Option(help="Directory in which Spark keeps how far a stream is.")
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(help="Of a stream's batches: '10 seconds', or available-now to end with what is there."),
    ] = None,
    flush: Annotated[  # noqa: FBT002 - as above
        bool, typer.Option(help="Make generations of what was written; else it stays in the log.")
    ] = True,
    tasks: Annotated[int | None, typer.Option(help="How many write at a time at most.")] = None,
    master: Master = None,
    archive: Archive = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark; may be repeated."),
    ] = None,
    storage_option: StorageOptions = None,
) -> None:
    """Upsert rows that Spark reads, each exactly once in effect; all cores of this machine by default."""
    with exit_on_failure():
        from lance_gateway.memwal.errors import InvalidInputError  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.pipeline.ingesting import IngestOptions  # noqa: PLC0415
        from lance_gateway.pipeline.ingesting import ingest as run  # noqa: PLC0415
        from lance_gateway.pipeline.ingesting import stream as start  # noqa: PLC0415
        from lance_gateway.pipeline.ingesting.streaming import Source, parse_trigger  # noqa: PLC0415
        from lance_gateway.pipeline.jobs.lake import Lake  # noqa: PLC0415
        from lance_gateway.pipeline.spark.session import open_session  # noqa: PLC0415

        if (checkpoint is not None or trigger is not None) and not stream:
            raise InvalidInputError("--checkpoint and --trigger belong to a stream: give --stream too")
        if stream and checkpoint is None:
            raise InvalidInputError("--stream needs --checkpoint DIR, where Spark keeps how far it is")
        lake = Lake.open(root, parse_pairs("--storage-option", storage_option))
        into = lake.table(table)
        rows = Source(source, source_format, parse_pairs("--option", option), schema)
        options = IngestOptions(tuple(order_by or ()), deleted_column, flush, tasks)
        with open_session(master, settings=parse_pairs("--conf", conf), archive=archive) as spark:
            if stream:
                # A line for each batch tells enough on the terminal.
                with open_tracker(lake, is_quiet=True).track("ingest", into.name) as progress:
                    query = start(
                        rows.stream(spark),
                        into,
                        checkpoint=str(checkpoint),
                        trigger=parse_trigger(trigger),
                        options=options,
                        on_batch=_print_report,
                        progress=progress,
                    )
                    _await(query)
            else:
                with open_tracker(lake).track("ingest", into.name) as progress:
                    report = run(rows.batch(spark), into, options, progress=progress)
                _print_report(report)


def _print_report(report: IngestReport) -> None:
    batch = f" batch {report.batch}:" if report.job.startswith("stream-") else ""
    if report.is_skipped:
        typer.echo(f"{report.table}:{batch} was complete before")
        return
    deleted = f", {report.deleted:,} deleted" if report.deleted else ""
    where = format_count(len(report.regions), "region")
    typer.echo(f"{report.table}:{batch} {format_count(report.rows, 'row')}{deleted} in {where}")


def _await(query: IngestStream) -> None:
    """Wait for the end of a stream, or end it when this process is asked to."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        query.await_end()
    except KeyboardInterrupt:
        query.stop()
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
