"""Rows that come by Spark are where the gateway would have put them."""

import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.storage.files import generation_directory
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from tests.oracle.replay.flavours import FLAVOURS, Flavour
from tests.pipeline.attempts import write
from tests.support.lake.tables import LsmTable, Row
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

pytestmark = pytest.mark.slow

EVERY = [pytest.param(one, id=f"{kind}-{one}") for kind, flavours in FLAVOURS.items() for one in flavours]
TEXTS = ("", "a", "abc", "abcde", "é", "tenant-1", "zz9", "a")


def keys(flavour: Flavour) -> list[Row]:
    found: list[Row] = []
    for at, text in enumerate(TEXTS):
        values: dict[str, Any] = {}
        for one in flavour.key:
            values[one.name] = text if pa.types.is_string(one.type) else at * 37 - 300
        found.append(values)
    return list({tuple(one.values()): one for one in found}.values())


def by_region(table: LakeTable) -> dict[str, list[Row]]:
    """Flushed rows, of each region that has any."""
    found = {}
    for one in TableState.read(table).regions.values():
        for generation in one.pending:
            path = table.storage.locate(generation_directory(one.region_id, generation.path))
            rows = lance.dataset(path).to_table().drop_columns(["_tombstone"]).to_pylist()
            found[one.region_id] = sorted(rows, key=repr)
    return found


@pytest.mark.parametrize("flavour", sample(EVERY, 10))
def test_rows_are_where_the_gateway_puts_them(
    root: Path, tmp_path: Path, writers: WriterProcess, flavour: Flavour
):
    follows = [pa.field(name, pa.date32()) for name in flavour.follows]
    schema = pa.schema([*flavour.key, *follows, pa.field("v", pa.string())])
    rows = [
        {**key, **{name: find(key) for name, find in flavour.follows.items()}, "v": "new"}
        for key in keys(flavour)
    ]
    LsmTable.create(root, "t", schema.empty_table(), flavour.layout, writers)
    new = pa.Table.from_pylist(rows, schema=schema)
    others = tmp_path / "others"
    shutil.copytree(root, others)
    by_sql = EngineGateway(root)
    names = ", ".join(schema.names)
    by_sql.write_many(f"INSERT INTO t ({names}) VALUES ({', '.join('?' for _ in schema)})", new)
    by_sql.close()
    table = LakeTable.at(str(others / "t.lance"))
    write(table, new)
    found = by_region(table)
    assert sorted(map(repr, chain(*found.values()))) == sorted(map(repr, rows))
    assert found == by_region(LakeTable.at(str(root / "t.lance")))


def test_regions_of_which_nobody_recorded_their_rows_are_left_alone(root: Path, writers: WriterProcess):
    (flavour, *_) = FLAVOURS["int64"]
    schema = pa.schema([*flavour.key, pa.field("v", pa.string())])
    table = LsmTable.create(root, "t", schema.empty_table(), flavour.layout, writers)
    table.put([{"id": one, "v": "theirs"} for one in range(9)])
    table.close_writers()
    with pytest.raises(PreconditionError, match="no region spec that says which rows belong where"):
        write(LakeTable.at(str(table.path)), pa.Table.from_pylist([{"id": 1, "v": "ours"}], schema=schema))
