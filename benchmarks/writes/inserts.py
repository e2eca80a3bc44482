"""Single-row INSERTs, durable before they are acknowledged: latency of one client, throughput of many.

Group commit makes one log entry of the rows of clients that wait together. That pays where an entry takes
long: a local file is written in a fraction of a millisecond, less than the statement itself costs the
processor, and there is little to gain. On an object store each entry takes tens of milliseconds, whatever it
holds. So the throughput of many clients is judged on a store that answers like S3, and reported for a local
disk.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np

from benchmarks.reports.context import BenchContext
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave
from benchmarks.servers.load import KEY, Round, Statements, alternate, connect_clients
from benchmarks.servers.server import start_gateway, start_slow_store
from benchmarks.servers.slow_store import BUCKET, READ_MS, WRITE_MS, build_options
from benchmarks.tables.write_table import WriteShape, WriteTable, create_scratch, create_table
from benchmarks.writes.write_load import BOUND, LITERAL, InsertingClient

_SHAPE = WriteShape(100_000, regions=4)
_ONE_REGION = WriteShape(1_000, regions=1)
_CLIENTS = 32
_NOTHING = "SELECT 1"


def run(context: BenchContext) -> Iterator[Finding]:
    """Latency by ADBC, then many clients against one on both kinds of storage."""
    with create_scratch(context.settings) as directory:
        yield from _measure_latency(context, create_table(directory / "latency", _SHAPE))
        table = create_table(directory / "many", _ONE_REGION)
        yield _measure_clients(
            context, table, BOUND, f"INSERTs by {_CLIENTS} clients, local disk, per second"
        )
    with start_slow_store() as url:
        note = f"a store that waits {WRITE_MS} ms to write and {READ_MS} ms to read"
        title = f"INSERTs by {_CLIENTS} clients, object store"
        for label, statements, bar in (
            ("prepared", BOUND, Bar(10, "at least")),
            ("each a new text", LITERAL, None),
        ):
            table = create_table(f"s3://{BUCKET}/{label.replace(' ', '-')}", _ONE_REGION, build_options(url))
            yield _measure_clients(context, table, statements, f"{title}, {label}, per second", bar, note)


def _measure_latency(context: BenchContext, table: WriteTable) -> Iterator[Finding]:
    """One client, four regions; Lance's own writer is given the same rows, in a table of its own."""
    rounds, shape = context.settings.lookup_rounds, table.shape
    beside = create_table(Path(table.root) / "beside", shape)
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(Path(table.root)))
        connection = stack.enter_context(flight_sql.connect(server.uri, autocommit=True))
        kept = stack.enter_context(connection.cursor())
        nothing = stack.enter_context(connection.cursor())
        writer = stack.enter_context(
            beside.open().mem_wal_writer(beside.regions[0], durable_write=True, max_wal_buffer_size=1)
        )

        def prepared(number: int) -> None:
            kept.execute(BOUND.sql, (shape.rows + 2 * number + 1_000,))

        def literal(number: int) -> None:
            with connection.cursor() as cursor:
                cursor.execute(LITERAL.sql.replace(KEY, str(shape.rows + 2 * number + 1_001)))

        def empty(_: int) -> None:
            nothing.execute(_NOTHING)
            nothing.fetchall()

        def put(number: int) -> None:
            writer.put(shape.rows_of(np.array([shape.rows + number + 1_000])))

        sides = {"prepared": prepared, "literal": literal, "nothing": empty, "put": put}
        samples = interleave(sides, rounds=rounds, warmups=20)
    against = (
        f"{_NOTHING}: {format_milliseconds(samples.median_ms('nothing'))}; "
        f"ShardWriter.put {format_milliseconds(samples.median_ms('put'))}"
    )
    for side, label in (("prepared", "prepared"), ("literal", "each a new text")):
        p50, p99 = (samples.percentile_ms(side, percentile) for percentile in (50, 99))
        title = f"durable INSERT of a row by ADBC, {label}"
        yield Finding(f"{title}, p50", format_milliseconds(p50), against, p50, "ms", Bar(10))
        yield Finding(f"{title}, p99", format_milliseconds(p99), "", p99, "ms")


def _measure_clients(
    context: BenchContext,
    table: WriteTable,
    statements: Statements,
    title: str,
    bar: Bar | None = None,
    note: str = "",
) -> Finding:
    """One client and many, in turn, into the same region."""
    with ExitStack() as stack:
        server = stack.enter_context(start_gateway(table.root, table.options))
        sides = {
            name: stack.enter_context(
                connect_clients(server, statements, clients=clients, kind=InsertingClient)
            )
            for name, clients in (("one", 1), ("many", _CLIENTS))
        }
        number, seconds = max(1, context.settings.rounds // 5), context.settings.load_seconds
        rounds = alternate(sides, rounds=number, seconds=seconds)

    def describe(side: str) -> str:
        per_second, p50, cpu = (
            float(np.median([figure(each) for each in rounds[side]]))
            for figure in (_per_second, _p50, _cpu_ms)
        )
        return f"{per_second:,.0f}/s (p50 {format_milliseconds(p50)}, {cpu:.2f} ms CPU each)"

    pairs = zip(rounds["many"], rounds["one"], strict=True)
    gain = float(np.median([many.per_second / one.per_second for many, one in pairs]))
    return Finding(title, describe("many"), f"1 client {describe('one')}", gain, bar=bar, note=note)


def _per_second(each: Round) -> float:
    return each.per_second


def _p50(each: Round) -> float:
    return each.percentile_ms(50)


def _cpu_ms(each: Round) -> float:
    return each.cpu_ms
