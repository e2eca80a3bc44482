"""The change feed: what changed between two states, and how soon followers are told of what is written."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import adbc_driver_flightsql.dbapi as flight_sql
import lance
import numpy as np
import numpy.typing as npt

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import TABLE_NAME
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave
from benchmarks.servers.load import connect_clients
from benchmarks.servers.server import start_gateway
from benchmarks.tables.write_table import WriteShape, WriteTable, create_scratch, create_table
from benchmarks.writes.followers import follow
from benchmarks.writes.write_load import BOUND, InsertingClient

_SHAPE = WriteShape(10_000, regions=1)
_COUNTS = (1, 32)
_WRITES_PER_SECOND = 10
_KEYS_APART = 1_000_000
_CHANGES = f"SELECT count(*) FROM lance_changes('{TABLE_NAME}', since => {{version}})"
_COMPARED = (
    f"SELECT count(*) FROM (SELECT id, price FROM {TABLE_NAME} FOR VERSION AS OF {{version}}) AS older "
    f"FULL JOIN (SELECT id, price FROM {TABLE_NAME}) AS newer ON older.id = newer.id "
    "WHERE older.price IS DISTINCT FROM newer.price"
)


def run(context: BenchContext) -> Iterator[Finding]:
    """Compare two states, then follow what is written."""
    yield from _measure_net(context)
    for count in _COUNTS:
        yield _measure_lag(context, count, on="the same gateway", bar=Bar(100) if count == 1 else None)
    yield _measure_lag(context, 1, on="another gateway", bar=Bar(300))
    yield from _measure_writers(context)


def _measure_net(context: BenchContext) -> Iterator[Finding]:
    """Changes of rows that are not merged, against a join that compares all rows of both states."""
    table = context.open_main_table()
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(table.root))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        version = lance.dataset(table.uri).version

        def ask(sql: str) -> int:
            cursor.execute(sql.format(version=version))
            ((count,),) = cursor.fetchall()
            return int(count)

        changes, updated = ask(_CHANGES), ask(_COMPARED)
        if changes != 2 * updated:
            raise WrongAnswerError(f"{changes} changes where {updated} rows were updated")
        samples = interleave(
            {"changes": lambda _: ask(_CHANGES), "compared": lambda _: ask(_COMPARED)},
            rounds=context.settings.rounds,
            warmups=2,
        )
    own = samples.median_ms("changes")
    yield Finding(
        f"{changes:,} net changes of {context.settings.rows:,} rows",
        f"{format_milliseconds(own)} ({changes / own * 1e3:,.0f}/s)",
        f"FULL JOIN of two columns {format_milliseconds(samples.median_ms('compared'))}",
        samples.ratio("changes", "compared"),
    )


def _measure_lag(context: BenchContext, count: int, *, on: str, bar: Bar | None) -> Finding:
    """Write ten rows a second; from the acknowledgement of each until followers have it."""
    with create_scratch(context.settings) as directory, ExitStack() as stack:
        table = create_table(directory / "root", _SHAPE)
        writing = stack.enter_context(start_gateway(table.root))
        followed = writing if on == "the same gateway" else stack.enter_context(start_gateway(table.root))
        connection = stack.enter_context(flight_sql.connect(writing.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        followers = stack.enter_context(follow(followed.uri, table.open().version, count=count))
        acknowledged = {}
        for number in range(1 + context.settings.rounds * 4):
            key = _SHAPE.rows + _KEYS_APART + number
            cursor.execute(BOUND.sql, (key,))
            acknowledged[key] = time.perf_counter()
            if number == 0:
                followers.find_moments([key])
            time.sleep(1 / _WRITES_PER_SECOND)
        keys = list(acknowledged)[1:]
        lags = followers.find_moments(keys) - np.array([[acknowledged[key]] for key in keys])
    p50, p99 = _find_percentile_ms(lags, 50), _find_percentile_ms(lags, 99)
    clients = "follower" if count == 1 else "followers"
    return Finding(
        f"acknowledged to told, {count} {clients} on {on}, p99",
        format_milliseconds(p99),
        f"p50 {format_milliseconds(p50)}",
        p99,
        "ms",
        bar,
    )


def _measure_writers(context: BenchContext) -> Iterator[Finding]:
    """One client that inserts without a pause, alone and beside followers."""
    with create_scratch(context.settings) as directory:
        table = create_table(directory / "root", _SHAPE)
        rates = {count: _measure_rate(context, table, count) for count in (0, *_COUNTS)}
    for count in _COUNTS:
        yield Finding(
            f"INSERTs beside {count} follower{'s' if count > 1 else ''}, per second",
            f"{rates[count]:,.0f}/s",
            f"without {rates[0]:,.0f}/s",
            rates[count] / rates[0],
        )


def _measure_rate(context: BenchContext, table: WriteTable, count: int) -> float:
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(table.root))
        if count:
            stack.enter_context(follow(server.uri, table.open().version, count=count))
        writers = stack.enter_context(connect_clients(server, BOUND, clients=1, kind=InsertingClient))
        rounds = [writers.run(context.settings.load_seconds) for _ in range(3)]
    return float(np.median([one.per_second for one in rounds]))


def _find_percentile_ms(lags: npt.NDArray[np.float64], percentile: float) -> float:
    if lags.min() < -1:
        raise WrongAnswerError("a follower was told of a row long before it was acknowledged")
    return float(np.percentile(lags, percentile)) * 1e3
