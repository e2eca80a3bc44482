"""Statements in worker processes: what attacks do to other clients, and what the processes cost and gain.

The sides are a gateway with two workers and one that runs statements in its own process. Clients take
processor time as well, so that many clients gain less on a machine of few cores than they could.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import psutil  # type: ignore[import-untyped]

from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import FILTERED, GROUP_BY, LOOKUP, STREAM, TABLE_NAME, build_vector_search
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave, time_call
from benchmarks.servers.attacks import attack
from benchmarks.servers.load import KEY, Clients, Round, Statements, alternate, connect_clients
from benchmarks.servers.server import ServerProcess, start_gateway
from benchmarks.tables.write_table import WriteShape, create_scratch, create_table
from benchmarks.writes.write_load import BOUND, InsertingClient

_LIMITS = {"limits.worker_memory_bytes": "1GiB", "limits.query_timeout": "2s"}
_SIDES = {"workers": {"server.workers": 2}, "one process": {"server.workers": 0}}
_CLIENT_COUNTS = (8, 32)
_ATTACKED_ROUNDS = 10
"""Rounds of attacks are so many times as long as others: each attack must have its turn."""
_CONDITION = f"SELECT count(*) AS n, sum(price) AS total FROM {TABLE_NAME} WHERE id < "
_BETWEEN_DEATHS_SECONDS = 2.0
_WRITTEN = WriteShape(10_000, regions=1)


def run(context: BenchContext) -> Iterator[Finding]:
    """Attack one server; then let both sides answer the same statements in turn."""
    yield from _measure_attacks(context)
    yield from _measure_latency(context)
    yield from _measure_throughput(context)
    yield _measure_replacement(context)
    yield _measure_restart(context)


def _measure_attacks(context: BenchContext) -> Iterator[Finding]:
    """Look up keys, and insert rows, while another client attacks; idle before and after."""
    table, seconds = context.open_main_table(), context.settings.load_seconds * _ATTACKED_ROUNDS
    lookups = Statements(LOOKUP, tuple(table.draw_keys(1000, seed=3)))
    with ExitStack() as stack:
        root = create_table(stack.enter_context(create_scratch(context.settings)) / "attacked", _WRITTEN).root
        options = _SIDES["workers"] | _LIMITS
        reading = stack.enter_context(start_gateway(table.root, {}, options))
        readers = stack.enter_context(connect_clients(reading, lookups, clients=1))
        before = readers.run(seconds)
        with attack(reading.uri):
            attacked = readers.run(seconds * 2)
        after = readers.run(seconds)
        writing = stack.enter_context(start_gateway(root, {}, options))
        writers = stack.enter_context(connect_clients(writing, BOUND, clients=1, kind=InsertingClient))
        alone = writers.run(seconds)
        with attack(writing.uri):
            beside = writers.run(seconds * 2)
    idle = np.concatenate([before.seconds, after.seconds])
    for percentile, bar in ((50, None), (99, Bar(3))):
        own, other = attacked.percentile_ms(percentile), float(np.percentile(idle, percentile)) * 1e3
        yield Finding(
            f"key lookups beside attacks, p{percentile}",
            format_milliseconds(own),
            f"idle {format_milliseconds(other)}",
            own / other,
            bar=bar,
            note=f"the longest took {format_milliseconds(attacked.percentile_ms(100))}",
        )
    own, other = beside.percentile_ms(99), alone.percentile_ms(99)
    yield Finding(
        "INSERTs beside attacks, p99",
        f"{format_milliseconds(own)} ({beside.per_second:,.0f}/s)",
        f"idle {format_milliseconds(other)} ({alone.per_second:,.0f}/s)",
        own / other,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """Connections to one server."""

    main: flight_sql.Cursor
    search: flight_sql.Cursor


def _measure_latency(context: BenchContext) -> Iterator[Finding]:
    """One client, each kind of statement on both sides in turn."""
    table, searched = context.open_main_table(), context.open_search_table()
    keys = table.draw_keys(context.settings.lookup_rounds, seed=4)
    search = build_vector_search(f"[{', '.join(['0.5'] * 64)}]", k=10)
    kinds: Mapping[str, tuple[Callable[[_Side, int], object], int]] = {
        "SELECT 1": (lambda side, _: _fetch(side.main, "SELECT 1"), context.settings.lookup_rounds),
        "key lookups": (
            lambda side, number: _fetch(side.main, LOOKUP, (keys[number],)),
            context.settings.lookup_rounds,
        ),
        "aggregation": (lambda side, _: _fetch(side.main, GROUP_BY), context.settings.rounds),
        "filtered scan": (lambda side, _: _fetch(side.main, FILTERED), context.settings.rounds),
        "streaming": (lambda side, _: _fetch(side.main, STREAM), context.settings.rounds),
        "vector search": (lambda side, _: _fetch(side.search, search), context.settings.search_rounds),
    }
    with ExitStack() as stack:
        sides = {}
        for name, options in _SIDES.items():
            cursors = []
            for root in (table.root, searched.root):
                server = stack.enter_context(start_gateway(root, {}, options))
                connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
                cursors.append(stack.enter_context(connection.cursor()))
            sides[name] = _Side(*cursors)
        for kind, (step, rounds) in kinds.items():
            candidates = {
                name: (lambda number, step=step, side=side: step(side, max(number, 0)))
                for name, side in sides.items()
            }
            samples = interleave(candidates, rounds=rounds, warmups=5)
            yield Finding(
                f"{kind}, one client, two workers",
                format_milliseconds(samples.median_ms("workers")),
                f"one process {format_milliseconds(samples.median_ms('one process'))}",
                samples.ratio("workers", "one process"),
                bar=Bar(1.1),
            )
    yield from _measure_inserts(context)


def _measure_inserts(context: BenchContext) -> Iterator[Finding]:
    with ExitStack() as stack:
        directory = stack.enter_context(create_scratch(context.settings))
        sides = {}
        for name, options in _SIDES.items():
            root = create_table(directory / name.replace(" ", "-"), _WRITTEN).root
            server = stack.enter_context(start_gateway(root, {}, options))
            sides[name] = stack.enter_context(connect_clients(server, BOUND, clients=1, kind=InsertingClient))
        rounds = _alternate(context, sides)
    own, other = (_find_median(rounds[name], lambda one: one.percentile_ms(50)) for name in _SIDES)
    yield Finding(
        "INSERTs of a row, one client, two workers",
        format_milliseconds(own),
        f"one process {format_milliseconds(other)}",
        own / other,
        bar=Bar(1.1),
    )


def _measure_throughput(context: BenchContext) -> Iterator[Finding]:
    """Planned statements by one client and by many: the same text, and each a new one."""
    table = context.open_main_table()
    kinds = {
        "kept texts": Statements(f"{_CONDITION}1000"),
        "new texts": Statements(f"{_CONDITION}{KEY}", tuple(range(1000, 1_000_000))),
    }
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {
            name: stack.enter_context(start_gateway(table.root, {}, options))
            for name, options in _SIDES.items()
        }
        for title, statements in kinds.items():
            for count in (1, *_CLIENT_COUNTS):
                with ExitStack() as connected:
                    sides = {
                        name: connected.enter_context(connect_clients(server, statements, clients=count))
                        for name, server in servers.items()
                    }
                    rounds = _alternate(context, sides)
                pairs = zip(*(rounds[name] for name in _SIDES), strict=True)
                yield Finding(
                    f"planned statements, {title}, {count} client{'s' if count > 1 else ''}, per second",
                    _describe(rounds["workers"]),
                    f"one process {_describe(rounds['one process'])}",
                    float(np.median([own.per_second / other.per_second for own, other in pairs])),
                    bar=Bar(1.3, "at least") if count > 1 else None,
                )


def _measure_replacement(context: BenchContext) -> Finding:
    """Kill the only worker, and send a statement that needs one."""
    table = context.open_main_table()
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(table.root, {}, {"server.workers": 1}))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        cursor = stack.enter_context(connection.cursor())
        seconds = []
        for number in range(max(3, context.settings.rounds)):
            # One that ends at once after another has ended is not replaced at once.
            time.sleep(_BETWEEN_DEATHS_SECONDS)
            # By a text of its own: what needs no worker would be answered at once.
            usual = time_call(lambda number=number: _fetch(cursor, f"SELECT 1 + {number}"))  # type: ignore[misc]
            ((pid,),) = _fetch(cursor, "SELECT pid FROM system.workers WHERE state = 'ready'")
            killed_at = time.perf_counter()
            psutil.Process(pid).kill()
            _fetch(cursor, f"SELECT 2 + {number}")
            seconds.append(time.perf_counter() - killed_at - usual)
    median = float(np.median(seconds)) * 1e3
    return Finding("replacement of a worker", format_milliseconds(median), "", median, "ms", Bar(1000))


def _measure_restart(context: BenchContext) -> Finding:
    """Start a gateway over what an earlier one has left in the shared cache, and ask the same twice."""
    table = context.open_main_table()
    seconds: list[tuple[float, float]] = []
    with create_scratch(context.settings) as scratch:
        options = {"server.workers": 2, "cache.directory": str(scratch / "shared")}
        for number in range(-1, max(3, context.settings.rounds)):
            with ExitStack() as stack:
                server = stack.enter_context(start_gateway(table.root, {}, options))
                connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
                cursor = stack.enter_context(connection.cursor())
                first, second, *_ = [time_call(lambda: _fetch(cursor, GROUP_BY)) for _ in range(5)]  # noqa: B023 - called here
            if number >= 0:
                seconds.append((first, second))
    first, second = np.median(np.array(seconds), axis=0)
    return Finding(
        "first group-by after a restart, warm shared cache",
        format_milliseconds(first * 1e3),
        f"the second {format_milliseconds(second * 1e3)}",
        float(first / second),
        bar=Bar(2),
    )


def _alternate(context: BenchContext, sides: Mapping[str, Clients]) -> dict[str, list[Round]]:
    rounds = max(1, context.settings.rounds // 3)
    return alternate(sides, rounds=rounds, seconds=context.settings.load_seconds)


def _fetch(
    cursor: flight_sql.Cursor, sql: str, parameters: tuple[object, ...] | None = None
) -> list[tuple[int, ...]]:
    """Execute a statement, and fetch all of it; return the rows of a small result."""
    cursor.execute(sql, parameters)
    rows = cursor.fetch_arrow_table()
    return [tuple(row.values()) for row in rows.to_pylist()] if rows.num_rows < 10 else []


def _find_median(rounds: list[Round], figure: Callable[[Round], float]) -> float:
    return float(np.median([figure(each) for each in rounds]))


def _describe(rounds: list[Round]) -> str:
    per_second = _find_median(rounds, lambda one: one.per_second)
    p50 = _find_median(rounds, lambda one: one.percentile_ms(50))
    return f"{per_second:,.0f}/s (p50 {format_milliseconds(p50)})"
