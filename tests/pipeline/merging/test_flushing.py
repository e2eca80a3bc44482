"""Logs whose owners are gone are flushed and merged; those of the living never are."""

import os
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.manifest import RegionManifest
from lance_gateway.memwal.writing import flush_abandoned, is_abandoned
from lance_gateway.memwal.writing.region.abandoned import WRITERS
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, TableState
from lance_gateway.pipeline.keeping import Keeper, Policies
from lance_gateway.pipeline.keeping.keeper import flush_logs
from tests.pipeline.scenario import SCHEMA
from tests.support.lake.tables import LsmTable, bucketed
from tests.support.processes.gateways import EngineGateway, ServedGateway
from tests.support.processes.writer_process import WriterProcess

CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR) WITH (region_by = 'bucket(id, 2)')"
AFTER = 300.0
Rows = dict[int, str]


def wait_for_sign(root: Path) -> Path:
    """The heartbeat of the one writer of the table."""
    directory = root / "t.lance" / WRITERS
    while not directory.is_dir() or not (
        found := [one for one in directory.iterdir() if "#" not in one.name]
    ):
        os.sched_yield()
    (sign,) = found
    return sign


def age(*paths: Path) -> None:
    """Let files be older than any log may be."""
    for path in paths:
        written = path.stat().st_mtime - AFTER - 1
        os.utime(path, (written, written))


def age_logs(root: Path) -> None:
    age(*(root / "t.lance" / "_mem_wal").glob("*/wal/*.arrow"))


def base_rows(table: LakeTable) -> Rows:
    return {row["id"]: row["v"] for row in table.dataset().to_table().to_pylist()}


def table_of(root: Path) -> LakeTable:
    return Lake.open(str(root)).table("t")


def manifests(table: LakeTable) -> list[RegionManifest]:
    return [region.manifest for region in TableState.read(table).regions.values()]


@pytest.fixture
def written(gateway: EngineGateway) -> Rows:
    """Rows in two logs, whose owner is a gateway of this process."""
    gateway.write(CREATE)
    gateway.write("INSERT INTO t VALUES " + ", ".join(f"({one}, 'a')" for one in range(8)))
    gateway.write("DELETE FROM t WHERE id = 3")
    return {one: "a" for one in range(8) if one != 3}


class TestTheLiving:
    def test_an_owner_that_only_waits_keeps_its_log(self, root: Path, gateway: EngineGateway, written: Rows):
        wait_for_sign(root)
        age_logs(root)
        table = table_of(root)
        assert not any(is_abandoned(table.storage, one, AFTER) for one in manifests(table))
        assert Keeper(Lake.open(str(root)), Policies()).round().failed == {}
        assert base_rows(table) == {}
        assert all(stat.is_open for stat in gateway.engine.catalog.table("t").writer().stats())
        assert gateway.read("SELECT id FROM t").num_rows == len(written)

    def test_an_owner_that_appends_is_alive_without_a_sign(self, root: Path, written: Rows):
        age(wait_for_sign(root))
        assert written
        assert flush_logs(table_of(root), AFTER).regions == ()

    def test_writers_that_leave_no_sign_are_never_taken_for_dead(self, root: Path, writers: WriterProcess):
        made = LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 2, recorded=True), writers)
        made.put([{"id": 1, "v": "a"}])
        age_logs(root)
        assert flush_logs(table_of(root), AFTER).regions == ()
        made.put([{"id": 1, "v": "b"}])  # It was not fenced off.

    def test_a_region_that_was_taken_over_is_left_to_its_new_owner(
        self, root: Path, gateway: EngineGateway, written: Rows
    ):
        table = table_of(root)
        before = manifests(table)
        other = EngineGateway(root)
        other.write("INSERT INTO t VALUES (0, 'b'), (1, 'b'), (2, 'b'), (5, 'b')")
        newest = manifests(table)
        assert not any(flush_abandoned(table.name, table.storage, one) for one in before)
        assert manifests(table) == newest
        other.write("INSERT INTO t VALUES (0, 'c')")
        assert gateway.read("SELECT id FROM t").num_rows == len(written)
        other.close()


class TestTheGone:
    def test_a_killed_gateways_log_is_flushed_and_merged(self, root: Path):
        killed = ServedGateway(root)
        killed.write(CREATE)
        killed.write("INSERT INTO t VALUES " + ", ".join(f"({one}, 'a')" for one in range(8)))
        sign = wait_for_sign(root)
        killed.process.kill()
        keeper = Keeper(Lake.open(str(root)), Policies())
        assert keeper.round().failed == {}
        assert base_rows(table_of(root)) == {}
        age(sign)
        age_logs(root)
        keeper = Keeper(Lake.open(str(root)), Policies())
        assert keeper.round().failed == {}
        assert base_rows(table_of(root)) == dict.fromkeys(range(8), "a")
        assert keeper.round().did == 0
        killed.close()

    def test_the_owner_that_wakes_up_goes_on(self, root: Path, gateway: EngineGateway, written: Rows):
        age(wait_for_sign(root))
        age_logs(root)
        table = table_of(root)
        assert len(flush_logs(table, AFTER).regions) == 2
        assert flush_logs(table, AFTER).regions == ()
        while True:
            try:
                gateway.write("INSERT INTO t VALUES (3, 'b'), (100, 'b')")
                break
            except UnavailableError:
                continue  # Nothing was written, since the region was taken over.
        read = gateway.read("SELECT id, v FROM t")
        rows = dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))
        assert rows == written | {3: "b", 100: "b"}

    def test_a_log_that_was_let_go_needs_no_sign(self, root: Path, gateway: EngineGateway, written: Rows):
        gateway.engine.catalog.table("t").writer().release_regions()
        age_logs(root)
        assert written
        assert len(flush_logs(table_of(root), AFTER).regions) == 2

    def test_an_owner_that_ends_leaves_no_sign(self, root: Path):
        gateway = EngineGateway(root)
        gateway.write(CREATE)
        gateway.write("INSERT INTO t VALUES (1, 'b')")
        sign = wait_for_sign(root)
        gateway.close()
        assert not sign.exists()
