"""Point lookups by ADBC with a prepared statement, against a server process."""

from collections.abc import Iterator

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa

from benchmarks.answers import check_same_row
from benchmarks.baselines import LsmLookups
from benchmarks.context import BenchContext
from benchmarks.queries import LOOKUP
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.server import gateway_server
from benchmarks.timing import interleave

_NOTHING = "SELECT 1"


def run(context: BenchContext) -> Iterator[Finding]:
    """One client, one statement prepared once, the keys of the in-process family."""
    table = context.main_table()
    rounds = context.settings.lookup_rounds
    keys = table.draw_keys(rounds, seed=1)
    with (
        gateway_server(table.root) as server,
        flight_sql.connect(server.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
        connection.cursor() as nothing,
    ):

        def gateway(number: int) -> pa.Table:
            # The cursor prepares a text once and only binds while the text stays the same.
            cursor.execute(LOOKUP, (keys[number],))
            return cursor.fetch_arrow_table()

        def empty(_: int) -> pa.Table:
            nothing.execute(_NOTHING)
            return nothing.fetch_arrow_table()

        peer = LsmLookups(table.uri)
        for number in range(min(rounds, 5)):
            check_same_row(gateway(number), peer.row(keys[number]), keys[number])
        samples = interleave({"gateway": gateway, "nothing": empty}, rounds=rounds, warmups=10)
    p50, p99 = samples.median_ms("gateway"), samples.percentile_ms("gateway", 99)
    against = f"{_NOTHING}, same way: {milliseconds(samples.median_ms('nothing'))}"
    yield Finding("ADBC prepared point lookup, p50", milliseconds(p50), against, p50, "ms", Bar(3))
    against = f"{_NOTHING}, same way: {milliseconds(samples.percentile_ms('nothing', 99))}"
    yield Finding("ADBC prepared point lookup, p99", milliseconds(p99), against, p99, "ms")
