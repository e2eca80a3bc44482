"""`python -m benchmarks`: runs the families and writes the report."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.reports.settings import (
    CURVE_ROWS,
    DEFAULT_DATA_DIR,
    DEFAULT_PLOTS_DIR,
    DEFAULT_REPORT,
    KEY_COUNTS,
    BenchSettings,
)
from benchmarks.suite import FAMILIES, run_families
from lance_gateway.memwal.errors import InvalidInputError


def main(
    *,
    rows: Annotated[int, typer.Option(help="Rows of the base table.")] = 5_000_000,
    upsert_fraction: Annotated[float, typer.Option(help="Fresh rows as a share of the base rows.")] = 0.08,
    generations: Annotated[int, typer.Option(help="Flushed generations over all regions.")] = 20,
    regions: Annotated[int, typer.Option(help="Regions of the main table.")] = 4,
    data_dir: Annotated[Path, typer.Option(help="Where tables are built and kept.")] = DEFAULT_DATA_DIR,
    only: Annotated[
        list[str] | None, typer.Option(help=f"One family; repeatable: {', '.join(FAMILIES)}.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The report to write.")] = DEFAULT_REPORT,
    rounds: Annotated[
        int, typer.Option(help="Repetitions of a scan; lookups repeat 20 times as often.")
    ] = 15,
    stream_rows: Annotated[int, typer.Option(help="Rows streamed while memory is watched.")] = 10_000_000,
    search_rows: Annotated[int, typer.Option(help="Rows of the base tables that are searched.")] = 200_000,
    large_search_rows: Annotated[
        int, typer.Option(help="Rows of the larger one; 0 leaves it out.")
    ] = 1_000_000,
    key_rows: Annotated[
        list[int] | None, typer.Option(help="Rows of a table that is looked up by key; repeatable.")
    ] = None,
    curve_rows: Annotated[
        list[int] | None, typer.Option(help="Rows of a table of the scan curves, ascending; repeatable.")
    ] = None,
    plots_dir: Annotated[Path, typer.Option(help="Where curves are drawn.")] = DEFAULT_PLOTS_DIR,
) -> None:
    """Measure Lance Gateway against its floors and peers, in ratios of one run."""
    try:
        settings = BenchSettings(
            rows=rows,
            upsert_fraction=upsert_fraction,
            generations=generations,
            regions=regions,
            data_dir=data_dir.resolve(),
            rounds=rounds,
            stream_rows=stream_rows,
            search_rows=search_rows,
            large_search_rows=large_search_rows,
            plots_dir=plots_dir,
            key_counts=tuple(key_rows or KEY_COUNTS),
            curve_rows=tuple(curve_rows or CURVE_ROWS),
        )
        run_families(settings, tuple(only or ()), out)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
