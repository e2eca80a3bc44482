"""The command line."""

from importlib.metadata import version
from typing import Annotated

import typer

from lance_gateway.gateway.cli import commands, security
from lance_gateway.pipeline.cli import app as pipeline_app
from lance_gateway.pipeline.cli import backups

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


app.command("serve")(commands.serve)
app.command("health")(commands.health)
app.command("sql")(commands.sql)
app.command("mcp")(commands.mcp)
app.command("backup")(backups.backup)
app.command("restore")(backups.restore)
app.add_typer(commands.app, name="config")
app.add_typer(security.users, name="user")
app.add_typer(security.tokens, name="token")
app.add_typer(security.policies, name="policy")
app.add_typer(pipeline_app, name="pipeline")


def main() -> None:
    """Entry point of the console script."""
    app()
