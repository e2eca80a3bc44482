"""A server under fire: what it holds, and whether it is still well."""

import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
from pyarrow import flight

from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean
from tests.support.processes.servers import GatewayProcess

_METRICS = re.compile(r"metrics and health at (http://\S+)")
_GAUGE = re.compile(
    r"^lance_gateway_(sessions|prepared_statements|queries_running|queries_queued) (\d+)", re.MULTILINE
)
_PATIENCE = 60.0
_MAX_GROWTH = 300 << 20
_MAX_NEW_THREADS = 32
# Whatever the gateway refuses a client with.
REFUSALS = (pa.ArrowException, flight.FlightError, OSError)


@dataclass(frozen=True, slots=True)
class Held:
    """What a server holds for its clients, by its own metrics."""

    sessions: int
    prepared_statements: int
    queries_running: int
    queries_queued: int


class Target:
    """A gateway process, watched by its metrics and from outside.

    Args:
        server: the process.
        probe: a query, and the rows that it must return whatever happened.
    """

    def __init__(self, server: GatewayProcess, probe: str, rows: pa.Table) -> None:
        self.uri = server.uri
        self._server = server
        self._process = psutil.Process(server.pid)
        self._probe, self._rows = probe, rows
        with flight.connect(server.uri) as client:
            # The line on stderr was written before the server said that it is ready.
            rpc.query(client, probe)
        found = _METRICS.search(server.log)
        assert found, server.log
        self._metrics = f"{found[1]}/metrics"

    def held(self) -> Held:
        """Asks the server what it holds."""
        with urllib.request.urlopen(self._metrics, timeout=30) as page:
            gauges = dict(_GAUGE.findall(page.read().decode()))
        return Held(**{name: int(gauges[name]) for name in Held.__slots__})

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """After the block the server answers, holds what it held, and has not grown without bound."""
        # What the block before this one asked last may not have ended quite.
        held = self._settled(lambda now: not now.queries_running + now.queries_queued)
        resident, threads = self._process.memory_info().rss, self._process.num_threads()
        yield
        with flight.connect(self.uri) as client:
            assert rpc.query(client, self._probe).equals(self._rows)
        # Streams of clients that have gone end when the server next looks after them, and then their threads.
        most = threads + _MAX_NEW_THREADS
        now = self._settled(lambda now: now == held and self._process.num_threads() < most)
        assert now == held, f"{now} instead of {held}"
        assert self._process.num_threads() < most
        assert self._process.memory_info().rss - resident < _MAX_GROWTH

    def _settled(self, is_settled: Callable[[Held], bool]) -> Held:
        deadline = time.monotonic() + _PATIENCE
        while not is_settled(now := self.held()) and time.monotonic() < deadline:
            pass
        return now


@contextmanager
def target(root: Path) -> Iterator[Target]:
    """Serves a root that has the table `orders`."""
    probe = "SELECT id, customer FROM orders WHERE id < 3 ORDER BY id"
    with GatewayProcess(root) as server, flight.connect(server.uri) as client:
        yield Target(server, probe, rpc.query(client, probe))


def refused(error: Exception) -> bool:
    """Whether this is a clean refusal; a leak, or a failure that nobody foresaw, fails the test."""
    text = str(error)
    assert_clean(text)
    assert "its log describes" not in text, text
    return isinstance(error, REFUSALS)
