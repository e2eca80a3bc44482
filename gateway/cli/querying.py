"""`lance-gateway sql`: a statement, a script or a shell."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from gateway.cli.failing import failing
from gateway.render import Format


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
    with failing():
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
