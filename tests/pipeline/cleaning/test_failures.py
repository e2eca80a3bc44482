"""Cleaning that is stopped anywhere, that others come in between of, and on S3."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.regions.manifest import list_regions, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, Kind, clean, find, remove
from lance_gateway.pipeline.cleaning.region_tasks import LookAtRegion
from lance_gateway.pipeline.cleaning.versions import list_named_versions, read_base, read_past
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable
from lance_gateway.pipeline.jobs.runners import Threads
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake import manifests
from tests.support.lake.cleaning import (
    NEWEST_ONLY,
    CleanedTable,
    Open,
    create_late_clock,
    filter_kind,
    read_rows,
)
from tests.support.processes.gateways import EAGER, EngineGateway
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample
from tests.support.stores.faults import FaultyBackend, How, open_faulty_storage

WRITES = {"put", "put_if_absent", "delete", "delete_each", "delete_below"}
FILES_ONLY = replace(NEWEST_ONLY, kinds=tuple(kind for kind in Kind if kind is not Kind.VERSIONS))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> CleanedTable:
    """A table that has garbage of each kind, of which some can go now and some must go first."""
    root = tmp_path_factory.mktemp("prepared")
    made = CleanedTable.create(root, shared_writers)
    made.write_generation("first")
    made.merge(1)
    made.clean()
    for value in ("second", "third"):
        made.write_generation(value)
    made.merge(2)
    made.lake.storage.put("_gateway/ingest/once-5ba3e2d4/0.done", b"")
    storage = made.lake.storage
    storage.put(f"_mem_wal/{made.region}/wal/{'1' * 64}.arrow.tmp.0-1", b"half")
    # Versions are removed by Lance, whose files are not ours.
    dataset = made.table.dataset()
    gone = [one["version"] for one in dataset.versions()][:-1]
    dataset.cleanup_old_versions(versions=gone)
    return made


def stopped(prepared: CleanedTable, root: Path) -> tuple[CleanedTable, LakeTable, FaultyBackend]:
    """A copy of the table, and storage that can be told to fail."""
    copy = prepared.copy_to(root)
    storage, backend = open_faulty_storage(copy.path)
    return copy, LakeTable("t", storage), backend


def everything(table: LakeTable, *, hours: float = 30) -> None:
    clean(table, FILES_ONLY, delete=True, runner=Threads(1), clock=create_late_clock(hours))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.soak
def test_whatever_call_is_the_last_the_next_run_finds_the_rest(
    prepared: CleanedTable, tmp_path: Path, open_engine: Open, how: How
):
    whole, table, backend = stopped(prepared, tmp_path / "whole")
    backend.arm(lambda *_: None)
    everything(table)
    calls = list(backend.calls)
    everything(table, hours=31)
    left = files(whole.path)
    assert len(calls) > 20
    for number, (name, path) in enumerate(calls):
        if name not in WRITES and (how == "after" or number % 4):
            continue  # Reads that fail change nothing; whether answers to them are lost, nobody can tell.
        copy, table, backend = stopped(prepared, tmp_path / str(number))
        backend.arm(lambda at, *_, number=number: how if at == number else None)
        if path.endswith("version_hint.json") and name == "put":
            everything(table)  # It is a hint.
        else:
            with pytest.raises(LanceGatewayError, match="injected"):
                everything(table)
        backend.disarm()
        for hours in (31, 32):
            everything(table, hours=hours)
        assert files(copy.path) == left, (name, path)
        if number % 7 == 0:
            copy.check(open_engine(copy.path.parent))


def files(path: Path) -> set[str]:
    """With their sizes: those that were emptied are different."""
    ours = {"now", "version_hint.json"}
    found = (one for one in path.rglob("*") if one.is_file() and one.name not in ours)
    return {f"{one.relative_to(path)} {one.stat().st_size}" for one in found}


def test_a_flush_that_comes_first_is_kept(root: Path, writers: WriterProcess, open_engine: Open):
    """The live writer commits the version that cleaning was about to commit."""
    kept = CleanedTable.create(root, writers)
    kept.write_generation("first")
    kept.merge(1)
    kept.put({1: "second"})
    storage, backend = open_faulty_storage(kept.path)
    flushed = []

    def flush_first(_number: int, name: str, path: str) -> None:
        if name == "put_if_absent" and "manifest" in path and not flushed:
            flushed.append(path)
            kept.flush()

    backend.arm(flush_first)
    clean(LakeTable("t", storage), NEWEST_ONLY, delete=True, clock=create_late_clock())
    assert flushed
    assert kept.list_generations() == [2]
    kept.check(open_engine(root))
    everything(kept.lake)
    kept.check(open_engine(root))


def test_a_flush_that_comes_second_is_kept_too(root: Path, writers: WriterProcess, open_engine: Open):
    kept = CleanedTable.create(root, writers)
    kept.write_generation("first")
    kept.merge(1)
    kept.put({1: "second"})
    epoch = manifests.read_manifest(kept.path, kept.region).writer_epoch
    kept.clean()
    assert manifests.read_manifest(kept.path, kept.region).writer_epoch == epoch, "the writer's own"
    kept.put({2: "second"})
    kept.flush()
    assert kept.list_generations() == [2]
    kept.check(open_engine(root))


@pytest.mark.slow
@pytest.mark.parametrize("what", sample(["merge", "flush", "claim", "clean"], 2))
@pytest.mark.soak
def test_others_may_come_between_any_two_calls(
    prepared: CleanedTable, tmp_path: Path, open_engine: Open, what: str
):
    copy, table, backend = stopped(prepared, tmp_path / "whole")
    backend.arm(lambda *_: None)
    everything(table)
    calls = len(backend.calls)
    for number in range(0, calls, max(1, calls // 6)):
        copy, table, backend = stopped(prepared, tmp_path / str(number))
        copy.put({3: "log"})

        def between(at: int, _name: str, _path: str, number: int = number, copy: CleanedTable = copy) -> None:
            if at != number:
                return
            if what == "flush":
                copy.flush()
            elif what == "claim":
                copy.table.writers[copy.region].abandon()
                copy.put({4: "claimed"})
            elif what == "merge":
                copy.merge(3)
            else:
                everything(copy.lake, hours=29)

        backend.arm(between)
        with suppress(UnavailableError):  # Of two that clean, one may find that the other was quicker.
            everything(table)
        backend.disarm()
        engine = open_engine(copy.path.parent)
        assert read_rows(engine, "t") == copy.rows, number
        copy.table.close_writers()
        copy.merge(manifests.read_manifest(copy.path, copy.region).current_generation - 1)
        for hours in (31, 32):
            copy.clean(hours=hours)
        assert read_rows(engine, "t") == copy.rows, number
        assert copy.list_generation_names() == set()


def test_manifests_that_change_all_the_time_are_left_for_the_next_run(root: Path, writers: WriterProcess):
    kept = CleanedTable.create(root, writers)
    kept.write_generation("first")
    kept.merge(1)
    storage, backend = open_faulty_storage(kept.path)

    def claim_first(_number: int, name: str, path: str) -> None:
        if name == "put_if_absent" and "manifest" in path:
            manifest = manifests.read_manifest(kept.path, kept.region)
            manifest.version += 1
            manifest.writer_epoch += 1
            manifests.write_manifest(kept.path, manifest)

    backend.arm(claim_first)
    with pytest.raises(UnavailableError, match=f"region {kept.region}.*run clean again"):
        clean(LakeTable("t", storage), NEWEST_ONLY, delete=True, clock=create_late_clock())
    assert kept.list_generations() == [1]


@pytest.mark.slow
@pytest.mark.soak
def test_rows_survive_while_all_jobs_run_at_once_without_any_grace(
    root: Path, writers: WriterProcess, open_engine: Open
):
    """One writes and flushes, one merges, one cleans, one reads, none waits for another."""
    kept = CleanedTable.create(root, writers, max_memtable_rows=7)
    kept.put({1: "first"})
    stop = threading.Event()
    failures: list[Exception] = []

    def repeat(step: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            while not stop.is_set():
                try:
                    step()
                except UnavailableError:
                    continue
                except Exception as error:  # noqa: BLE001 - shown below
                    failures.append(error)
                    return

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    policy = CleanPolicy(grace_seconds=60, retain_versions=3)
    threads = [
        repeat(lambda: merge(kept.lake)),
        repeat(lambda: clean(kept.lake, policy, delete=True, clock=create_late_clock(0.01))),
    ]
    engine = open_engine(root)
    try:
        for number in range(120):
            kept.put({number % 9: f"v{number}"})
            if number % 10 == 9:
                assert read_rows(engine, "t") == kept.rows
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    kept.table.close_writers()
    merge(kept.lake)
    for hours in (1, 2):
        clean(kept.lake, policy, delete=True, clock=create_late_clock(hours))
    assert read_rows(engine, "t") == kept.rows == read_rows(open_engine(root), "t")
    assert {one["id"]: one["v"] for one in kept.table.dataset().to_table().to_pylist()} == kept.rows


@pytest.fixture
def on_s3(s3_location: tuple[str, dict[str, str]]) -> Iterator[tuple[EngineGateway, LakeTable]]:
    root, options = s3_location
    Storage.open(root, options).put("made", b"")
    gateway = EngineGateway(Catalog.open(root, options, writing=EAGER))
    gateway.write("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR) WITH (region_by = 'bucket(id, 2)')")
    yield gateway, Lake.open(root, options).table("t")
    gateway.close()


@pytest.mark.slow
@pytest.mark.soak
def test_tables_on_s3_are_cleaned(on_s3: tuple[EngineGateway, LakeTable]):
    gateway, table = on_s3
    for number in range(3):
        gateway.write(f"INSERT INTO t VALUES (1, 'a{number}'), (2, 'b{number}'), (3, 'c{number}')")
        gateway.write(f"DELETE FROM t WHERE id = {number + 1}")
        gateway.flush("t")
        merge(table)
    expected = gateway.read("SELECT * FROM t ORDER BY id").to_pylist()
    found = find(table, NEWEST_ONLY, clock=create_late_clock())
    assert {one.kind for one in found} >= {Kind.VERSIONS, Kind.GENERATIONS, Kind.LOG, Kind.MANIFESTS}
    assert remove(table, found, NEWEST_ONLY, clock=create_late_clock()) == found
    assert gateway.read("SELECT * FROM t ORDER BY id").to_pylist() == expected
    (report, again) = (
        clean(table, NEWEST_ONLY, delete=True, clock=create_late_clock(hours)) for hours in (2, 3)
    )
    assert {one.kind for one in report.garbage} >= {Kind.DIRECTORIES}
    assert not again.garbage
    for region in list_regions(table.storage):
        manifest = read_latest_manifest(table.storage, region)
        assert manifest is not None
        assert manifest.flushed_generations == ()
        assert not any("_gen_" in name for name in table.storage.directories(f"_mem_wal/{region}"))
    gateway.write("INSERT INTO t VALUES (7, 'on')")
    assert len(gateway.read("SELECT * FROM t")) == len(expected) + 1
    assert not find(table, NEWEST_ONLY), "by the clock of this machine all is new"
    assert not clean(table, NEWEST_ONLY, delete=True).garbage, "and by that of storage"


def test_parts_of_the_job_travel_to_other_processes(prepared: CleanedTable):
    table = prepared.lake
    now = int(create_late_clock()() * 1e6)
    base = read_base(table, read_past(table, list_named_versions(table)))
    job = LookAtRegion(table, base, FILES_ONLY, now)
    sent = pickle.loads(pickle.dumps(job))
    found = sent(prepared.region)
    assert found == job(prepared.region)
    assert found.garbage


@pytest.mark.slow
def test_a_log_of_many_entries_is_one_line(root: Path, writers: WriterProcess):
    kept = CleanedTable.create(root, writers)
    kept.write_generation("first")
    manifest = manifests.read_manifest(kept.path, kept.region)
    log = kept.path / "_mem_wal" / kept.region / "wal"
    (entry,) = (one for one in log.iterdir() if one.name.startswith("1000"))
    many = 4_000
    for position in range(5, many + 1):
        os.link(entry, log / f"{f'{position:064b}'[::-1]}.arrow")
    manifest.version += 1
    manifest.replay_after_wal_entry_position = manifest.wal_entry_position_last_seen = many
    manifests.write_manifest(kept.path, manifest)
    kept.merge(1)
    (run,) = filter_kind(kept.find(), Kind.LOG)
    assert (run.first, run.last, run.files) == (1, many - 1, many - 1)
    kept.clean()
    assert kept.list_positions() == [many]
