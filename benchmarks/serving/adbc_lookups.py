"""Point lookups by ADBC with a prepared statement, against a server process.

A bare Flight server that answers the driver's three calls from memory shows what driver and gRPC alone take.
"""

from collections.abc import Iterator

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa

from benchmarks.reports.answers import check_same_row
from benchmarks.reports.baselines import LsmLookups
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import LOOKUP
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave
from benchmarks.servers.server import start_bare_flight, start_gateway

_NOTHING = "SELECT 1"


def run(context: BenchContext) -> Iterator[Finding]:
    """One client, one statement prepared once, the keys of the in-process family."""
    table = context.open_main_table()
    rounds = context.settings.lookup_rounds
    keys = table.draw_keys(rounds, seed=1)
    with (
        start_gateway(table.root) as server,
        start_bare_flight(server.uri, LOOKUP.replace("$1", str(keys[0]))) as bare,
        flight_sql.connect(server.uri, autocommit=True) as connection,
        flight_sql.connect(bare.uri, autocommit=True) as bare_connection,
        connection.cursor() as cursor,
        connection.cursor() as nothing,
        bare_connection.cursor() as bare_cursor,
    ):

        def gateway(number: int) -> pa.Table:
            # The cursor prepares a text once and only binds while the text stays the same.
            cursor.execute(LOOKUP, (keys[number],))
            return cursor.fetch_arrow_table()

        def empty(_: int) -> pa.Table:
            nothing.execute(_NOTHING)
            return nothing.fetch_arrow_table()

        def from_memory(number: int) -> pa.Table:
            bare_cursor.execute(LOOKUP, (keys[number],))
            return bare_cursor.fetch_arrow_table()

        peer = LsmLookups(table.uri)
        for number in range(min(rounds, 5)):
            check_same_row(gateway(number), peer.look_up(keys[number]), keys[number])
        samples = interleave(
            {"gateway": gateway, "nothing": empty, "bare": from_memory}, rounds=rounds, warmups=10
        )
    p50, p99 = samples.median_ms("gateway"), samples.percentile_ms("gateway", 99)
    against = (
        f"{_NOTHING}: {format_milliseconds(samples.median_ms('nothing'))}; "
        f"bare Flight, same calls: {format_milliseconds(samples.median_ms('bare'))}"
    )
    yield Finding("ADBC prepared point lookup, p50", format_milliseconds(p50), against, p50, "ms", Bar(3))
    against = (
        f"{_NOTHING}: {format_milliseconds(samples.percentile_ms('nothing', 99))}; "
        f"bare Flight, same calls: {format_milliseconds(samples.percentile_ms('bare', 99))}"
    )
    yield Finding("ADBC prepared point lookup, p99", format_milliseconds(p99), against, p99, "ms")
