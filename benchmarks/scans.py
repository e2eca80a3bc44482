"""Scans over the whole table with a warm engine: group-by, filtered scan, count(*)."""

from collections.abc import Iterator

import pyarrow as pa

from benchmarks.baselines import base_only_context, lsm_scan
from benchmarks.context import BenchContext, open_engine
from benchmarks.queries import COUNT, FILTERED, FILTERED_QTY, GROUP_BY
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.timing import Samples, interleave, timed


def run(context: BenchContext) -> Iterator[Finding]:
    """Times the three scans against the floor, and two of them against LsmScanner."""
    table = context.main_table()
    rounds = context.settings.rounds
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
            return interleave(candidates, rounds=rounds, warmups=2)

        group_by = against_floor(GROUP_BY)
        filtered = against_floor(FILTERED)
        count = against_floor(COUNT)
    finally:
        engine.close()
    yield _ratio_to_floor("group-by scan, warm", group_by, Bar(1.5))
    yield _ratio_to_floor("filtered scan", filtered, Bar(1.2))
    count_ms, floor_ms = count.median_ms("gateway"), count.median_ms("floor")
    yield Finding(
        "count(*)", milliseconds(count_ms), f"base only {milliseconds(floor_ms)}", count_ms, "ms", Bar(5)
    )

    def lsm_filtered() -> pa.Table:
        return lsm_scan(table.uri, ["id", "price"], f"qty = {FILTERED_QTY}")

    yield _ratio_to_lsm_scanner("filtered scan", filtered, timed(lsm_filtered), None, "LsmScanner ran once")
    yield _ratio_to_lsm_scanner(
        "group-by scan",
        group_by,
        timed(lambda: _lsm_group_by(table.uri)),
        Bar(100, "at least"),
        "LsmScanner ran once over the whole table, then pyarrow aggregated",
    )


def _lsm_group_by(uri: str) -> pa.Table:
    return lsm_scan(uri, ["grp", "price"]).group_by("grp").aggregate([("price", "sum"), ([], "count_all")])


def _ratio_to_floor(title: str, samples: Samples, bar: Bar) -> Finding:
    floor = f"base only {milliseconds(samples.median_ms('floor'))}"
    ratio = samples.ratio("gateway", "floor")
    return Finding(title, milliseconds(samples.median_ms("gateway")), floor, ratio, "x", bar)


def _ratio_to_lsm_scanner(
    title: str, samples: Samples, lsm_seconds: float, bar: Bar | None, note: str
) -> Finding:
    gateway_ms, lsm_ms = samples.median_ms("gateway"), lsm_seconds * 1e3
    against = f"LsmScanner {milliseconds(lsm_ms)}"
    title = f"{title} against LsmScanner"
    return Finding(title, milliseconds(gateway_ms), against, lsm_ms / gateway_ms, "x", bar, note)
