"""`lance-gateway config`: what the configuration says, and whether a gateway can start with it."""

import typer

from gateway.cli.failures import failing
from gateway.cli.flags import ConfigFile, Root, Sets, flags_of
from pipeline.cli.options import StorageOptions

app = typer.Typer(help="Check, show and explain the configuration.", no_args_is_help=True)


@app.command()
def check(
    root: Root = None, config: ConfigFile = None, storage_option: StorageOptions = None, sets: Sets = None
) -> None:
    """Check that a gateway can start with this configuration; every problem is one line."""
    with failing():
        from gateway.config.loader import ConfigError, load  # noqa: PLC0415
        from gateway.start.check import problems  # noqa: PLC0415 - keeps --help quick

        try:
            found = problems(load(flags_of(root, storage_option, sets), config))
        except ConfigError as error:
            found = list(error.problems)
        for problem in found:
            typer.echo(f"error: {problem}", err=True)
        if found:
            raise typer.Exit(1)
        typer.echo("the configuration is good")


@app.command()
def show(
    root: Root = None, config: ConfigFile = None, storage_option: StorageOptions = None, sets: Sets = None
) -> None:
    """Show the values in effect, each with where it comes from; credentials are left out."""
    with failing():
        from gateway.config.effective_values import lines  # noqa: PLC0415
        from gateway.config.loader import load  # noqa: PLC0415

        for line in lines(load(flags_of(root, storage_option, sets), config)):
            typer.echo(line)


@app.command()
def reference() -> None:
    """Print the reference of all keys, in Markdown."""
    from gateway.config.reference import text  # noqa: PLC0415

    typer.echo(text(), nl=False)
