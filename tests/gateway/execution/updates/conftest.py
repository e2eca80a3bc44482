"""A gateway that is written to, and tables of the tests' own."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight

from lance_gateway.gateway.server import GatewayServer
from tests.gateway.conftest import serving
from tests.support.lake.written import make_notes

_NAMES = (f"notes{number}" for number in itertools.count(1))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("updates")


@pytest.fixture(scope="session")
def server(root: Path) -> Iterator[GatewayServer]:
    with serving(root) as server:
        yield server


@pytest.fixture
def client(server: GatewayServer) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


@pytest.fixture
def notes(root: Path) -> str:
    """An empty table of the test's own."""
    return make_notes(root, next(_NAMES))
