"""A gateway whose tables are the tests' own, for the ADBC driver."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tests.gateway.conftest import serving
from tests.support.processes.servers import open_connection

_NAMES = (f"t{number}" for number in count(1))


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("written")) as server:
        yield f"grpc://127.0.0.1:{server.port}"


@pytest.fixture(scope="session")
def adbc(uri: str) -> Iterator[Any]:
    """A connection that keeps its session's cookie; tests leave its options as they were."""
    with open_connection(uri) as connection:
        yield connection


@pytest.fixture
def table() -> str:
    """A name that no table has."""
    return next(_NAMES)
