"""Fixtures of the tests of the format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.memwal.written import WrittenTable, keyed_schema


@pytest.fixture
def new_table(tmp_path: Path) -> Callable[..., WrittenTable]:
    """Makes empty tables with MemWAL, by default with an int64 key `id` and an int32 column `qty`."""

    def make(schema: pa.Schema | None = None, *, name: str = "t", **mem_wal: Any) -> WrittenTable:
        schema = schema or keyed_schema(pa.field("id", pa.int64()))
        return WrittenTable.create(str(tmp_path / f"{name}.lance"), schema, **mem_wal)

    return make
