"""`lance-gateway serve`."""

import os
from typing import Annotated

import typer

from gateway.cli.failures import failing
from gateway.cli.flags import ConfigFile, Root, Sets, flags_of
from pipeline.cli.options import StorageOptions


def serve(
    root: Root = None,
    config: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (31337); 0 takes any free one.")] = None,
    http_host: Annotated[str | None, typer.Option(help="Address of metrics and health (127.0.0.1).")] = None,
    http_port: Annotated[
        str | None, typer.Option(help="Port of metrics and health; auto (the one after --port) or off.")
    ] = None,
    storage_option: StorageOptions = None,
    drain_seconds: Annotated[
        float | None, typer.Option(help="How long running streams may go on after a signal to stop (30).")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR; logs go to stderr.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="Serve other machines without authentication, knowingly."),
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only", help="Refuse statements that write.")
    ] = None,
    sets: Sets = None,
) -> None:
    """Serve the tables of a directory until SIGINT or SIGTERM."""
    # gRPC's own complaints repeat ours in worse words. Read when the library is loaded, hence set here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # A statement takes as many of DataFusion's threads as it has partitions, one per core. With more threads,
    # one that never pauses (a huge cross join) can still be stopped, and others still run.
    os.environ.setdefault("TOKIO_WORKER_THREADS", str(max(16, 4 * (os.cpu_count() or 1))))
    with failing():
        from gateway.config import load  # noqa: PLC0415 - keeps --help and the client commands quick

        keys: dict[str, tuple[str, object]] = {
            "--host": ("server.host", host),
            "--port": ("server.port", port),
            "--drain-seconds": ("server.drain", drain_seconds),
            "--http-host": ("observability.http_host", http_host),
            "--http-port": ("observability.http_port", http_port),
            "--log-level": ("observability.log_level", log_level),
            "--log-format": ("observability.log_format", log_format),
            "--insecure": ("auth.insecure", insecure),
            # The key says what is allowed, the flag what is not.
            "--read-only": ("writes.enabled", False if read_only else None),
        }
        loaded = load(flags_of(root, storage_option, sets, keys), config)
        # Loads pylance, DataFusion and gRPC: the client commands do without the first two.
        from gateway.start.run_server import serve as run  # noqa: PLC0415

        run(loaded)
