"""A table with generations in two regions."""

from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from tests.pipeline.snapshotting.remembered import SCHEMA, rows
from tests.support.lake.tables import LsmTable, bucketed
from tests.support.processes.writer_process import WriterProcess


@pytest.fixture
def written(root: Path, writers: WriterProcess) -> LsmTable:
    """Ten rows in the base, and a generation over some of them in each of two regions."""
    base = pa.Table.from_pylist(rows(*range(10), v="base"), schema=SCHEMA)
    table = LsmTable.create(root, "t", base, bucketed("id", 2, recorded=True), writers)
    table.put(rows(*range(6), v="first"))
    table.close_writers()
    return table


@pytest.fixture
def table(root: Path, written: LsmTable) -> LakeTable:
    return Lake.open(str(root)).table(written.name)
