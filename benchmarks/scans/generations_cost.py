"""The same number of fresh rows in 1, 10 and 100 generations of one region."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import lance
import pyarrow as pa

from benchmarks.reports.baselines import BaseOnly
from benchmarks.reports.context import BenchContext, open_engine
from benchmarks.reports.queries import GROUP_BY, LOOKUP
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Samples, interleave
from benchmarks.tables.table import BenchTable, TableShape


def run(context: BenchContext) -> Iterator[Finding]:
    """Per generation count, on a fifth of the rows: first and warm group-by, prepared point lookup."""
    settings = context.settings
    rows = max(1_000, settings.rows // 5)
    for generations in settings.generation_counts:
        fresh = max(generations, round(rows * settings.upsert_fraction))
        table = context.open_table(TableShape(rows, fresh, generations, regions=1))
        yield from _measure(context, table, f"{generations} generation{'s' if generations > 1 else ''}")


def _measure(context: BenchContext, table: BenchTable, label: str) -> Iterator[Finding]:
    settings = context.settings
    first = _touch_first(table, settings.rounds)
    floor = BaseOnly(table.uri)
    engine = open_engine(table)
    try:
        table.answers.check_group_by(engine.execute(GROUP_BY).read_all())
        scans = interleave(
            {
                "gateway": lambda _: engine.execute(GROUP_BY).read_all(),
                "floor": lambda _: floor.query(GROUP_BY),
            },
            rounds=settings.rounds,
        )
        dataset = lance.dataset(table.uri)
        prepared = engine.prepare(LOOKUP)
        keys = table.draw_keys(settings.lookup_rounds, seed=3)
        lookups = interleave(
            {
                "gateway": lambda number: prepared.execute((pa.scalar(keys[number], pa.int64()),)).read_all(),
                "to_table": lambda number: dataset.to_table(filter=f"id = {keys[number]}"),
            },
            rounds=settings.lookup_rounds,
            warmups=5,
        )
    finally:
        engine.close()
    yield Finding(
        f"first group-by of an engine, {label}",
        format_milliseconds(first.median_ms("gateway")),
        f"base only {format_milliseconds(first.median_ms('floor'))}",
        first.ratio("gateway", "floor"),
        bar=Bar(3),
        note=f"{settings.rounds} fresh engines and contexts; opening the table counts",
    )
    for title, samples, other, name in (
        ("group-by scan", scans, "floor", "base only"),
        ("point lookup in process", lookups, "to_table", "ds.to_table"),
    ):
        against = f"{name} {format_milliseconds(samples.median_ms(other))}"
        gateway = format_milliseconds(samples.median_ms("gateway"))
        yield Finding(f"{title}, {label}", gateway, against, samples.ratio("gateway", other))


def _touch_first(table: BenchTable, rounds: int) -> Samples:
    """Time a fresh engine and a fresh handle of Lance in turn: opening the table, and the group-by."""
    with ExitStack() as engines:

        def touch(_: int) -> None:
            engine = engines.enter_context(closing(open_engine(table)))
            engine.execute(GROUP_BY).read_all()

        def touch_base(_: int) -> None:
            BaseOnly(table.uri).query(GROUP_BY)

        return interleave({"gateway": touch, "floor": touch_base}, rounds=rounds)
