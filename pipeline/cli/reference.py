"""`lance-gateway pipeline reference`."""

import typer


def reference() -> None:
    """Print the reference of all keys of jobs, in Markdown."""
    from pipeline.cli.settings_reference import text  # noqa: PLC0415 - keeps --help quick

    typer.echo(text(), nl=False)
