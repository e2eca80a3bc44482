"""The command line: `lance-gateway serve` and `lance-gateway sql`."""

import logging
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from gateway.render import Format
from memwal.errors import InvalidInputError, LanceGatewayError

app = typer.Typer(
    name="lance-gateway",
    help="Full SQL over fresh Lance data, through Arrow Flight SQL.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer calls it so
    if value:
        typer.echo(f"lance-gateway {version('lance-gateway')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[  # noqa: FBT002 - an option on the command line
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave."),
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    root: Annotated[str, typer.Option(help="Directory or s3://bucket/prefix with <name>.lance tables.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.")] = 31337,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Option of the object store, as Lance names it; may be repeated."
        ),
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(help="How long running streams may go on after a signal to stop.")
    ] = 30.0,
    log_level: Annotated[
        str, typer.Option(help="DEBUG, INFO, WARNING or ERROR; logs go to stderr.")
    ] = "INFO",
) -> None:
    """Serve the tables of a directory until SIGINT or SIGTERM."""
    # gRPC's own complaints repeat ours in worse words. Read when the library is loaded, hence imported here.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with _failing():
        _log_to_stderr(log_level)
        # Loads pylance, DataFusion and gRPC: the client commands do without the first two.
        from gateway.serve import ServeOptions  # noqa: PLC0415
        from gateway.serve import serve as run  # noqa: PLC0415

        run(ServeOptions(root, host, port, _storage_options(storage_option or []), drain_seconds))


@app.command()
def sql(
    statement: Annotated[
        str | None, typer.Argument(help="What to run; without it, a shell (or the script on stdin).")
    ] = None,
    uri: Annotated[str, typer.Option(help="Address of the gateway.")] = "grpc://127.0.0.1:31337",
    output_format: Annotated[
        Format, typer.Option("--format", help="How to write the result.")
    ] = Format.TABLE,
    consistency: Annotated[
        str | None, typer.Option(help="strong, flushed or snapshot; the server's default is strong.")
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows that a table shows; the others are counted.")
    ] = 100,
) -> None:
    """Run SQL on a gateway, or talk to it in a shell."""
    with _failing():
        from gateway.client import GatewayClient  # noqa: PLC0415 - keeps --help and --version quick
        from gateway.shell import Quit, Shell, prompt_session  # noqa: PLC0415

        with GatewayClient(uri) as client:
            if consistency is not None:
                client.set_options({"consistency": consistency})
            shell = Shell(client, sys.stdout, sys.stderr, output_format, max_rows)
            if statement is None and sys.stdin.isatty():
                typer.echo(
                    f"lance-gateway {version('lance-gateway')}, connected to {uri}; help shows what there is."
                )
                shell.timing = True
                shell.interact(prompt_session())
                return
            try:
                succeeded = shell.execute(sys.stdin.read() if statement is None else statement)
            except Quit:
                return
        if not succeeded:
            raise typer.Exit(1)


class _failing:  # noqa: N801 - reads as a statement
    """Ends the program with one line on stderr and status 1 when its block fails in a known way."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, typer.Exit):
            return
        import pyarrow as pa  # noqa: PLC0415 - only needed for its exceptions

        if isinstance(error, LanceGatewayError):
            text = str(error)
        elif isinstance(error, pa.ArrowException):
            from gateway.client import error_text  # noqa: PLC0415

            text = error_text(error)
        else:
            return
        typer.echo("error: " + " ".join(text.split()), err=True)
        raise typer.Exit(1) from None


def _storage_options(pairs: list[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInputError(f"--storage-option {pair!r} is no pair: write it as KEY=VALUE")
        options[key] = value
    return options


def _log_to_stderr(level: str) -> None:
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise InvalidInputError(f"--log-level {level!r} does not exist: choose DEBUG, INFO, WARNING or ERROR")
    logging.basicConfig(
        stream=sys.stderr, level=number, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def main() -> None:
    """Entry point of the console script."""
    app()
