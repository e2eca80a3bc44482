"""The whole pipeline on S3, where files alone decide about commits, and where DynamoDB does."""

import itertools
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, clean, find
from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain
from lance_gateway.pipeline.ingesting.options import IngestOptions
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, TableState
from lance_gateway.pipeline.jobs.runners import Threads
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, snapshot
from lance_gateway.pipeline.status import read_status
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.ingesting import Batch
from tests.support.processes.gateways import EAGER, EngineGateway
from tests.support.stores.failing_s3 import FailingS3, Fate, failing_s3

pytestmark = pytest.mark.slow
BUCKET = "pipeline"
CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR) WITH (region_by = 'bucket(id, 2)')"
Rows = dict[int, str]


@pytest.fixture(params=[pytest.param("s3_location", marks=pytest.mark.soak), "commits_location"])
def location(request: pytest.FixtureRequest) -> tuple[str, dict[str, str]]:
    found: tuple[str, dict[str, str]] = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def failing() -> Iterator[FailingS3]:
    with failing_s3(BUCKET) as server:
        yield server


def shown(gateway: EngineGateway) -> Rows:
    found = gateway.read("SELECT id, v FROM t")
    rows = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(rows) == found.num_rows
    return rows


def batch(table: LakeTable, rows: Rows, number: int) -> Batch:
    given = pa.table({"id": pa.array(rows, pa.int64()), "v": pa.array(rows.values(), pa.string())})
    return Batch(table, given, "job", number, IngestOptions())


def opened(root: str, options: dict[str, str]) -> EngineGateway:
    Storage.open(root, options).put("made", b"")
    return EngineGateway(Catalog.open(root, options, writing=EAGER))


def test_a_table_lives_on_s3(location: tuple[str, dict[str, str]]):
    """Rows come in by batches and by SQL; jobs take them through; every answer stays what it was."""
    gateway = opened(*location)
    try:
        gateway.write(CREATE)
        table = Lake.open(*location).table("t")
        rows = dict.fromkeys(range(6), "first")
        batch(table, rows, 0).run()
        assert batch(table, dict.fromkeys(range(6), "twice"), 0).run() == ()
        gateway.write("DELETE FROM t WHERE id = 2")
        gateway.write("UPDATE t SET v = 'by SQL' WHERE id = 3")
        batch(table, {4: "second", 9: "second"}, 1).run()
        rows = {**dict.fromkeys((0, 1, 5), "first"), 3: "by SQL", 4: "second", 9: "second"}
        assert shown(gateway) == rows
        merge(table)
        build(table, IndexSpec("id", "BTREE"))
        gateway.write("INSERT INTO t VALUES (7, 'late')")
        gateway.flush("t")
        rows |= {7: "late"}
        merge(table)
        maintain(table, IndexPolicy(target_rows=100, max_spare_fragments=0))
        assert shown(gateway) == rows
        if not table.storage.committed_by:
            snapshot(table, SnapshotPolicy(0))
        policy = CleanPolicy(grace_seconds=0, retain_versions=1)
        for _ in range(2):
            clean(table, policy, delete=True, clock=_later)
        assert not find(table, policy, clock=_later)
        assert shown(gateway) == rows
        status = read_status(table)
        assert status.pending_generations == 0
        assert status.rows == len(rows)
        assert table.dataset().count_rows() == len(rows)
    finally:
        gateway.close()


@pytest.fixture
def pending(failing: FailingS3, tmp_path: Path) -> Iterator[tuple[EngineGateway, LakeTable]]:
    """A table with something to merge."""
    root = f"s3://{BUCKET}/{tmp_path.name}"
    gateway = opened(root, failing.options)
    gateway.write(CREATE)
    gateway.write("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    gateway.flush("t")
    gateway.write("DELETE FROM t WHERE id = 3")
    gateway.flush("t")
    yield gateway, Lake.open(root, failing.options).table("t")
    gateway.close()


def _is_merged_by_the_next_run(gateway: EngineGateway, table: LakeTable) -> None:
    assert shown(gateway) == {1: "a", 2: "b"}
    merge(table)
    assert shown(gateway) == {1: "a", 2: "b"}
    assert not any(one.pending for one in TableState.read(table).regions.values())


@pytest.mark.soak
def test_a_merge_is_throttled(failing: FailingS3, pending: tuple[EngineGateway, LakeTable]):
    """From some request on there is no other answer, however often one asks."""
    gateway, table = pending
    failing.arm(lambda number, *_: "throttled" if number >= 20 else None)
    with pytest.raises(UnavailableError):
        merge(table, runner=Threads(1))
    failing.disarm()
    _is_merged_by_the_next_run(gateway, table)


@pytest.mark.soak
@pytest.mark.parametrize("fate", ["refused", "answer lost"])
@pytest.mark.parametrize("number", range(12))
def test_a_write_of_a_merge_fails(
    failing: FailingS3, pending: tuple[EngineGateway, LakeTable], fate: Fate, number: int
):
    """Clearly, or it is sent again and nobody notices."""
    gateway, table = pending
    writes = itertools.count()
    failing.arm(
        lambda _, method, __: fate if method not in ("GET", "HEAD") and next(writes) == number else None
    )
    with suppress(UnavailableError):
        merge(table, runner=Threads(1))
    failing.disarm()
    _is_merged_by_the_next_run(gateway, table)


def _later() -> float:
    return time.time() + 2
