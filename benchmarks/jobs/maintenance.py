"""Maintenance jobs on a table of ever more regions: status, snapshot, and the search for garbage."""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.report import Finding, format_milliseconds
from benchmarks.reports.timing import interleave, time_call
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table, generate_new_keys
from lance_gateway.pipeline.cleaning import clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.pipeline.status import read_status

_BASE_ROWS = 1_000
_WRITTEN = 4
"""Regions with a generation; the others have a manifest and nothing else."""


def run(context: BenchContext) -> Iterator[Finding]:
    """Each job on tables of so many regions, against the smallest of them."""
    rounds = max(1, context.settings.rounds // 5)
    at_first: dict[str, float] = {}
    first = context.settings.region_counts[0]
    for regions in context.settings.region_counts:
        with create_scratch(context.settings) as directory:
            table = _create_table(directory / "root", regions)
            taken = time_call(lambda table=table: snapshot(table)) * 1e3  # type: ignore[misc]
            jobs: dict[str, Callable[[int], object]] = {
                "status": lambda _, table=table: read_status(table),  # type: ignore[misc]
                "snapshot (nothing new)": lambda _, table=table: snapshot(table),  # type: ignore[misc]
                "clean (dry run)": lambda _, table=table: clean(table),  # type: ignore[misc]
            }
            samples = interleave(jobs, rounds=rounds)
        medians = {"first snapshot": taken, **{name: samples.median_ms(name) for name in jobs}}
        for name, median in medians.items():
            at_first.setdefault(name, median)
            yield Finding(
                f"{name} of {regions:,} region{'s' if regions > 1 else ''}",
                format_milliseconds(median),
                f"{first:,}: {format_milliseconds(at_first[name])}",
                median / at_first[name],
                note=f"{median / regions * 1e3:,.0f} us a region" if regions > first else "",
            )


def _create_table(root: Path, regions: int) -> LakeTable:
    shape = WriteShape(_BASE_ROWS, regions)
    table = create_table(root, shape)
    dataset = table.open()
    parts = table.split(shape.rows_of(generate_new_keys(shape, 0, 100 * regions)))
    for region, rows in list(zip(table.regions, parts, strict=True))[:_WRITTEN]:
        with dataset.mem_wal_writer(region) as writer:
            writer.put(rows)
    lake_table = LakeTable.at(table.uri)
    found = len(read_status(lake_table).regions)
    if found != regions:
        raise WrongAnswerError(f"status tells of {found} regions instead of {regions}")
    return lake_table
