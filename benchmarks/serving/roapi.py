"""Side by side with ROAPI, a Flight SQL server in Rust on the same DataFusion, on the same rows as Parquet.

Both are asked by the same ADBC clients in rounds that take turns. ROAPI keeps decoded rows in memory, as it
does unless told otherwise; what it takes when it reads the Parquet file for each query is noted beside. It
can't bind parameters, so each of its lookups is a text of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np

from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import LOOKUP, STREAM, TABLE_NAME
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave
from benchmarks.servers.load import AdbcClient, Clients, Round, Statements, alternate, connect_clients
from benchmarks.servers.server import ServerProcess, start_gateway, start_roapi
from benchmarks.serving.parquet import write_newest_rows
from benchmarks.tables.table import BenchTable

_NOTHING = Statements("SELECT 1")
_BYTES_PER_ROW = 8 + 4 + 8
_CLIENT_COUNTS = (8, 32)
_LOOKUP_CLIENTS = 32
_LOOKUP_KEYS = 4_000


def run(context: BenchContext) -> Iterator[Finding]:
    """Latency of one client, throughput and p99 of many, point lookups of many, and streaming."""
    table = context.open_main_table()
    parquet = write_newest_rows(table)
    with (
        start_gateway(table.root) as gateway,
        start_roapi(TABLE_NAME, parquet, in_memory=True) as roapi,
        start_roapi(TABLE_NAME, parquet, in_memory=False) as reading,
    ):
        yield from _measure_latency(context, gateway, roapi)
        for clients in _CLIENT_COUNTS:
            sides = {"gateway": (gateway, _NOTHING), "roapi": (roapi, _NOTHING)}
            rounds = _run_load(context, sides, clients)
            yield _build_throughput(f"SELECT 1, {clients} clients, per second", rounds, Bar(0.8, "at least"))
            yield _build_p99(f"SELECT 1, {clients} clients, p99", rounds, Bar(2) if clients == 32 else None)
        yield from _measure_lookups(context, table, gateway, roapi, reading)
        yield _measure_streaming(context, table, gateway, roapi, reading)


def _measure_latency(
    context: BenchContext, gateway: ServerProcess, roapi: ServerProcess
) -> Iterator[Finding]:
    """One client, a new cursor for each statement, the servers in turn."""
    with ExitStack() as stack:
        client = AdbcClient(stack, gateway.uri, _NOTHING)
        roapi_client = AdbcClient(stack, roapi.uri, _NOTHING)
        samples = interleave(
            {"gateway": lambda _: client.execute(), "roapi": lambda _: roapi_client.execute()},
            rounds=context.settings.lookup_rounds,
            warmups=20,
        )
    for name, percentile, bar in (("p50", 50, Bar(1.2)), ("p99", 99, None)):
        gateway_ms, roapi_ms = (samples.percentile_ms(side, percentile) for side in ("gateway", "roapi"))
        yield Finding(
            f"SELECT 1, 1 client, {name}",
            format_milliseconds(gateway_ms),
            f"ROAPI {format_milliseconds(roapi_ms)}",
            gateway_ms / roapi_ms,
            bar=bar,
        )


def _measure_lookups(
    context: BenchContext,
    table: BenchTable,
    gateway: ServerProcess,
    roapi: ServerProcess,
    reading: ServerProcess,
) -> Iterator[Finding]:
    keys = tuple(table.draw_keys(_LOOKUP_KEYS, seed=2))
    bound = Statements(LOOKUP, keys)
    literal = Statements(LOOKUP.replace("$1", "{key}"), keys)
    sides = {
        "gateway": (gateway, bound),
        "roapi": (roapi, literal),
        "literal": (gateway, literal),
        "reading": (reading, literal),
    }
    rounds = _run_load(context, sides, _LOOKUP_CLIENTS)
    title = f"point lookups, {_LOOKUP_CLIENTS} clients"
    other = _compute_median(rounds["reading"], lambda each: each.per_second)
    note = f"ROAPI reading the Parquet file for each query: {other:,.0f}/s"
    yield _build_throughput(f"prepared {title}, per second", rounds, Bar(1.5, "at least"), note)
    yield _build_p99(f"prepared {title}, p99", rounds, Bar(2))
    texts = {"gateway": rounds["literal"], "roapi": rounds["roapi"]}
    yield _build_throughput(f"{title}, each key a new text, per second", texts)


def _measure_streaming(
    context: BenchContext,
    table: BenchTable,
    gateway: ServerProcess,
    roapi: ServerProcess,
    reading: ServerProcess,
) -> Finding:
    """One client reads every row of three columns batch by batch, from each server in turn."""
    with ExitStack() as stack:

        def create_drain(server: ServerProcess) -> Callable[[int], None]:
            connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))

            def drain(_: int) -> None:
                with connection.cursor() as cursor:
                    cursor.execute(STREAM)
                    rows = sum(batch.num_rows for batch in cursor.fetch_record_batch())
                table.answers.check_count(rows)

            return drain

        sides = {
            "gateway": create_drain(gateway),
            "roapi": create_drain(roapi),
            "reading": create_drain(reading),
        }
        samples = interleave(sides, rounds=max(1, context.settings.rounds // 2))

    def describe(name: str) -> str:
        milli = samples.median_ms(name)
        return f"{format_milliseconds(milli)} ({table.answers.count * _BYTES_PER_ROW / milli / 1e6:.2f} GB/s)"

    return Finding(
        f"streaming {table.answers.count:,} rows x 3 columns by ADBC",
        describe("gateway"),
        f"ROAPI {describe('roapi')}",
        samples.ratio("roapi", "gateway"),
        bar=Bar(1.2, "at least"),
        note=f"value = throughput; ROAPI reading the Parquet file for each query: {describe('reading')}",
    )


def _run_load(
    context: BenchContext, sides: dict[str, tuple[ServerProcess, Statements]], clients: int
) -> dict[str, list[Round]]:
    with ExitStack() as stack:
        ready: dict[str, Clients] = {
            name: stack.enter_context(connect_clients(server, statements, clients=clients))
            for name, (server, statements) in sides.items()
        }
        settings = context.settings
        return alternate(ready, rounds=max(1, settings.rounds // 3), seconds=settings.load_seconds)


def _build_throughput(
    title: str, rounds: dict[str, list[Round]], bar: Bar | None = None, note: str = ""
) -> Finding:
    def describe(name: str) -> str:
        per_second = _compute_median(rounds[name], lambda each: each.per_second)
        return (
            f"{per_second:,.0f}/s ({_compute_median(rounds[name], lambda each: each.cpu_ms):.2f} ms CPU each)"
        )

    value = _compute_ratio(rounds, lambda each: each.per_second)
    return Finding(title, describe("gateway"), f"ROAPI {describe('roapi')}", value, bar=bar, note=note)


def _build_p99(title: str, rounds: dict[str, list[Round]], bar: Bar | None = None) -> Finding:
    def describe(name: str) -> str:
        return format_milliseconds(_compute_median(rounds[name], lambda each: each.percentile_ms(99)))

    value = _compute_ratio(rounds, lambda each: each.percentile_ms(99))
    return Finding(title, describe("gateway"), f"ROAPI {describe('roapi')}", value, bar=bar)


def _compute_median(rounds: Sequence[Round], figure: Callable[[Round], float]) -> float:
    return float(np.median([figure(each) for each in rounds]))


def _compute_ratio(rounds: dict[str, list[Round]], figure: Callable[[Round], float]) -> float:
    """Return the median over rounds of the gateway's figure divided by ROAPI's in the same round."""
    pairs = zip(rounds["gateway"], rounds["roapi"], strict=True)
    return float(np.median([figure(gateway) / figure(roapi) for gateway, roapi in pairs]))
