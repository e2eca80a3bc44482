"""From the acknowledgement of a row to the first answer that has it, on another gateway and on the same."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import COUNT, LOOKUP
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.servers.server import start_gateway
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table
from benchmarks.writes.write_load import BOUND

_SHAPE = WriteShape(100_000, regions=4)
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Lags:
    """Seconds from acknowledgement to sight, and how many queries that took, of each row."""

    seconds: list[float] = field(default_factory=list)
    queries: list[int] = field(default_factory=list)

    def watch(self, is_seen: Callable[[], bool]) -> None:
        """Ask until the row is seen; to be called at once when it was acknowledged."""
        acknowledged = time.perf_counter()
        asked = 1
        while not is_seen():
            asked += 1
            if time.perf_counter() - acknowledged > _PATIENCE_SECONDS:
                raise WrongAnswerError(f"a row that was acknowledged {_PATIENCE_SECONDS:g} s ago is not seen")
        self.seconds.append(time.perf_counter() - acknowledged)
        self.queries.append(asked)

    def percentile_ms(self, percentile: float) -> float:
        """Return a percentile (0-100) in milliseconds."""
        return float(np.percentile(self.seconds, percentile)) * 1e3


def run(context: BenchContext) -> Iterator[Finding]:
    """Insert rows through one gateway, and look for them with queries that take turns."""
    first_key = _SHAPE.rows + 1_000
    with create_scratch(context.settings) as directory, ExitStack() as stack:
        table = create_table(directory / "root", _SHAPE)
        cursors = []
        for _ in range(2):
            server = stack.enter_context(start_gateway(table.root))
            connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
            cursors.append([stack.enter_context(connection.cursor()) for _ in range(3)])
        (inserting, near_lookup, near_count), (_, far_lookup, far_count) = cursors

        def has_key(cursor: flight_sql.Cursor, key: int) -> bool:
            cursor.execute(LOOKUP, (key,))
            return bool(cursor.fetch_arrow_table().num_rows == 1)

        def counts(cursor: flight_sql.Cursor, rows: int) -> bool:
            cursor.execute(COUNT)
            return bool(cursor.fetchone() == (rows,))

        lags = {title: _Lags() for title in ("far key", "far count", "near key", "near count")}
        rounds, warmups = context.settings.lookup_rounds, 8
        for number in range(-warmups, rounds):
            key, rows = first_key + number, _SHAPE.rows + warmups + number + 1
            if number == 0:
                lags = {title: _Lags() for title in lags}
            sights = {
                "far key": lambda key=key: has_key(far_lookup, key),
                "far count": lambda rows=rows: counts(far_count, rows),
                "near key": lambda key=key: has_key(near_lookup, key),
                "near count": lambda rows=rows: counts(near_count, rows),
            }
            title = list(sights)[number % len(sights)]
            inserting.execute(BOUND.sql, (key,))
            lags[title].watch(sights[title])
    for title, place, query in (
        ("far key", "another gateway", "by key"),
        ("far count", "another gateway", "by count(*)"),
        ("near key", "the same gateway", "by key"),
        ("near count", "the same gateway", "by count(*)"),
    ):
        yield _build_finding(f"acknowledged to visible on {place}, {query}", lags[title])


def _build_finding(title: str, lags: _Lags) -> Finding:
    p50, p99 = lags.percentile_ms(50), lags.percentile_ms(99)
    at_once = sum(queries == 1 for queries in lags.queries)
    return Finding(
        f"{title}, p99",
        format_milliseconds(p99),
        f"p50 {format_milliseconds(p50)}",
        p99,
        "ms",
        Bar(100),
        f"the first query after the acknowledgement saw {at_once:,} of {len(lags.queries):,} rows; "
        "what is measured is how long it took",
    )
