"""A gateway of the dialect's own tests, and its engine."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import registry

from lance_gateway.gateway.server import GatewayServer
from tests.gateway.conftest import serving

_NAMES = (f"t{number}" for number in count(1))

# What the entry points of an installed package say, for a checkout that isn't installed.
for _scheme, _dialect in {
    "lance_gateway": "LanceGatewayDialect",
    "lance_gateway.tls": "LanceGatewayTlsDialect",
    "lancegateway": "LanceGatewayDialect",
}.items():
    registry.register(_scheme, "sqlalchemy_lance_gateway.dialect", _dialect)


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sqlalchemy")


@pytest.fixture(scope="session")
def gateway(lake: Path) -> Iterator[GatewayServer]:
    with serving(lake) as server:
        yield server


@pytest.fixture(scope="session")
def url(gateway: GatewayServer) -> str:
    return f"lance_gateway://127.0.0.1:{gateway.port}"


@pytest.fixture(scope="session")
def engine(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    with engine.connect() as connection:
        yield connection


@pytest.fixture
def name() -> str:
    """A name that no table has."""
    return next(_NAMES)


@pytest.fixture
def metadata(engine: sa.Engine) -> Iterator[sa.MetaData]:
    """Its tables are dropped when the test is over."""
    metadata = sa.MetaData()
    yield metadata
    metadata.drop_all(engine)


def sent(gateway: GatewayServer, table: str) -> list[str]:
    """The statements about a table that a gateway has run, as far as it remembers them."""
    return [query.sql for query in gateway.queries.list_finished() if table in query.sql]
