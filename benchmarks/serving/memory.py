"""Resident memory of the server process while it streams many rows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil  # type: ignore[import-untyped]
from pyarrow import flight

from benchmarks.reports.answers import WrongAnswerError
from benchmarks.reports.context import BenchContext
from benchmarks.reports.queries import STREAM
from benchmarks.reports.report import Bar, Finding
from benchmarks.servers.flight_client import build_descriptor, drain
from benchmarks.servers.server import start_gateway

_MIB = 2**20
_SAMPLE_SECONDS = 0.005


def run(context: BenchContext) -> Iterator[Finding]:
    """Stream the table as often as it takes in one UNION ALL, and sample the server's memory meanwhile.

    Idle is the server that has just said it is ready: what its caches take counts as above idle.
    """
    table = context.open_main_table()
    copies = -(-context.settings.stream_rows // table.answers.count)
    descriptor = build_descriptor(" UNION ALL ".join([STREAM] * copies))
    with start_gateway(table.root) as server, flight.connect(server.uri) as client:
        process = psutil.Process(server.pid)
        idle = _read_resident_bytes(process)
        with _watch_peak(process) as peak:
            rows = drain(client, descriptor)
        settled = _read_resident_bytes(process)
    if rows != copies * table.answers.count:
        raise WrongAnswerError(f"the server streamed {rows} rows of {copies * table.answers.count}")
    above = (peak[0] - idle) / _MIB
    yield Finding(
        f"server memory above idle while streaming {rows:,} rows",
        f"{peak[0] / _MIB:,.0f} MiB at its highest",
        f"idle {idle / _MIB:,.0f} MiB",
        above,
        "MiB",
        Bar(1024),
        f"resident set every {_SAMPLE_SECONDS * 1e3:.0f} ms; after the stream {settled / _MIB:,.0f} MiB",
    )


def _read_resident_bytes(process: psutil.Process) -> int:
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


@contextmanager
def _watch_peak(process: psutil.Process) -> Iterator[list[int]]:
    """Sample until the block ends; the list's only item is the highest value so far, in bytes."""
    peak = [_read_resident_bytes(process)]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            peak[0] = max(peak[0], _read_resident_bytes(process))

    thread = threading.Thread(target=sample, name="memory-sampler")
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
