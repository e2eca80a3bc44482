"""What merging does to a table, and what it never does."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from memwal.errors import PreconditionError
from pipeline.lake import Lake
from pipeline.merging import merge
from pipeline.state import TableState
from tests.support.tables import LsmTable, bucketed, key_field
from tests.support.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> LsmTable:
    rows = pa.Table.from_pylist([{"id": one, "v": "base"} for one in range(10)], schema=SCHEMA)
    return LsmTable.create(root, "t", rows, bucketed("id", 3, recorded=True), writers)


def test_the_base_table_has_the_newest_rows_and_the_progress(root: Path, table: LsmTable):
    for value in ("first", "second"):
        table.put([{"id": one, "v": value} for one in range(5, 15)])
        table.delete([{"id": 7}])
        table.close_writers()
    merge(Lake.open(str(root)).table("t"))
    rows = {row["id"]: row["v"] for row in table.dataset().to_table().to_pylist()}
    assert rows == {
        **dict.fromkeys(range(5), "base"),
        **{one: "second" for one in range(5, 15) if one != 7},
    }
    state = TableState.read(Lake.open(str(root)).table("t"))
    assert [one.pending for one in state.regions.values()] == [(), (), ()]
    assert all(one.done for one in state.regions.values())


def test_a_table_without_mem_wal_is_refused(root: Path):
    lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
    with pytest.raises(PreconditionError, match="'plain' has no MemWAL"):
        merge(Lake.open(str(root)).table("plain"))
