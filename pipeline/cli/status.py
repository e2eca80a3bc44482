"""`lance-gateway pipeline status`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pipeline.cli.failing import failing
from pipeline.cli.options import ConfigFile, RootOrFile, StorageOptions, Tables, storage_options


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
    with failing():
        from memwal.errors import InvalidInputError, LanceGatewayError  # noqa: PLC0415
        from pipeline.cli.settings import load  # noqa: PLC0415
        from pipeline.jobs.lake import Lake  # noqa: PLC0415 - keeps --help quick
        from pipeline.status import TableStatus, read_status  # noqa: PLC0415

        if as_json and prometheus:
            msg = "--json and --prometheus: choose one"
            raise InvalidInputError(msg)
        flags = {"root": root, "storage_options": storage_options(storage_option) or None}
        settings = load(flags, config)
        found: list[TableStatus] = []
        failures: dict[str, str] = {}
        for table in Lake.open(settings.root, settings.storage_options).tables(tables or ()):
            try:
                found.append(read_status(table))
            except LanceGatewayError as error:
                failures[table.name] = " ".join(str(error).split())
        if as_json:
            from pipeline.status.documents import document  # noqa: PLC0415

            typer.echo(json.dumps(document(found, failures, regions=regions), indent=2))
        elif prometheus:
            from pipeline.status.metrics import exposition  # noqa: PLC0415

            typer.echo(exposition(found, regions=regions), nl=False)
        else:
            from rich.console import Console  # noqa: PLC0415

            from pipeline.status.tables import render  # noqa: PLC0415

            Console().print(render(found, regions=regions))
        for reason in failures.values():
            typer.echo(f"error: {reason}", err=True)
        if failures:
            raise typer.Exit(1)
