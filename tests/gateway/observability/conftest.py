"""A gateway that is watched, in the test process."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyarrow import flight

from lance_gateway.gateway.config import Flag, load
from lance_gateway.gateway.observability.gauges import WriteEvents
from lance_gateway.gateway.observability.system_tables import SystemSettings
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.observability import Observability
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.tables.state.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Watched:
    """A server and what watches it."""

    server: GatewayServer
    observability: Observability

    @property
    def uri(self) -> str:
        return f"grpc://127.0.0.1:{self.server.port}"

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and body of a page of the second port."""
        assert self.observability.http is not None
        url = f"http://127.0.0.1:{self.observability.http.port}{path}"
        request = urllib.request.Request(url, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
        """All samples of /metrics by name and labels."""
        families = text_string_to_metric_families(self.get("/metrics")[1])
        return {
            (one.name, frozenset(one.labels.items())): one.value
            for family in families
            for one in family.samples
        }

    def sample(self, name: str, **labels: str) -> float:
        return self.samples().get((f"lance_gateway_{name}", frozenset(labels.items())), 0.0)


Watch = Callable[..., Watched]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Starts watched servers over roots, with values of the section [observability]."""
    with ExitStack() as stack:

        def start(root: Path, **options: object) -> Watched:
            given = {"http_port": 0, **options}
            flags = [Flag("test", f"observability.{name}", value) for name, value in given.items()]
            loaded = load([Flag("test", "root", str(root)), *flags])
            events = WriteEvents()
            catalog = Catalog.open(str(root), writing=WriteOptions(hold_ms=0, observer=events))
            stack.callback(catalog.close)
            observability = Observability(loaded.config.observability, catalog, 0, events)
            stack.callback(observability.close)
            engine = observability.create_engine(None, None)
            engine.add_system_tables(SystemSettings(loaded))
            server = GatewayServer(
                engine,
                observers=observability.list_query_observers(),
                on_call_finished=observability.metrics.on_call_finished,
                rpc_observers=observability.map_rpc_observers(),
            )
            observability.watch(server)
            stack.callback(server.shutdown)
            stack.callback(lambda: server.queries.cancel_all(UnavailableError("the test is over")))
            return Watched(server, observability)

        yield start


@pytest.fixture
def watched(watch: Watch, lake: Path) -> Watched:
    return watch(lake)


@pytest.fixture
def client(watched: Watched) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(watched.uri) as connected:
        yield connected
