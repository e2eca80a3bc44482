"""Entries of the log that are removed, and writers that have lost their region and do not know it."""

import random
from contextlib import closing
from pathlib import Path

import pytest

from lance_gateway.memwal.regions.wal import read_wal_entry
from lance_gateway.pipeline.cleaning import CleanPolicy, Kind
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake import manifests
from tests.support.lake.cleaning import NEWEST_ONLY, CleanedTable, Open, filter_kind, read_rows
from tests.support.lake.wal import read_log
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.writer_process import FencedError, RegionWriter, WriterProcess
from tests.support.stores.faults import open_faulty_storage


@pytest.fixture
def kept(root: Path, writers: WriterProcess) -> CleanedTable:
    return CleanedTable.create(root, writers)


def fences(kept: CleanedTable) -> list[int]:
    return [one.position for one in read_log(kept.path, kept.region) if one.rows is None]


def put(writer: RegionWriter, kept: CleanedTable, value: str, keys: range = range(1, 4)) -> None:
    for key in keys:
        writer.put([{"id": key, "v": value}])
        kept.rows[key] = value


def merge_all(kept: CleanedTable) -> None:
    done = manifests.read_merged_generations(kept.path).get(kept.region, 0)
    if kept.list_generations()[-1:] > [done]:
        kept.merge(kept.list_generations()[-1])


def assert_fenced(zombie: RegionWriter, kept: CleanedTable) -> None:
    before = kept.list_positions()
    for _ in range(3):
        with pytest.raises(FencedError):
            zombie.put([{"id": 1, "v": "zombie"}])
    assert kept.list_positions() == before, "what is refused leaves nothing"


def claim(kept: CleanedTable) -> RegionWriter:
    """A writer that holds on to the region whoever claims it next."""
    return kept.table.process.open(kept.path, kept.region)


def claim_without_fence(kept: CleanedTable) -> None:
    """As a writer leaves it that is stopped in between."""
    manifest = manifests.read_manifest(kept.path, kept.region)
    manifest.version += 1
    manifest.writer_epoch += 1
    manifests.write_manifest(kept.path, manifest)


@pytest.mark.slow
def test_entries_go_when_they_are_flushed_and_merged_and_fences_stay(
    kept: CleanedTable, root: Path, open_engine: Open
):
    for value in ("first", "second"):
        kept.write_generation(value)
    kept.put({7: "log"})
    engine = open_engine(root)
    kept.check(engine)
    assert not filter_kind(kept.clean(), Kind.LOG), "nothing is merged"
    kept.merge(1)
    kept.clean()
    assert kept.list_positions() == [5, 6, 7, 8, 9, 10, 11], (
        "four entries, a fence, four entries, a fence, one"
    )
    kept.check(engine)
    kept.merge(2)
    kept.clean()
    assert kept.list_positions() == [5, 10, 11]
    assert fences(kept) == [5, 10]
    kept.check(engine)
    kept.check(open_engine(root))


def test_entries_stay_while_readers_may_go_by_the_manifest_before(kept: CleanedTable):
    kept.write_generation("first")
    kept.merge(1)
    assert not filter_kind(kept.find(hours=0), Kind.LOG)
    assert filter_kind(kept.find(CleanPolicy(grace_seconds=0), hours=0), Kind.LOG)


@pytest.mark.slow
@pytest.mark.parametrize("appended", [0, 1, 4], ids=["never wrote", "wrote once", "wrote often"])
def test_a_writer_that_lost_its_region_is_refused_however_late(
    kept: CleanedTable,
    root: Path,
    open_engine: Open,
    appended: int,
):
    """One of each epoch: each was the region's writer once, and all of its entries are removed since."""
    lost = []
    for epoch in range(1, 5):
        lost.append(claim(kept))
        put(lost[-1], kept, f"epoch {epoch}", range(1, appended + 1))
    for value in ("new", "newer", "newest"):
        kept.write_generation(value)
        merge_all(kept)
        for hours in (1, 2):
            kept.clean(hours=hours)
    assert kept.list_positions() == fences(kept) or kept.list_positions()[:-1] == fences(kept)
    for zombie in lost:
        assert_fenced(zombie, kept)
    kept.check(open_engine(root))
    kept.write_generation("after")
    kept.check(open_engine(root))


def test_without_the_fence_a_lost_writer_would_be_believed(kept: CleanedTable, root: Path, open_engine: Open):
    """Why fences stay: what Lance does where one is missing."""
    lost = claim(kept)
    put(lost, kept, "lost")
    kept.write_generation("new")
    (fence,) = fences(kept)
    (kept.path / "_mem_wal" / kept.region / "wal" / f"{f'{fence:064b}'[::-1]}.arrow").unlink()
    lost.append([{"id": 1, "v": "acknowledged"}])
    assert read_wal_entry(kept.lake.storage, kept.region, fence).writer_epoch == 1
    kept.check(open_engine(root))  # Nobody sees the row, which was acknowledged.


@pytest.mark.slow
def test_a_flush_of_a_lost_writer_is_refused_too(kept: CleanedTable, root: Path, open_engine: Open):
    lost = claim(kept)
    put(lost, kept, "before")
    for value in ("new", "newer"):
        kept.write_generation(value)
        merge_all(kept)
        kept.clean()
    with pytest.raises(Exception, match="fenced"):
        lost.close()
    kept.clean(hours=2)
    assert kept.list_generation_names() == set()
    kept.check(open_engine(root))


@pytest.mark.slow
def test_entries_stay_where_a_claim_may_not_have_come_to_its_fence(kept: CleanedTable):
    """Its writer may go on at any position that was free when it looked."""
    kept.write_generation("first")
    kept.merge(1)
    claim_without_fence(kept)
    kept.flushed = kept.rows
    assert any("epoch 2 left no fence between 1 and 4" in one.reason for one in kept.find().kept)
    for value in ("second", "third"):
        kept.write_generation(value)
        merge_all(kept)
    report = kept.clean()
    assert any("epoch 2 left no fence between 1 and 5" in one.reason for one in report.kept)
    assert kept.list_positions() == [1, 2, 3, 4, 5, 10, 14]


@pytest.mark.slow
def test_the_next_claim_finds_the_end_of_the_log(kept: CleanedTable, root: Path, open_engine: Open):
    """Whatever was removed: its fence is behind the newest entry, and its rows are read."""
    rng = random.Random(5)
    engine = open_engine(root)
    for number in range(10):
        last = max(kept.list_positions(), default=0)
        writer = kept.table.process.open(
            kept.path, kept.region, max_memtable_rows=rng.choice([2, 3, 100]), max_wal_buffer_size=1
        )
        found = fences(kept)
        assert max(kept.list_positions(), default=0) == (last + 1 if number else 0)
        assert not number or found[-1] == last + 1
        put(writer, kept, f"v{number}", range(1, rng.randrange(2, 7)))
        if rng.random() < 0.7:
            writer.close()
            kept.flushed = dict(kept.rows)
        else:
            writer.abandon()
        if rng.random() < 0.6 and kept.list_generations():
            merge_all(kept)
        kept.clean(hours=number + 1)
        assert read_rows(engine, "t") == kept.rows
        manifest = manifests.read_manifest(kept.path, kept.region)
        after = manifest.replay_after_wal_entry_position
        tail = [one for one in kept.list_positions() if one > after]
        assert tail == list(range(after + 1, after + 1 + len(tail))), "no gap behind what is flushed"


@pytest.mark.parametrize("number", range(3))
def test_a_reader_that_is_stopped_before_the_log_finds_its_rows_elsewhere(
    root: Path, writers: WriterProcess, number: int
):
    """It has a manifest by which entries are unflushed that are removed then, and others follow them.

    So it is while a generation is flushed: rows of the next are acknowledged before the manifest is there.
    """
    kept = CleanedTable.create(root, writers, max_memtable_rows=4)
    kept.put({1: "flushed", 2: "flushed", 3: "flushed", 4: "flushed", 5: "unflushed"})
    assert kept.list_generations() == [1]
    newest = manifests.find_newest_version(kept.path, kept.region)
    path = manifests.build_manifest_path(kept.path, kept.region, newest)
    hint = path.with_name("version_hint.json")
    path.rename(path.with_suffix(".coming"))
    hint.write_text(f'{{"version":{newest - 1}}}')

    storage, backend = open_faulty_storage(root)
    engine = QueryEngine(Catalog(storage, writing=None))
    looked: list[str] = []

    def meanwhile_cleaned(_number: int, name: str, at: str) -> None:
        if name == "exists" and "/wal/" in at:
            looked.append(at)
            if len(looked) == number + 1:
                path.with_suffix(".coming").rename(path)
                hint.write_text(f'{{"version":{newest}}}')
                kept.merge(1)
                kept.clean(CleanPolicy())
                assert 1 not in kept.list_positions()

    backend.arm(meanwhile_cleaned)
    assert read_rows(engine, "t") == kept.rows
    assert len(looked) > number
    engine.close()


@pytest.mark.slow
def test_a_gateway_reads_and_writes_on_while_its_log_is_removed(kept: CleanedTable, root: Path):
    """It holds what it wrote in memory, and knows positions that are gone."""
    with closing(EngineGateway(root)) as gateway:
        for number in range(6):
            gateway.write(f"INSERT INTO t VALUES (1, 'a{number}'), (2, 'b{number}')")
            gateway.write(f"UPDATE t SET v = 'c{number}' WHERE id = 2")
            if number % 2:
                gateway.flush("t")
            region = manifests.list_region_ids(kept.path)[0]
            listed = manifests.read_manifest(kept.path, region).flushed_generations
            done = manifests.read_merged_generations(kept.path).get(region, 0)
            if listed and listed[-1].generation > done:
                kept.merge(listed[-1].generation, region)
            kept.clean(NEWEST_ONLY, hours=number + 1)
            for consistency in ("strong", "strong"):
                shown = gateway.read("SELECT id, v FROM t WHERE id IN (1, 2) ORDER BY id", consistency)
                assert shown["v"].to_pylist() == [f"a{number}", f"c{number}"]
