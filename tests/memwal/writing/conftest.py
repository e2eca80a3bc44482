"""Tables that writers of ours and of Lance write to."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import TableWriter, WriteOptions
from tests.memwal.written import WrittenTable, keyed_schema

WAIT_SECONDS = 120.0


def until(condition: Callable[[], bool]) -> None:
    """Returns once a condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    """One region for all keys: `id`, `qty`, `name`."""
    schema = keyed_schema(
        pa.field("id", pa.int64()), values=(pa.field("qty", pa.int32()), pa.field("name", pa.string()))
    )
    return WrittenTable.create(str(tmp_path / "t.lance"), schema, unsharded=True)


@pytest.fixture
def bucketed(tmp_path: Path) -> WrittenTable:
    """Four buckets of `id`."""
    schema = keyed_schema(pa.field("id", pa.int64()))
    return WrittenTable.create(str(tmp_path / "b.lance"), schema, bucket_column="id", num_buckets=4)


@pytest.fixture
def writing() -> Iterator[Callable[..., TableWriter]]:
    """Opens writers of tables and closes them after the test."""
    with ExitStack() as stack:

        def open_writer(table: WrittenTable, **options: Any) -> TableWriter:
            name = Path(table.uri).stem
            writer = TableWriter(name, table.storage, WriteOptions(**{"hold_ms": 0, **options}))
            stack.callback(writer.close, 5.0)
            return writer

        yield open_writer
