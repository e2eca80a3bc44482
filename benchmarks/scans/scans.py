"""Scans over the whole table with a warm engine: group-by, filtered scan, count(*)."""

from collections.abc import Iterator

from benchmarks.reports.baselines import BaseOnly
from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import COUNT, FILTERED, GROUP_BY
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Samples, interleave


def run(context: BenchContext) -> Iterator[Finding]:
    """Time the three scans against the floor."""
    table = context.open_main_table()
    floor = BaseOnly(table.uri)
    engine = open_engine(table)
    try:
        table.answers.check_group_by(engine.execute(GROUP_BY).read_all())
        table.answers.check_filtered(engine.execute(FILTERED).read_all())
        table.answers.check_count(engine.execute(COUNT).read_all().column(0)[0].as_py())

        def measure_against_floor(sql: str) -> Samples:
            candidates = {
                "gateway": lambda _: engine.execute(sql).read_all(),
                "floor": lambda _: floor.query(sql),
            }
            return interleave(candidates, rounds=context.settings.rounds, warmups=2)

        yield _build_finding("group-by scan, warm", measure_against_floor(GROUP_BY), Bar(1.5))
        yield _build_finding("filtered scan", measure_against_floor(FILTERED), Bar(1.2))
        count = measure_against_floor(COUNT)
    finally:
        engine.close()
    count_ms, floor_ms = count.median_ms("gateway"), count.median_ms("floor")
    yield Finding(
        "count(*)",
        format_milliseconds(count_ms),
        f"base only {format_milliseconds(floor_ms)}",
        count_ms,
        "ms",
        Bar(5),
    )


def _build_finding(title: str, samples: Samples, bar: Bar) -> Finding:
    floor = f"base only {format_milliseconds(samples.median_ms('floor'))}"
    ratio = samples.ratio("gateway", "floor")
    return Finding(title, format_milliseconds(samples.median_ms("gateway")), floor, ratio, "x", bar)
