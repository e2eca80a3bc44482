"""A key lookup over more and more regions: planning must not grow with the number of pruned regions."""

from collections.abc import Iterator

from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import TABLE_NAME
from benchmarks.reports.report import Finding, format_milliseconds
from benchmarks.reports.timing import Samples, interleave, time_call
from benchmarks.tables.table import TableShape
from lance_gateway.planner.engine import SessionSettings

_BASE_ROWS = 100_000
_FRESH_ROWS = 20_000


def run(context: BenchContext) -> Iterator[Finding]:
    """Plan over the same rows in 1, 10, 100 and 1,000 regions with one generation each.

    Reported per region count: the first query of an engine, EXPLAIN of a key lookup (planning only) and the
    whole lookup as new SQL text each time, with pruning and without.
    """
    first_region_count = context.settings.region_counts[0]
    at_first: Samples | None = None
    for regions in context.settings.region_counts:
        cold_ms, samples = _measure(context, regions)
        at_first = at_first or samples
        label = f"{regions:,} region{'s' if regions > 1 else ''}"
        for name, title in (("explain", "EXPLAIN of a key lookup"), ("lookup", "key lookup as new SQL text")):
            yield Finding(
                f"{title}, {label}",
                format_milliseconds(samples.median_ms(name)),
                f"{first_region_count:,}: {format_milliseconds(at_first.median_ms(name))}",
                samples.median_ms(name) / at_first.median_ms(name),
            )
        yield Finding(
            f"key lookup without region pruning, {label}",
            format_milliseconds(samples.median_ms("unpruned")),
            f"pruned {format_milliseconds(samples.median_ms('lookup'))}",
            samples.ratio("unpruned", "lookup"),
        )
        yield Finding(
            f"first query of a fresh engine, {label}", format_milliseconds(cold_ms), "", cold_ms, "ms"
        )


def _measure(context: BenchContext, regions: int) -> tuple[float, Samples]:
    rounds = max(5, context.settings.lookup_rounds // 5)
    rows = min(_BASE_ROWS, context.settings.rows)
    fresh = max(regions, min(_FRESH_ROWS, rows // 5))
    table = context.open_table(TableShape(rows, fresh, generations=regions, regions=regions))
    keys = table.draw_keys(rounds, seed=2)
    unpruned = SessionSettings(region_pruning=False)

    def lookup(number: int) -> str:
        return f"SELECT * FROM {TABLE_NAME} WHERE id = {keys[number]}"

    engine = open_engine(table)
    try:
        cold = time_call(lambda: engine.execute(lookup(0)).read_all())
        samples = interleave(
            {
                "explain": lambda number: engine.execute(f"EXPLAIN {lookup(number)}").read_all(),
                "lookup": lambda number: engine.execute(lookup(number)).read_all(),
                "unpruned": lambda number: engine.execute(lookup(number), unpruned).read_all(),
            },
            rounds=rounds,
            warmups=3,
        )
    finally:
        engine.close()
    return cold * 1e3, samples
