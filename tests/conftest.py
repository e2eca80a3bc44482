"""Fixtures that every test may use: the writer process, table roots, engines and servers."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.fs
import pytest
from hypothesis import HealthCheck, settings

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.processes.servers import GatewayProcess
from tests.support.processes.writer_process import WriterProcess
from tests.support.specification import find_functions, list_proven, watch_calls

# A machine that has much else to do is not a failure.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

BUCKET = "tables"
COMMITS = "commits"


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A test that `docs/specification.md` names runs the function that it is said to prove."""
    rules = list_proven(pyfuncitem.nodeid.partition("[")[0])
    if not rules:
        return (yield)
    functions = {rule.function: find_functions(rule.function) for rule in rules}
    with watch_calls({one for found in functions.values() for one in found}) as called:
        result = yield
    unused = [name for name, found in functions.items() if called.isdisjoint(found)]
    assert not unused, f"docs/specification.md says that this test proves {unused}, but it does not run it"
    return result


@pytest.fixture(scope="session", autouse=True)
def own_runtime_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Gateways keep what their processes share in a directory of the session, and not of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """What a test says of logging (commands do so) ends with it: its streams are closed then."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


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
    from moto.s3.responses import S3Response  # noqa: PLC0415 - takes a second, for S3 tests only
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    put, turn = S3Response._key_response_put, threading.Lock()

    def put_alone(*arguments: Any) -> Any:
        with turn:
            return put(*arguments)

    # moto looks whether an object exists, and then stores it; S3 does both at once, as racers need it.
    patched = patch.object(S3Response, "_key_response_put", put_alone)
    patched.start()
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
    patched.stop()


@pytest.fixture(scope="session")
def commits_server(s3_server: dict[str, str]) -> dict[str, str]:
    """The same server with a DynamoDB table that decides about commits to tables on its S3."""
    import boto3  # noqa: PLC0415 - takes a second, for S3 tests only

    client = boto3.client(
        "dynamodb",
        endpoint_url=s3_server["aws_endpoint"],
        aws_access_key_id=s3_server["aws_access_key_id"],
        aws_secret_access_key=s3_server["aws_secret_access_key"],
        region_name=s3_server["aws_region"],
    )
    client.create_table(
        TableName=COMMITS,
        KeySchema=[
            {"AttributeName": "base_uri", "KeyType": "HASH"},
            {"AttributeName": "version", "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": "base_uri", "AttributeType": "S"},
            {"AttributeName": "version", "AttributeType": "N"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return {**s3_server, "dynamodb_endpoint": s3_server["aws_endpoint"]}


@pytest.fixture
def commits_location(commits_server: dict[str, str], tmp_path: Path) -> tuple[str, dict[str, str]]:
    """An S3 prefix of the test's own whose commits go through DynamoDB, and its storage options."""
    return f"s3+ddb://{BUCKET}/{tmp_path.name}?ddbTableName={COMMITS}", commits_server


@pytest.fixture
def s3_location(s3_server: dict[str, str], tmp_path: Path) -> tuple[str, dict[str, str]]:
    """An S3 prefix of the test's own, and the storage options that lead to it."""
    return f"s3://{BUCKET}/{tmp_path.name}", s3_server
