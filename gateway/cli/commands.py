"""`lance-gateway serve`, `sql`, `mcp` and `config`, and what commands share: flags, and texts of failures."""

import gc
import http.client
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lance_gateway.gateway.cli.connecting import (
    DEFAULT_URI,
    ChosenConsistency,
    Password,
    TlsCa,
    TlsCertificate,
    TlsKey,
    Token,
    Uri,
    User,
    create_login,
)
from lance_gateway.gateway.cli.render import Format
from lance_gateway.gateway.config.loader import Flag
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnavailableError
from lance_gateway.pipeline.cli.options import StorageOptions, parse_pairs
from lance_gateway.pipeline.cli.options import exit_on_failure as failing_job
from lance_gateway.planner.bridge.machine import count_cores


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the program with one line on stderr and status 1 when the block fails in a known way."""
    with failing_job():
        try:
            yield
        except Exception as error:
            import pyarrow as pa  # noqa: PLC0415 - only needed for its exceptions

            if not isinstance(error, pa.ArrowException):
                raise
            from lance_gateway.protos.flight_sql import format_error  # noqa: PLC0415

            raise LanceGatewayError(format_error(error)) from None


ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file; LANCE_GATEWAY_CONFIG may name it.")
]
Root: TypeAlias = Annotated[
    str | None, typer.Option(help="Directory, or prefix in s3://, gs:// or az://, of <name>.lance tables.")
]
Sets: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any key of the configuration, such as limits.query_timeout=5m; may be repeated.",
    ),
]


def collect_flags(
    root: str | None,
    storage_options: list[str] | None,
    sets: list[str] | None,
    keys: dict[str, tuple[str, object]] | None = None,
) -> list[Flag]:
    """Return the flags that were given.

    Args:
        root: of `--root`.
        storage_options: of `--storage-option`.
        sets: of `--set`.
        keys: flag name -> (key, value) of the others; None is a flag that was not given.

    Raises:
        InvalidInputError: a pair without "=".
    """
    keys_of_flags = {"--root": ("root", root), **(keys or {})}
    flags = [Flag(name, key, value) for name, (key, value) in keys_of_flags.items() if value is not None]
    options = parse_pairs("--storage-option", storage_options)
    if options:
        flags.append(Flag("--storage-option", "storage_options", options))
    flags += [Flag("--set", key, value) for key, value in parse_pairs("--set", sets).items()]
    return flags


def mcp(
    uri: Uri = DEFAULT_URI,
    user: User = None,
    password: Password = None,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    allow_writes: Annotated[  # noqa: FBT002 - an option on the command line
        bool, typer.Option("--allow-writes", help="Let statements change rows and tables.")
    ] = False,
    consistency: ChosenConsistency = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of an answer, at most.")] = 1000,
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of the rows of an answer, at most.")] = 40_000,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds that a statement may run.")] = 60.0,
) -> None:
    """Serve a gateway's tables to language models, by the Model Context Protocol on stdin and stdout."""
    with exit_on_error():
        login = create_login(user, password, token, tls_ca, tls_certificate, tls_key)
        chosen = {"query_timeout_ms": str(round(timeout * 1000))}
        if not allow_writes:
            chosen["read_only"] = "true"
        if consistency is not None:
            chosen["consistency"] = consistency
        try:
            from lance_gateway.gateway.cli.mcp.server import Gateway, create_server  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] not in ("mcp", "mcp_types"):
                raise
            raise LanceGatewayError(
                "this needs the package mcp, which is not installed: pip install 'lance-gateway[mcp]'"
            ) from None
        from lance_gateway.gateway.cli.client import GatewayClient  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.gateway.cli.mcp.answers import AnswerLimits  # noqa: PLC0415

        connect = partial(GatewayClient, uri, login, chosen)
        with closing(Gateway(connect, AnswerLimits(max_rows, max_bytes))) as gateway:
            # A login that can never succeed is reported at once; a gateway may be started later.
            with suppress(UnavailableError):
                gateway.client  # noqa: B018
            with suppress(KeyboardInterrupt):
                create_server(gateway, allows_writes=allow_writes).run("stdio")


app = typer.Typer(help="Check, show and explain the configuration.", no_args_is_help=True)


@app.command()
def check(
    root: Root = None, config: ConfigFile = None, storage_option: StorageOptions = None, sets: Sets = None
) -> None:
    """Check that a gateway can start with this configuration; every problem is one line."""
    with exit_on_error():
        from lance_gateway.gateway.config.loader import ConfigError, load  # noqa: PLC0415
        from lance_gateway.gateway.start.run_server import find_problems  # noqa: PLC0415 - keeps --help quick

        try:
            problems = find_problems(load(collect_flags(root, storage_option, sets), config))
        except ConfigError as error:
            problems = list(error.problems)
        for problem in problems:
            typer.echo(f"error: {problem}", err=True)
        if problems:
            raise typer.Exit(1)
        typer.echo("the configuration is good")


@app.command()
def show(
    root: Root = None, config: ConfigFile = None, storage_option: StorageOptions = None, sets: Sets = None
) -> None:
    """Show the values in effect, each with where it comes from; credentials are left out."""
    with exit_on_error():
        from lance_gateway.gateway.config.effective_values import render_lines  # noqa: PLC0415
        from lance_gateway.gateway.config.loader import load  # noqa: PLC0415

        for line in render_lines(load(collect_flags(root, storage_option, sets), config)):
            typer.echo(line)


@app.command()
def reference() -> None:
    """Print the reference of all keys, in Markdown."""
    from lance_gateway.gateway.config.effective_values import render_reference  # noqa: PLC0415

    typer.echo(render_reference(), nl=False)


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
    os.environ.setdefault("TOKIO_WORKER_THREADS", str(max(16, 4 * count_cores())))
    with exit_on_error():
        from lance_gateway.gateway.config import load  # noqa: PLC0415 - keeps --help and the client commands quick

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
        loaded = load(collect_flags(root, storage_option, sets, keys), config)
        gc.disable()  # what is loaded stays: looking through it for garbage takes a tenth of the time
        # Loads pylance, DataFusion and gRPC: the client commands do without the first two.
        from lance_gateway.gateway.start.run_server import serve as run  # noqa: PLC0415

        gc.enable()
        run(loaded)


def health(root: Root = None, config: ConfigFile = None, sets: Sets = None) -> None:
    """Ask the gateway of this machine that has this configuration whether it is ready; exit with 1 if not."""
    with exit_on_error():
        from lance_gateway.gateway.config import load  # noqa: PLC0415 - keeps --help quick
        from lance_gateway.gateway.config.schema import choose_http_port  # noqa: PLC0415

        loaded = load(collect_flags(root, None, sets), config).config
        host, port = (
            loaded.observability.http_host,
            choose_http_port(loaded.observability, loaded.server.port),
        )
        if not port:
            raise InvalidInputError("health is off or at any free port: set observability.http_port")
        typer.echo(_ask_readiness(_LOCAL.get(host, host), port))


_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses that stand for all
_HEALTH_SECONDS = 5.0


def _ask_readiness(host: str, port: int) -> str:
    """Return what `/readyz` says.

    Raises:
        UnavailableError: the gateway is not ready, or does not answer.
    """
    connection = http.client.HTTPConnection(host, port, timeout=_HEALTH_SECONDS)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        said = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"no gateway answers at http://{host}:{port}/readyz: {error}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise UnavailableError(f"the gateway at http://{host}:{port} is not ready: {said}")
    return said


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="What to run; without it, a shell (or the script on stdin).")
    ] = None,
    uri: Uri = DEFAULT_URI,
    user: User = None,
    password: Password = None,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="How to write the result.")
    ] = Format.TABLE,
    consistency: ChosenConsistency = None,
    shortcuts: Annotated[
        str | None,
        typer.Option(help="all, none, or the names of the engine's shortcuts that stay on, with commas."),
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows that a table shows; the others are counted.")
    ] = 100,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow",
            help="Show rows as they come, as JSON unless --format says otherwise (follow => true).",
        ),
    ] = None,
) -> None:
    """Run SQL on a gateway, or talk to it in a shell."""
    with exit_on_error():
        from lance_gateway.gateway.cli.client import GatewayClient  # noqa: PLC0415 - keeps --help and --version quick
        from lance_gateway.gateway.cli.shell import Quit, Shell, create_prompt_session  # noqa: PLC0415

        login = create_login(user, password, token, tls_ca, tls_certificate, tls_key)
        with GatewayClient(uri, login) as client:
            given = {"consistency": consistency, "shortcuts": shortcuts}
            chosen = {name: value for name, value in given.items() if value is not None}
            if chosen:
                client.set_options(chosen)
            if follow and output_format is Format.TABLE:
                output_format = Format.JSON
            shell = Shell(client, sys.stdout, sys.stderr, output_format, max_rows, follows=bool(follow))
            if statement is None and sys.stdin.isatty():
                typer.echo(
                    f"lance-gateway {version('lance-gateway')}, connected to {uri}; help shows what there is."
                )
                shell.timing = True
                shell.interact(create_prompt_session())
                return
            try:
                succeeded = shell.execute(sys.stdin.read() if statement is None else statement)
            except Quit:
                return
        if not succeeded:
            raise typer.Exit(1)
