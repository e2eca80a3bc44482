"""The latency of an INSERT of a row, by the number of open regions and by the length of the log."""

from collections.abc import Callable, Iterator

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.plots import Curve, Plot
from benchmarks.reports.queries import COUNT, LOOKUP
from benchmarks.reports.report import Finding, format_milliseconds
from benchmarks.reports.timing import Candidate, interleave, time_call
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table, generate_new_keys
from benchmarks.writes.write_load import BOUND
from benchmarks.writes.write_sides import open_cursors, serve_table

_ROWS = 100_000
_KEYS_A_REGION = 200
_LEAST_INSERTS = 60
_ROUNDS = 20


def run(context: BenchContext) -> Iterator[Finding]:
    """Draw `writes-regions.svg`, then lets one region's log grow."""
    yield from _measure_by_regions(context)
    yield from _measure_by_log(context)


def _measure_by_regions(context: BenchContext) -> Iterator[Finding]:
    """Insert into one region after the other: the first row of a region claims it, the next find it open."""
    counts = context.settings.writer_counts
    opened: list[tuple[float, float]] = []
    claimed: list[tuple[float, float]] = []
    for regions in counts:
        claim, insert = _measure_inserts(context, regions)
        claimed.append((regions, claim))
        opened.append((regions, insert))
        label, (_, at_first) = f"{regions:,} region{'s' if regions > 1 else ''}", opened[0]
        against = f"{counts[0]:,}: {format_milliseconds(at_first)}"
        yield Finding(f"INSERT of a row, {label}", format_milliseconds(insert), against, insert / at_first)
        yield Finding(
            f"INSERT that claims its region, {label}",
            format_milliseconds(claim),
            f"then {format_milliseconds(insert)}",
            claim,
            "ms",
        )
    curves = [Curve("region is open", opened), Curve("first row of a region", claimed, dashed=True)]
    plot = Plot("INSERT of a row by ADBC", "regions", "median (ms)", curves, "xy", counts)
    plot.write(context.settings.plots_dir / "writes-regions.svg")


def _measure_inserts(context: BenchContext, regions: int) -> tuple[float, float]:
    """Return the median milliseconds of the first row of each region, and of further ones."""
    shape = WriteShape(1_000, regions)
    with create_scratch(context.settings) as directory:
        table = create_table(directory / "root", shape)
        parts = table.split(shape.rows_of(generate_new_keys(shape, 0, _KEYS_A_REGION * regions)))
        keys = [part["id"].to_pylist() for part in parts]
        with open_cursors(directory / "root") as cursors:
            cursor = cursors()

            def insert(turn: int) -> float:
                """Insert a row into the region whose turn it is; return the seconds."""
                key = keys[turn % regions][turn // regions]
                return time_call(lambda: cursor.execute(BOUND.sql, (key,)))

            claims = [insert(turn) for turn in range(regions)]
            inserts = [insert(regions + turn) for turn in range(max(regions, _LEAST_INSERTS))]
    return float(np.median(claims)) * 1e3, float(np.median(inserts)) * 1e3


def _measure_by_log(context: BenchContext) -> Iterator[Finding]:
    """One region whose log grows: INSERTs, lookups and counts when so many entries are not flushed."""
    shape, counts = WriteShape(min(_ROWS, context.settings.rows), 1), context.settings.unflushed_counts
    with create_scratch(context.settings) as directory, serve_table(directory / "root", shape) as cursors:
        log = _GrowingLog(cursors, shape)
        at_first: dict[str, float] = {}
        for wanted in counts:
            log.grow_to(wanted)
            sides: dict[str, Candidate] = {
                "INSERT of a row": log.insert,
                "point lookup": log.look_up,
                "count(*)": log.count,
            }
            samples = interleave(sides, rounds=_ROUNDS, warmups=2)
            for name in sides:
                median = samples.median_ms(name)
                first = at_first.setdefault(name, median)
                yield Finding(
                    f"{name} by ADBC, {wanted:,} log entries not flushed",
                    format_milliseconds(median),
                    f"{counts[0]:,}: {format_milliseconds(first)}",
                    median / first,
                )


class _GrowingLog:
    """A region into which single rows are inserted.

    Args:
        cursors: gives new ones.
        shape: of the table.
    """

    def __init__(self, cursors: Callable[[], flight_sql.Cursor], shape: WriteShape) -> None:
        self._inserting, self._looking, self._counting = cursors(), cursors(), cursors()
        self._shape = shape
        self._entries = 0

    def grow_to(self, entries: int) -> None:
        """Insert rows until there are so many."""
        while self._entries < entries:
            self.insert()

    def insert(self, _: int = 0) -> None:
        """One more row."""
        self._entries += 1
        self._inserting.execute(BOUND.sql, (self._shape.rows + self._entries,))

    def look_up(self, number: int) -> None:
        """A row of the base."""
        self._looking.execute(LOOKUP, (number % self._shape.rows,))
        if self._looking.fetch_arrow_table().num_rows != 1:
            raise WrongAnswerError(f"key {number % self._shape.rows} has other than one row")

    def count(self, _: int) -> None:
        """All rows."""
        self._counting.execute(COUNT)
        rows, expected = self._counting.fetchone(), (self._shape.rows + self._entries,)
        if rows != expected:
            raise WrongAnswerError(f"{rows} rows are counted instead of {expected}")
