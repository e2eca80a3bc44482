"""Compaction may leave indexes with former addresses of rows, and a record of the new ones for Lance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.pipeline.cleaning import CleanPolicy, Kind, clean
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.engine import QueryEngine
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.tables import key_field

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])


def build_rows(start: int, stop: int) -> pa.Table:
    return pa.table([range(start, stop), [f"word{at % 10}" for at in range(start, stop)]], schema=SCHEMA)


@pytest.fixture
def uri(root: Path) -> str:
    """A table with two indexes whose rows were moved, and a merged generation since."""
    uri = str(root / "t.lance")
    for start in (0, 100, 200):
        lance.write_dataset(build_rows(start, start + 100), uri, mode="append" if start else "create")
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("v", "INVERTED")
    dataset.create_scalar_index("id", "BTREE")
    lance.dataset(uri).initialize_mem_wal(unsharded=True)
    lance.dataset(uri).delete("id % 7 = 5")
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
    assert "__lance_frag_reuse" in {one.name for one in lance.dataset(uri).describe_indices()}
    return uri


@pytest.mark.slow
def test_the_record_is_no_index_of_a_user(
    uri: str, root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    lake, table = Lake(open_engine(root)), LakeTable.at(uri)
    expected = [at for at in range(3, 300, 10) if at % 7 != 5]

    def check() -> None:
        found = lake.read("SELECT id FROM lance_fts('t', 'v', 'word3', k => 100) ORDER BY id")
        assert [row["id"] for row in found] == expected
        assert lake.read("SELECT id, v FROM t WHERE id = 203") == [{"id": 203, "v": "word3"}]

    check()
    names = lake.read("SELECT index_name n FROM system.indexes ORDER BY n")
    assert [row["n"] for row in names] == ["id_idx", "v_idx"]
    lake.write("INSERT INTO t VALUES (303, 'word3')")
    lake.write("UPDATE t SET v = 'word4' WHERE id = 3")
    expected = [*expected[1:], 303]
    check()
    lake.engine.catalog.table("t").writer().flush()
    assert merge(table).left == 0
    check()
    assert maintain(table).optimised == ("id_idx", "v_idx")
    assert not maintain(table).reasons
    check()
    report = clean(table, CleanPolicy(0, 0, 1), delete=True, clock=lambda: 4_000_000_000)
    assert [one.kind for one in report.garbage if one.kind is Kind.GENERATIONS], "no index holds it back"
    check()
    lake.write("CREATE TABLE clone CLONE t")
    assert lake.read("SELECT count(*) n FROM clone") == lake.read("SELECT count(*) n FROM t")
