"""`lance-gateway pipeline merge`."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.failing import failing
from pipeline.cli.options import Root, StorageOptions, Tables, storage_options


def merge(
    root: Root,
    tables: Tables = None,
    storage_option: StorageOptions = None,
    min_generations: Annotated[
        int, typer.Option(help="Leave tables with fewer pending generations alone.")
    ] = 1,
    batch_rows: Annotated[int, typer.Option(help="Rows of one commit, about.")] = 5_000_000,
) -> None:
    """Merge flushed generations into the base table."""
    with failing():
        from pipeline.lake import Lake  # noqa: PLC0415 - keeps --help quick
        from pipeline.merging import MergePolicy  # noqa: PLC0415
        from pipeline.merging import merge as run  # noqa: PLC0415
        from pipeline.progress import on_terminal  # noqa: PLC0415

        policy = MergePolicy(min_generations, batch_rows)
        for table in Lake.open(root, storage_options(storage_option)).tables(tables or ()):
            report = run(table, policy, progress=on_terminal)
            rows = sum(one.upserted for one in report.batches)
            deleted = sum(one.deleted for one in report.batches)
            typer.echo(f"{table.name}: {len(report.batches)} commits, {rows} rows, {deleted} deleted")
