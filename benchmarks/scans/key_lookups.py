"""Lookups of keys as new SQL text, by engines that have kept nothing, over tables of several sizes."""

import time
from collections.abc import Iterator
from typing import Final

import lance
import numpy as np

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import Samples, time_call
from benchmarks.tables.key_tables import KINDS, NAME, KeyTable, ensure_key_table
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.keys import LOOKUPS_BEFORE
from lance_gateway.planner.tables.state.catalog import Catalog

LIMIT_MS: Final = 5
_SIDES: Final = ("gateway", "to_table")


def measure(context: BenchContext) -> Iterator[Finding]:
    """Look up rows of each table through its index on the key, which upkeep has made."""
    for rows in context.settings.key_counts:
        for kind in KINDS:
            yield _measure_table(ensure_key_table(context.settings.data_dir, kind, rows), context)


def _measure_table(table: KeyTable, context: BenchContext) -> Finding:
    """Time lookups in groups, each by an engine that is new and has answered one lookup.

    A group is so short that the engine has not begun to keep all keys of the table.
    """
    seconds: dict[str, list[float]] = {side: [] for side in _SIDES}
    first: list[float] = []
    numbers = table.draw_numbers(context.settings.lookup_rounds, seed=2)
    size = LOOKUPS_BEFORE - 1
    for start in range(0, len(numbers), size):
        group = numbers[start : start + size]
        dataset = lance.dataset(table.uri)
        began = time.perf_counter()
        engine = QueryEngine(Catalog.open(str(table.root)))
        try:
            _look_up(engine, table, group[0])
            first.append(time.perf_counter() - began)
            for number in group[1:]:
                condition = table.format_condition(number)
                seconds["gateway"].append(_look_up(engine, table, number))
                seconds["to_table"].append(time_call(lambda: dataset.to_table(filter=condition)))  # noqa: B023
        finally:
            engine.close()
    samples = Samples({side: np.array(values or [0.0]) for side, values in seconds.items()})
    value = samples.median_ms("gateway")
    return Finding(
        f"point lookup of new text, {table.rows:,} rows, {table.kind}",
        format_milliseconds(value),
        f"ds.to_table {format_milliseconds(samples.median_ms('to_table'))}",
        value,
        "ms",
        Bar(LIMIT_MS),
        f"p99 {format_milliseconds(samples.percentile_ms('gateway', 99))}; "
        f"opening the table and the first lookup {format_milliseconds(float(np.median(first)) * 1e3)}",
    )


def _look_up(engine: QueryEngine, table: KeyTable, number: int) -> float:
    """Return the seconds that a lookup takes; its answer is checked."""
    sql = f"SELECT * FROM {NAME} WHERE {table.format_condition(number)}"
    began = time.perf_counter()
    found = engine.execute(sql).read_all()
    seconds = time.perf_counter() - began
    rows = [(row["number"], row["turn"] > 0) for row in found.to_pylist()]
    if rows != [(number, table.is_fresh(number))]:
        raise WrongAnswerError(f"row {number} of {table.uri} is read as {found.to_pylist()}")
    return seconds
