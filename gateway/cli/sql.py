"""`lance-gateway sql`: a statement, a script or a shell."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.failures import failing
from gateway.cli.render import Format


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="What to run; without it, a shell (or the script on stdin).")
    ] = None,
    uri: Annotated[
        str, typer.Option(help="Address of the gateway; grpc+tls://... is encrypted.")
    ] = "grpc://127.0.0.1:31337",
    user: Annotated[
        str | None,
        typer.Option(
            help="User name; the password is asked for, or taken from the variable LANCE_GATEWAY_PASSWORD."
        ),
    ] = None,
    password: Annotated[
        str | None,
        typer.Option(
            help="Password, which others on this machine may see here: prefer the variable.",
            envvar="LANCE_GATEWAY_PASSWORD",
            show_envvar=False,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Bearer token; prefer the variable LANCE_GATEWAY_TOKEN.",
            envvar="LANCE_GATEWAY_TOKEN",
            show_envvar=False,
        ),
    ] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(help="PEM file of the authorities that the server's certificate may come from."),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM file of a client certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file of the key of the certificate.")] = None,
    output_format: Annotated[
        Format, typer.Option("--format", help="How to write the result.")
    ] = Format.TABLE,
    consistency: Annotated[
        str | None, typer.Option(help="strong, flushed or snapshot; the server's default is strong.")
    ] = None,
    shortcuts: Annotated[
        str | None,
        typer.Option(help="all, none, or the names of the engine's shortcuts that stay on, with commas."),
    ] = None,
    max_rows: Annotated[
        int, typer.Option(min=1, help="Rows that a table shows; the others are counted.")
    ] = 100,
) -> None:
    """Run SQL on a gateway, or talk to it in a shell."""
    with failing():
        from gateway.cli.client import GatewayClient, Login  # noqa: PLC0415 - keeps --help and --version quick
        from gateway.cli.shell import Quit, Shell, prompt_session  # noqa: PLC0415

        if user is None:
            # The variable may be set for other calls.
            password = None
        elif password is None and sys.stdin.isatty():
            password = str(typer.prompt(f"Password of {user}", hide_input=True))
        login = Login(user, password, None if user else token, tls_ca, tls_certificate, tls_key)
        with GatewayClient(uri, login) as client:
            given = {"consistency": consistency, "shortcuts": shortcuts}
            chosen = {name: value for name, value in given.items() if value is not None}
            if chosen:
                client.set_options(chosen)
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
