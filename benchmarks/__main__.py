"""`python -m benchmarks`: runs the families and writes the report."""

import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import (
    adbc_lookups,
    first_touch,
    generations_cost,
    lookups,
    memory,
    planning,
    scans,
    streaming,
)
from benchmarks.context import BenchContext, Family
from benchmarks.report import FamilyResult, write_report
from benchmarks.settings import DEFAULT_DATA_DIR, DEFAULT_REPORT, BenchSettings
from memwal.errors import InvalidInputError

FAMILIES: dict[str, Family] = {
    "scans": scans.run,
    "first_touch": first_touch.run,
    "lookups": lookups.run,
    "adbc_lookups": adbc_lookups.run,
    "planning": planning.run,
    "generations_cost": generations_cost.run,
    "streaming": streaming.run,
    "memory": memory.run,
}


def run_families(settings: BenchSettings, names: tuple[str, ...] = (), out: Path = DEFAULT_REPORT) -> None:
    """Runs the named families (or all), prints findings and keeps the report current.

    Raises:
        InvalidInputError: For a name that is no family's.
    """
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        raise InvalidInputError(
            f"no benchmark family named {unknown[0]!r}: choose from {', '.join(FAMILIES)}"
        )
    context = BenchContext(settings)
    results: list[FamilyResult] = []
    for name in names or tuple(FAMILIES):
        print(f"== {name}", flush=True)
        started = time.perf_counter()
        findings = []
        for finding in FAMILIES[name](context):
            findings.append(finding)
            print(f"   {finding.line()}", flush=True)
        results.append(FamilyResult(name, tuple(findings), time.perf_counter() - started))
        write_report(out, settings, results)
    print(f"report: {out}")


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
) -> None:
    """Measures Lance Gateway against its floors and peers, in ratios of one run."""
    try:
        settings = BenchSettings(
            rows=rows,
            upsert_fraction=upsert_fraction,
            generations=generations,
            regions=regions,
            data_dir=data_dir.resolve(),
            rounds=rounds,
            stream_rows=stream_rows,
        )
        run_families(settings, tuple(only or ()), out)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error


if __name__ == "__main__":
    typer.run(main)
