"""Fixtures that every test may use: the writer process, table roots, engines and servers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from planner.catalog import Catalog
from planner.engine import QueryEngine
from tests.support.servers import GatewayProcess
from tests.support.writer_process import WriterProcess


@pytest.fixture(scope="session")
def shared_writers() -> Iterator[WriterProcess]:
    """The one writer process of a test session."""
    with WriterProcess() as process:
        yield process


@pytest.fixture
def writers(shared_writers: WriterProcess) -> WriterProcess:
    """A process that writes through Lance's own region writers."""
    return shared_writers


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty catalog root."""
    path = tmp_path / "root"
    path.mkdir()
    return path


@pytest.fixture
def open_engine() -> Iterator[Callable[[Path], QueryEngine]]:
    """Opens query engines over catalog roots and closes them after the test."""
    with ExitStack() as stack:

        def open_root(path: Path) -> QueryEngine:
            engine = QueryEngine(Catalog.open(str(path)))
            stack.callback(engine.close)
            return engine

        yield open_root


@pytest.fixture
def serve() -> Iterator[Callable[..., GatewayProcess]]:
    """Starts real gateways over catalog roots and stops them after the test."""
    with ExitStack() as stack:
        yield lambda path, *options: stack.enter_context(GatewayProcess(path, *options))
