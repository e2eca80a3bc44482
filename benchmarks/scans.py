"""Scans over the whole table with a warm engine: group-by, filtered scan, count(*)."""

from collections.abc import Iterator

from benchmarks.baselines import base_only_context
from benchmarks.context import BenchContext, open_engine
from benchmarks.queries import COUNT, FILTERED, GROUP_BY
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.timing import Samples, interleave


def run(context: BenchContext) -> Iterator[Finding]:
    """Times the three scans against the floor."""
    table = context.main_table()
    floor = base_only_context(table.uri)
    engine = open_engine(table)
    try:
        table.answers.check_group_by(engine.execute(GROUP_BY).read_all())
        table.answers.check_filtered(engine.execute(FILTERED).read_all())
        table.answers.check_count(engine.execute(COUNT).read_all().column(0)[0].as_py())

        def against_floor(sql: str) -> Samples:
            candidates = {
                "gateway": lambda _: engine.execute(sql).read_all(),
                "floor": lambda _: floor.sql(sql).to_arrow_table(),
            }
            return interleave(candidates, rounds=context.settings.rounds, warmups=2)

        yield _ratio_to_floor("group-by scan, warm", against_floor(GROUP_BY), Bar(1.5))
        yield _ratio_to_floor("filtered scan", against_floor(FILTERED), Bar(1.2))
        count = against_floor(COUNT)
    finally:
        engine.close()
    count_ms, floor_ms = count.median_ms("gateway"), count.median_ms("floor")
    yield Finding(
        "count(*)", milliseconds(count_ms), f"base only {milliseconds(floor_ms)}", count_ms, "ms", Bar(5)
    )


def _ratio_to_floor(title: str, samples: Samples, bar: Bar) -> Finding:
    floor = f"base only {milliseconds(samples.median_ms('floor'))}"
    ratio = samples.ratio("gateway", "floor")
    return Finding(title, milliseconds(samples.median_ms("gateway")), floor, ratio, "x", bar)
