"""Streaming a whole-table result of three columns by Flight, against the same batches from memory."""

from collections.abc import Iterator

from pyarrow import flight

from benchmarks.context import BenchContext
from benchmarks.flight_client import drain, statement
from benchmarks.queries import STREAM
from benchmarks.report import Bar, Finding, milliseconds
from benchmarks.server import bare_flight_server, gateway_server
from benchmarks.timing import interleave

_BYTES_PER_ROW = 8 + 4 + 8


def run(context: BenchContext) -> Iterator[Finding]:
    """Drains both servers in turn; each runs in its own process, one client reads both."""
    table = context.main_table()
    descriptor = statement(STREAM)
    with (
        gateway_server(table.root) as gateway,
        bare_flight_server(gateway.uri, STREAM) as bare,
        flight.connect(gateway.uri) as gateway_client,
        flight.connect(bare.uri) as bare_client,
    ):
        for client in (gateway_client, bare_client):
            table.answers.check_count(drain(client, descriptor))
        samples = interleave(
            {
                "gateway": lambda _: drain(gateway_client, descriptor),
                "bare": lambda _: drain(bare_client, descriptor),
            },
            rounds=context.settings.rounds,
        )

    def described(name: str) -> str:
        milli = samples.median_ms(name)
        return f"{milliseconds(milli)} ({table.answers.count * _BYTES_PER_ROW / milli / 1e6:.2f} GB/s)"

    yield Finding(
        f"streaming {table.answers.count:,} rows x 3 columns",
        described("gateway"),
        f"bare Flight {described('bare')}",
        samples.ratio("bare", "gateway"),
        "x",
        Bar(0.7, "at least"),
        "value = the gateway's throughput as a share of the bare server's",
    )
