"""Streaming a whole-table result of three columns by Flight, against the same batches from memory."""

from collections.abc import Iterator

from pyarrow import flight

from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import STREAM
from benchmarks.reports.report import Bar, Finding, format_milliseconds
from benchmarks.reports.timing import interleave
from benchmarks.servers.flight_client import build_descriptor, drain
from benchmarks.servers.server import start_bare_flight, start_gateway

_BYTES_PER_ROW = 8 + 4 + 8


def run(context: BenchContext) -> Iterator[Finding]:
    """Drain both servers in turn; each runs in its own process, one client reads both."""
    table = context.open_main_table()
    descriptor = build_descriptor(STREAM)
    with (
        start_gateway(table.root) as gateway,
        start_bare_flight(gateway.uri, STREAM) as bare,
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

    def describe(name: str) -> str:
        milli = samples.median_ms(name)
        return f"{format_milliseconds(milli)} ({table.answers.count * _BYTES_PER_ROW / milli / 1e6:.2f} GB/s)"

    yield Finding(
        f"streaming {table.answers.count:,} rows x 3 columns",
        describe("gateway"),
        f"bare Flight {describe('bare')}",
        samples.ratio("bare", "gateway"),
        "x",
        Bar(0.7, "at least"),
        "value = the gateway's throughput as a share of the bare server's",
    )
