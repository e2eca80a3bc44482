"""A table in the middle of its life, on which jobs are tried: killed, raced, and run again."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.support.lake import manifests
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
Rows = dict[int, str]


@dataclass(frozen=True)
class Scenario:
    """A table ``t`` that can be had again and again.

    Attributes:
        path: of the table; it is never changed.
        rows: what it holds.
    """

    path: Path
    rows: Rows

    def copied(self, root: Path) -> LakeTable:
        """The table in a new root."""
        shutil.copytree(self.path, root / "t.lance")
        return LakeTable.at(str(root / "t.lance"))


def built(root: Path, writers: WriterProcess) -> Scenario:
    """Base rows and an index; two regions with three generations each, of which one is merged.

    Among these are rows that were deleted, and rows that were written again after that; the last writes are
    in the logs alone.
    """
    rows = dict.fromkeys(range(8), "base")
    table = LsmTable.create(root, "t", _table(rows), bucketed("id", 2, recorded=True), writers)
    table.dataset().create_scalar_index("id", "BTREE", name="id_index")
    for changed, deleted in (
        ({1: "first", 2: "first", 8: "first", 9: "first"}, (3, 4)),
        ({3: "second", 8: "second"}, (1, 2, 9)),
        ({2: "third", 10: "third", 11: "third"}, (5, 8)),
    ):
        table.put(_records(changed))
        table.delete([{"id": one} for one in deleted])
        rows = {key: value for key, value in (rows | changed).items() if key not in deleted}
        table.close_writers()
        if not manifests.read_merged_generations(table.path):
            merge_generations(table.path, table.region_of({"id": 1}), 1)
    left = {0: "log", 12: "log", 13: "log"}
    table.put(_records(left))
    for writer in table.writers.values():
        writer.abandon()
    return Scenario(table.path, rows | left)


def shown(table: LakeTable) -> Rows:
    """What somebody finds who has nothing open."""
    gateway = EngineGateway(Path(table.uri).parent)
    try:
        found = gateway.read("SELECT id, v FROM t")
        (count,) = gateway.read("SELECT count(*) AS n FROM t")["n"].to_pylist()
    finally:
        gateway.close()
    rows = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert count == found.num_rows == len(rows), (
        f"a key is there twice, or is not counted: {found.to_pylist()}"
    )
    return rows


def _records(rows: Rows) -> list[dict[str, object]]:
    return [{"id": key, "v": value} for key, value in rows.items()]


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(_records(rows), schema=SCHEMA)
