"""Manifests with names of Lance's first scheme: what that refuses is named, and can be mended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import PreconditionError, UnsupportedError
from lance_gateway.pipeline.jobs.lake import Lake as JobLake
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.keeping.keeper import Keeper
from lance_gateway.pipeline.keeping.policy import Policies
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.planner.engine import QueryEngine
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.tables import key_field

NAMED = r"names of Lance's first scheme .* ALTER TABLE \.\. SET \(v2_manifest_paths = true\)"
RENAME = "ALTER TABLE t SET (v2_manifest_paths = true)"


def create(root: Path, *, is_keyed: bool, has_mem_wal: bool = True) -> str:
    uri = str(root / "t.lance")
    key = key_field("id", pa.int64()) if is_keyed else pa.field("id", pa.int64())
    schema = pa.schema([key, pa.field("v", pa.string())])
    rows = pa.table([[1, 2], ["a", "b"]], schema=schema)
    dataset = lance.write_dataset(rows, uri, enable_v2_manifest_paths=False)
    if has_mem_wal:
        dataset.initialize_mem_wal(unsharded=True)
    return uri


def list_names(uri: str) -> set[int]:
    """Lengths of the names of manifests: names of the second scheme have 20 digits."""
    return {len(path.stem) for path in Path(uri, "_versions").glob("*.manifest")}


@pytest.fixture
def open_lake(open_engine: Callable[[Path], QueryEngine]) -> Callable[[Path], Lake]:
    return lambda root: Lake(open_engine(root))


@pytest.mark.slow
def test_what_lance_refuses_is_named_and_works_afterwards(
    root: Path, open_lake: Callable[[Path], Lake]
) -> None:
    uri = create(root, is_keyed=False)
    lake, other = open_lake(root), open_lake(root)
    lake.write("INSERT INTO t VALUES (3, 'c')")
    lake.write("CREATE TAG made ON t")
    refused = (
        "UPDATE t SET v = 'x' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "ALTER TABLE t SET (maintained_indexes = '')",
    )
    for sql in refused:
        with pytest.raises(PreconditionError, match=NAMED):
            lake.write(sql)
    lake.engine.catalog.table("t").writer().flush()
    for job in (merge, snapshot):
        with pytest.raises(PreconditionError, match=NAMED):
            job(LakeTable.at(uri))  # type: ignore[operator]
    assert len(other.read("SELECT * FROM t")) == 3
    lake.write(RENAME)
    assert list_names(uri) == {20}
    for reader in (lake, other, open_lake(root)):
        assert reader.read("SELECT * FROM t ORDER BY id") == [
            {"id": 1, "v": "a"},
            {"id": 2, "v": "b"},
            {"id": 3, "v": "c"},
        ]
    lake.write(RENAME)  # changes nothing
    other.write("ALTER TABLE t ADD COLUMN w INT")
    other.write("ALTER TABLE t DROP COLUMN w")
    assert list_names(uri) == {20}, "a gateway that knew the former names goes on with the new ones"
    for sql in refused:
        other.write(sql)
    assert merge(LakeTable.at(uri)).left == 0
    assert snapshot(LakeTable.at(uri)).committed is not None
    for reader in (lake, other):
        reader.write("INSERT INTO t VALUES (4, 'd')")
        assert len(reader.read("SELECT * FROM t VERSION AS OF 'made'")) == 3
    found = [{"id": 1, "v": "x"}, {"id": 3, "v": "c"}, {"id": 4, "v": "d"}, {"id": 4, "v": "d"}]
    assert lake.read("SELECT * FROM t ORDER BY id") == found
    assert other.read("SELECT * FROM t ORDER BY id") == found


@pytest.mark.slow
def test_a_key_is_added_and_rows_are_written_without_a_mem_wal(
    root: Path, open_lake: Callable[[Path], Lake]
) -> None:
    create(root, is_keyed=False, has_mem_wal=False)
    lake = open_lake(root)
    for sql in ("INSERT INTO t VALUES (3, 'c')", "ALTER TABLE t ADD PRIMARY KEY (id)"):
        with pytest.raises(PreconditionError, match=NAMED):
            lake.write(sql)
    assert len(list((root / "t.lance" / "data").iterdir())) == 1, "no files of refused rows are left"
    lake.write(RENAME)
    lake.write("INSERT INTO t VALUES (3, 'c')")
    lake.write("ALTER TABLE t ADD PRIMARY KEY (id)")
    assert lake.read("SELECT count(*) n FROM t") == [{"n": 3}]


def test_the_old_names_do_not_come_back(root: Path, open_lake: Callable[[Path], Lake]) -> None:
    create(root, is_keyed=True)
    with pytest.raises(UnsupportedError, match="v2_manifest_paths can't be set to false"):
        open_lake(root).write("ALTER TABLE t SET (v2_manifest_paths = false)")


@pytest.mark.slow
def test_jobs_that_are_not_refused_go_on(
    root: Path, open_lake: Callable[[Path], Lake], caplog: pytest.LogCaptureFixture
) -> None:
    uri = create(root, is_keyed=True)
    lake = open_lake(root)
    lake.write("INSERT INTO t VALUES (3, 'c')")
    lake.engine.catalog.table("t").writer().flush()
    now = 0.0
    keeper = Keeper(JobLake.open(str(root)), Policies(), clock=lambda: now)
    with caplog.at_level(logging.WARNING):
        rounds = [keeper.round() for _ in range(3)]
    assert [one.tables for one in rounds] == [("t",)] * 3, "the table is not left alone"
    assert ["first scheme" in one.failed["t"] for one in rounds] == [True] * 3
    assert len([one for one in caplog.records if "snapshot can't be done" in one.message]) == 1
    assert lance.dataset(uri).count_rows() == 3, "it was merged"
    lake.write(RENAME)
    now = 1000.0  # A table that has not changed is looked at again after a while.
    assert not keeper.round().failed
