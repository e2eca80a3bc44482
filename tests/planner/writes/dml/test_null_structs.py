"""Fields of NULL structs are NULL from the log on, as they are after a flush."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.writes.dml.ingest import prepare_ingest
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.tables import key_field
from tests.support.null_structs import READS, null_structs

ROWS = null_structs()
SELECTED = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(READS))


@pytest.fixture(params=["own", "read", "flushed"])
def lake(
    request: pytest.FixtureRequest, tmp_path: Path, open_engine: Callable[[Path], QueryEngine]
) -> Iterator[Lake]:
    """A table whose rows are in the log of this process, in that of Lance's writer, or in a generation."""
    schema = pa.schema([key_field("id", pa.int64()), *list(ROWS.schema)[1:]])
    table = tmp_path / "d.lance"
    made = lance.write_dataset(schema.empty_table(), str(table))
    made.initialize_mem_wal(unsharded=True)
    lake = Lake(open_engine(tmp_path))
    if request.param == "own":
        ingest = prepare_ingest(lake.engine, TableName("d"), ROWS.schema, lake.settings, lake.access)
        ingest.execute(iter(ROWS.to_batches()), RunControl())
        yield lake
        return
    writer = lance.dataset(str(table)).mem_wal_writer(str(uuid.uuid4()), durable_write=True)
    writer.put(ROWS.cast(schema).to_reader())
    if request.param == "flushed":
        writer.close()
    yield lake
    if request.param == "read":
        writer.close()


def test_fields_of_null_structs_are_null(lake: Lake) -> None:
    rows = lake.read(f"SELECT {SELECTED} FROM d ORDER BY id")
    assert [list(row.values()) for row in rows] == [
        list(values) for values in zip(*READS.values(), strict=True)
    ]
    assert lake.read("SELECT id FROM d WHERE st['a'] IS NULL") == [{"id": 1}]
    assert lake.read("SELECT count(st['a']) AS n FROM d") == [{"n": 1}]
    unnested = lake.read("SELECT one['a'] AS a FROM (SELECT id, UNNEST(ls) AS one FROM d) ORDER BY id")
    assert unnested == [{"a": None}, {"a": 5}]
