"""Point lookups in process: a prepared statement against Lance's own two ways, and new texts by size."""

from collections.abc import Iterator

import lance
import pyarrow as pa

from benchmarks.reports.answers import check_same_row
from benchmarks.reports.baselines import LsmLookups
from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import LOOKUP
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Samples, interleave
from benchmarks.scans import key_lookups


def run(context: BenchContext) -> Iterator[Finding]:
    """Look up the same random keys on all three sides, half of them fresh and half in the base only.

    `ds.to_table(filter=)` reads the base alone, so its answer for a fresh key is stale: a floor, not a peer.
    """
    table = context.open_main_table()
    rounds = context.settings.lookup_rounds
    keys = table.draw_keys(rounds, seed=1)
    dataset = lance.dataset(table.uri)
    peer = LsmLookups(table.uri)
    engine = open_engine(table)
    try:
        prepared = engine.prepare(LOOKUP)

        def gateway(number: int) -> pa.Table:
            return prepared.execute((pa.scalar(keys[number], pa.int64()),)).read_all()

        for number in range(min(rounds, 20)):
            check_same_row(gateway(number), peer.look_up(keys[number]), keys[number])
        samples = interleave(
            {
                "gateway": gateway,
                "to_table": lambda number: dataset.to_table(filter=f"id = {keys[number]}"),
                "planner": lambda number: peer.look_up(keys[number]),
            },
            rounds=rounds,
            warmups=5,
        )
    finally:
        engine.close()
    yield _build_finding("point lookup in process against ds.to_table", samples, "to_table", Bar(2))
    yield _build_finding(
        "point lookup in process against LsmPointLookupPlanner", samples, "planner", Bar(10, "at least")
    )
    for name, first in (("base-only keys", 0), ("fresh keys", 1)):
        half = Samples({side: values[first::2] for side, values in samples.seconds.items()})
        yield _build_finding(f"point lookup in process, {name}, against ds.to_table", half, "to_table", None)
    yield from key_lookups.measure(context)


def _build_finding(title: str, samples: Samples, against: str, bar: Bar | None) -> Finding:
    names = {"to_table": "ds.to_table", "planner": "LsmPointLookupPlanner"}
    faster = bar is not None and bar.kind == "at least"
    ratio = samples.ratio(against, "gateway") if faster else samples.ratio("gateway", against)
    other = f"{names[against]} {format_milliseconds(samples.median_ms(against))}"
    p99, other_p99 = (format_milliseconds(samples.percentile_ms(side, 99)) for side in ("gateway", against))
    note = f"p99 {p99} against {other_p99}"
    return Finding(title, format_milliseconds(samples.median_ms("gateway")), other, ratio, "x", bar, note)
