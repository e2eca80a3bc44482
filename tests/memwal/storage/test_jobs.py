"""Running jobs are known to all processes of a root, and are forgotten with their process."""

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.storage import jobs
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.storage.jobs import EXPIRY_SECONDS, JOBS, JobRecord, RunningJobs
from lance_gateway.memwal.storage.table_names import TableName

RECORD = json.loads(JobRecord("x", "k", "t", "", 0, 1, "", 0.0, "", "", 1).encode())
ORDERS = TableName("orders", "sales")


@pytest.fixture
def other(root: Path) -> RunningJobs:
    """Another process of the root, which runs nothing."""
    return RunningJobs(Storage.open(str(root)))


def start(root: Path, written: threading.Event) -> RunningJobs:
    """A process whose jobs leave a record at once, and tell when they did."""

    class Root(Storage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            was_written = super().put_if_absent(path, data)
            written.set()
            return was_written

    opened = Storage.open(str(root))
    storage = Root(opened.uri, opened.options, opened.root, opened.backend)
    return RunningJobs(storage, quiet_seconds=0, tick_seconds=0.001)


def test_other_processes_see_a_job_while_it_runs(root: Path, other: RunningJobs):
    written = threading.Event()
    with start(root, written).run("merge", ORDERS, "ada") as job:
        job.begin("merge sales.orders", 40, "generation")
        job.advance(5)
        job.advance(7)
        assert written.wait(60)
        (seen,) = other.list_all()
        assert (seen.kind, seen.table, seen.user, seen.pid) == ("merge", "sales.orders", "ada", os.getpid())
        assert replace(job.record, phase="", done=0, total=None, unit="") == replace(
            seen, phase="", done=0, total=None, unit=""
        )
    assert other.list_all() == ()
    assert list((root / JOBS).iterdir()) == []


def test_a_process_knows_its_own_jobs_as_they_are(root: Path):
    running = RunningJobs(Storage.open(str(root)))
    with running.run("load", ORDERS) as job:
        job.begin("write rows", None, "row")
        job.advance(3)
        (seen,) = running.list_all()
        assert (seen.phase, seen.done, seen.total, seen.unit) == ("write rows", 3, None, "row")
    assert running.list_all() == ()


def test_short_jobs_leave_no_file(root: Path):
    with RunningJobs(Storage.open(str(root))).run("merge", ORDERS):
        pass
    assert not (root / JOBS).exists()


def test_records_of_processes_that_are_gone_are_neither_shown_nor_kept(root: Path, other: RunningJobs):
    (root / JOBS).mkdir(parents=True)
    gone = root / JOBS / "gone.json"
    gone.write_bytes(JobRecord("gone", "merge", ORDERS, "", 0, 1, "x", 0.0, "ada", "h", 1).encode())
    assert [job.job_id for job in other.list_all()] == ["gone"]
    long_ago = gone.stat().st_mtime - EXPIRY_SECONDS - 1
    os.utime(gone, (long_ago, long_ago))
    assert other.list_all() == ()
    written = threading.Event()
    with start(root, written).run("merge", ORDERS):
        assert written.wait(60)
        assert not gone.exists()


def test_no_more_records_than_there_is_room_for(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "MAX_RECORDS", 1)
    written = threading.Event()
    running = start(root, written)
    with running.run("merge", ORDERS):
        assert written.wait(60)
        ticked = threading.Event()
        with running.run("index", ORDERS, watch=lambda _record: ticked.set()):
            assert ticked.wait(60)
            ticked.clear()
            assert ticked.wait(60)  # The tick before has left the record, if it does.
            assert len(list((root / JOBS).iterdir())) == 1
            assert len(running.list_all()) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"job_id": "x"}',
        json.dumps({**RECORD, "done": "many"}).encode(),
        json.dumps({**RECORD, "table": "a.b.c.d"}).encode(),
        json.dumps({**RECORD, "later": "version"}).encode(),
    ],
)
def test_files_of_others_are_passed_over(root: Path, other: RunningJobs, content: bytes):
    (root / JOBS).mkdir(parents=True)
    (root / JOBS / "x.json").write_bytes(content)
    assert other.list_all() == ()


def test_a_root_that_can_not_be_written_does_not_stop_a_job(root: Path):
    (root / "_gateway").write_text("in the way")
    ticks = threading.Semaphore(0)
    running = RunningJobs(Storage.open(str(root)), quiet_seconds=0, tick_seconds=0.001)
    with running.run("merge", ORDERS, watch=lambda _record: ticks.release()):
        for _ in range(3):
            assert ticks.acquire(timeout=60)
