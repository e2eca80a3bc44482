"""Fixtures that every test may use: the writer process, table roots, engines and servers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow.fs
import pytest

from planner.catalog import Catalog
from planner.engine import QueryEngine
from tests.support.servers import GatewayProcess
from tests.support.writer_process import WriterProcess

BUCKET = "tables"


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


@pytest.fixture(scope="session")
def s3_server() -> Iterator[dict[str, str]]:
    """An S3 server in this process; the storage options that lead to it, as pylance takes them."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - takes a second, for S3 tests only

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "aws_endpoint": f"http://{host}:{port}",
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    pyarrow.fs.S3FileSystem(
        access_key="testing",
        secret_key="testing",
        region="us-east-1",
        endpoint_override=f"{host}:{port}",
        scheme="http",
        allow_bucket_creation=True,
    ).create_dir(BUCKET)
    yield options
    server.stop()


@pytest.fixture
def s3_location(s3_server: dict[str, str], tmp_path: Path) -> tuple[str, dict[str, str]]:
    """An S3 prefix of the test's own, and the storage options that lead to it."""
    return f"s3://{BUCKET}/{tmp_path.name}", s3_server
