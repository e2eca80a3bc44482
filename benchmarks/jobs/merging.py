"""Merging generations into the base table: throughput, batches, and what many generations and regions cost.

The peer is a bare `merge_insert` of the same newest rows, which somebody has found beforehand and holds in
memory: no generations are read, nothing is resolved, and no progress is kept.
"""

from collections.abc import Iterator, Sequence

from benchmarks.reports.context import BenchContext
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.tables.pending_table import create_pending, interleave_copies
from benchmarks.tables.write_table import WriteShape, WriteTable, create_scratch
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import MergePolicy, merge

_REGIONS = 4
_ROUNDS = 5
_SMALL_BASE = 100_000
_SMALL_ROWS = 2_000
_CURVE_ROWS = 20_000
_MOST = 100
"""Generations or regions of a curve."""


def run(context: BenchContext) -> Iterator[Finding]:
    """Against `merge_insert`, small generations together and one by one, then the curves."""
    yield _compare_with_merge_insert(context)
    yield _merge_together(context)
    yield from _measure_curves(context)


def _compare_with_merge_insert(context: BenchContext) -> Finding:
    shape = WriteShape(context.settings.ingest_rows, _REGIONS)
    fresh = max(_ROUNDS, shape.rows // 5)
    with create_scratch(context.settings) as directory:
        pending = create_pending(directory / "root", shape, fresh // _ROUNDS, _ROUNDS)
        rows = pending.newest

        def merge_insert(table: WriteTable) -> None:
            job = table.open().merge_insert(["id"]).when_matched_update_all().when_not_matched_insert_all()
            job.execute(rows)

        samples = interleave_copies(
            pending, {"pipeline": _merge_all, "merge_insert": merge_insert}, _count_rounds(context)
        )

    def rate(side: str) -> str:
        return f"{rows.num_rows / samples.median_ms(side) * 1e3:,.0f} rows/s"

    return Finding(
        f"merge of {rows.num_rows:,} newest rows into {shape.rows:,}",
        rate("pipeline"),
        f"merge_insert {rate('merge_insert')}",
        samples.ratio("merge_insert", "pipeline"),
        bar=Bar(0.8, "at least"),
        note=(
            f"value = throughput; {fresh:,} rows in {_REGIONS * _ROUNDS} generations of {_REGIONS} regions, "
            "half of them new keys; merge_insert is given the newest rows in memory, and the same table"
        ),
    )


def _merge_together(context: BenchContext) -> Finding:
    shape = WriteShape(min(_SMALL_BASE, context.settings.ingest_rows), _REGIONS)
    one_by_one = MergePolicy(batch_rows=1)
    with create_scratch(context.settings) as directory:
        pending = create_pending(directory / "root", shape, _SMALL_ROWS, _ROUNDS)
        samples = interleave_copies(
            pending,
            {
                "together": _merge_all,
                "one by one": lambda table: merge(LakeTable.at(table.uri), one_by_one),
            },
            _count_rounds(context),
        )
    return Finding(
        f"merge of {_REGIONS * _ROUNDS} small generations",
        format_milliseconds(samples.median_ms("together")),
        f"one by one {format_milliseconds(samples.median_ms('one by one'))}",
        samples.ratio("one by one", "together"),
        bar=Bar(3, "at least"),
        note=(
            f"value = speed-up; {_SMALL_ROWS // _REGIONS:,} rows each, {_REGIONS} regions, "
            f"a base of {shape.rows:,}"
        ),
    )


def _measure_curves(context: BenchContext) -> Iterator[Finding]:
    """Merge the same rows from ever more generations of one region, and from ever more regions."""
    settings = context.settings
    generations = [count for count in settings.generation_counts if count <= _MOST]
    regions = [count for count in settings.region_counts if count <= _MOST]
    curves = []
    for kind, counts in (("generation", generations), ("region", regions)):
        points = [(count, _measure_merge_ms(context, kind, count)) for count in counts]
        yield from _build_findings(kind, points)
        curves.append(Curve(f"{kind}s", [(float(x), y) for x, y in points], dashed=kind == "region"))
    title = f"Merge of {_CURVE_ROWS:,} rows into {_SMALL_BASE:,}"
    ticks = sorted({*generations, *regions})
    Plot(title, "generations, or regions of one each", "median (ms)", curves, "xy", ticks).write(
        settings.plots_dir / "merging.svg"
    )


def _measure_merge_ms(context: BenchContext, kind: str, count: int) -> float:
    regions, rounds = (1, count) if kind == "generation" else (count, 1)
    shape = WriteShape(min(_SMALL_BASE, context.settings.ingest_rows), regions)
    with create_scratch(context.settings) as directory:
        pending = create_pending(directory / "root", shape, max(1, _CURVE_ROWS // rounds), rounds)
        return interleave_copies(pending, {"merge": _merge_all}, _count_rounds(context)).median_ms("merge")


def _build_findings(kind: str, points: Sequence[tuple[int, float]]) -> Iterator[Finding]:
    first, at_first = points[0]
    for count, median in points:
        yield Finding(
            f"merge of {_CURVE_ROWS:,} rows in {count:,} {kind}{'s' if count > 1 else ''}",
            format_milliseconds(median),
            f"{first:,}: {format_milliseconds(at_first)}",
            median / at_first,
        )


def _merge_all(table: WriteTable) -> None:
    merge(LakeTable.at(table.uri))


def _count_rounds(context: BenchContext) -> int:
    return max(1, context.settings.rounds // 5)
