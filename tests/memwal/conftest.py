"""Fixtures of the tests of the format."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from tests.memwal.written import WrittenTable, keyed_schema

BUCKET = "tables"


@pytest.fixture
def new_table(tmp_path: Path) -> Callable[..., WrittenTable]:
    """Makes empty tables with MemWAL, by default with an int64 key `id` and an int32 column `qty`."""

    def make(schema: pa.Schema | None = None, *, name: str = "t", **mem_wal: Any) -> WrittenTable:
        schema = schema or keyed_schema(pa.field("id", pa.int64()))
        return WrittenTable.create(str(tmp_path / f"{name}.lance"), schema, **mem_wal)

    return make


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
