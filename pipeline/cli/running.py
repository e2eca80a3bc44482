"""`lance-gateway pipeline run`, `status`, `archive` and `reference`."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from lance_gateway.pipeline.cli.options import (
    Archive,
    ConfigFile,
    Master,
    RootOrFile,
    StorageOptions,
    Tables,
    create_console,
    exit_on_failure,
    open_runner,
    open_tables,
    parse_pairs,
)
from lance_gateway.pipeline.jobs.runners import format_count


def archive(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File to write: NAME.tar.gz.")],
) -> None:
    """Pack this Python, lance-gateway and what it needs, for executors that lack them: --archive ships it."""
    with exit_on_failure():
        from lance_gateway.pipeline.spark.archive import pack  # noqa: PLC0415 - keeps --help quick

        report = pack(path)
        size = f"{report.num_bytes / 2**20:,.0f} MiB"
        typer.echo(f"{report.path}: {size}, Python and {format_count(len(report.packages), 'package')}")


def reference() -> None:
    """Print the reference of all keys of jobs, in Markdown."""
    from lance_gateway.pipeline.cli.settings import text  # noqa: PLC0415 - keeps --help quick

    typer.echo(text(), nl=False)


def status(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    regions: Annotated[bool, typer.Option("--regions", help="Tell of each region, too.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,  # noqa: FBT002
    prometheus: Annotated[  # noqa: FBT002
        bool, typer.Option("--prometheus", help="Metrics as Prometheus reads them.")
    ] = False,
) -> None:
    """Show what waits to be merged, and how far indexes and snapshots are behind.

    A table that can't be read is named on stderr, and the exit status is 1; the others are shown.
    """
    with exit_on_failure():
        from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError  # noqa: PLC0415
        from lance_gateway.pipeline.status import TableStatus, read_status  # noqa: PLC0415

        if as_json and prometheus:
            raise InvalidInputError("--json and --prometheus: choose one")
        found: list[TableStatus] = []
        failures: dict[str, str] = {}
        for table in open_tables(tables, root, config, storage_option)[2]:
            try:
                found.append(read_status(table))
            except LanceGatewayError as error:
                failures[table.name] = " ".join(str(error).split())
        if as_json:
            from lance_gateway.pipeline.status.shown import build_document  # noqa: PLC0415

            typer.echo(json.dumps(build_document(found, failures, regions=regions), indent=2))
        elif prometheus:
            from lance_gateway.pipeline.status.shown import format_exposition  # noqa: PLC0415

            typer.echo(format_exposition(found, regions=regions), nl=False)
        else:
            from lance_gateway.pipeline.status.shown import render  # noqa: PLC0415

            create_console().print(render(found, regions=regions))
        for reason in failures.values():
            typer.echo(f"error: {reason}", err=True)
        if failures:
            raise typer.Exit(1)


def run(
    tables: Tables = None,
    root: RootOrFile = None,
    config: ConfigFile = None,
    storage_option: StorageOptions = None,
    once: Annotated[  # noqa: FBT002
        bool, typer.Option("--once", help="Look at all tables once; status 1 if one of them failed.")
    ] = False,
    interval: Annotated[
        str | None, typer.Option(metavar="DURATION", help="From one look to the next (10s).")
    ] = None,
    delete: Annotated[
        bool | None, typer.Option("--delete", help="Clean up: remove what nobody needs any more.")
    ] = None,
    master: Master = None,
    archive: Archive = None,
    spark_stream: Annotated[  # noqa: FBT002
        bool, typer.Option("--spark-stream", help="Run as a query of Spark Structured Streaming.")
    ] = False,
    http_host: Annotated[str | None, typer.Option(help="Address of /metrics and /livez (127.0.0.1).")] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port of the same; 0 takes any free one (none is served).")
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json; logs go to stderr.")] = None,
) -> None:
    """Keep tables healthy until SIGINT or SIGTERM: merge, index, snapshot and clean what is due.

    The configuration file says when: see `lance-gateway pipeline reference`.

    Several of these processes may run on one root.
    """
    with exit_on_failure(), ExitStack() as stack:
        from lance_gateway.memwal.storage.jobs import RunningJobs  # noqa: PLC0415
        from lance_gateway.pipeline.cli.settings import load  # noqa: PLC0415
        from lance_gateway.pipeline.jobs.lake import Lake  # noqa: PLC0415
        from lance_gateway.pipeline.jobs.progress import JobTracker, logger  # noqa: PLC0415
        from lance_gateway.pipeline.keeping import Keeper  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.pipeline.keeping.metrics import HttpServer, KeeperMetrics  # noqa: PLC0415
        from lance_gateway.pipeline.keeping.running import configure, run_until, stop_on_signals  # noqa: PLC0415

        settings = load(
            {
                "root": root,
                "storage_options": parse_pairs("--storage-option", storage_option) or None,
                "run.interval": interval,
                "run.delete": delete,
                "run.master": master,
                "run.http_host": http_host,
                "run.http_port": http_port,
                "run.log_level": log_level,
                "run.log_format": log_format,
            },
            config,
        )
        policy = settings.policies.run
        configure(policy.log_format, policy.log_level)
        lake = Lake.open(settings.root, settings.storage_options)
        lake.tables(tables or ())  # Names that don't exist are told at once.
        stop = stack.enter_context(stop_on_signals())
        chosen = policy.master or ("local[*]" if spark_stream else None)
        metrics = KeeperMetrics()
        keeper = Keeper(
            lake,
            settings.policies,
            tables or (),
            runner=stack.enter_context(open_runner(chosen, archive)),
            track=JobTracker(RunningJobs(lake.storage), logger.info).track,
            observers=(metrics,),
            stop=stop,
        )
        if once:
            if keeper.round(patient=False).failed:
                raise typer.Exit(1)
            return
        if policy.http_port >= 0:
            metrics.watch(lambda: keeper.tables, policy.interval_seconds)
            server = HttpServer(metrics.registry, policy.http_host, policy.http_port)
            stack.callback(server.close)
            typer.echo(f"metrics at http://{policy.http_host}:{server.port}/metrics", err=True)
        if spark_stream:
            from lance_gateway.pipeline.keeping.running import stream_until  # noqa: PLC0415
            from lance_gateway.pipeline.spark.session import find_session  # noqa: PLC0415

            stream_until(keeper, find_session(chosen), stop, policy.interval_seconds)
        else:
            run_until(keeper, stop, policy.interval_seconds)
