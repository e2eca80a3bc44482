"""A disk that is full or read-only is named first, hurts no reader, and clean-ups make room on it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError, find_storage_cause
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.indexing import maintain
from lance_gateway.pipeline.jobs.lake import Lake
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import snapshot
from lance_gateway.pipeline.snapshotting.backup import back_up
from tests.support.processes.gateways import EngineGateway

CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR) WITH (region_by = 'bucket(id, 2)')"
NEWEST_ONLY = CleanPolicy(grace_seconds=0, retain_versions=1)
STATEMENTS = (
    "INSERT INTO t SELECT value, repeat('a', 400) FROM range(4000, 4400)",
    "UPDATE t SET v = 'x' WHERE id < 10",
    "DELETE FROM t WHERE id = 1",
    "CREATE TABLE u (id BIGINT PRIMARY KEY)",
    "CREATE TABLE w AS SELECT * FROM t",
    "CREATE VIEW x AS SELECT 1 AS a",
    "CREATE INDEX i ON t (v)",
    "CREATE TAG now ON t",
    "OPTIMIZE t",
)


def mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes; skips the test where nobody may mount one."""
    path = tmp_path / "disk"
    path.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)):
        pytest.skip("a small file system can't be mounted: run the tests as root")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def gateway(disk: Path) -> Iterator[EngineGateway]:
    """A table with rows in its base table, in generations that are merged, and in others."""
    found = EngineGateway(disk)
    found.write(CREATE)
    for value in "abc":
        found.write(f"INSERT INTO t SELECT value, repeat('{value}', 400) FROM range(1000)")
        found.flush("t")
        if value != "c":
            merge(Lake.open(str(disk)).table("t"))
    yield found
    found.close()


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    file = os.open(ballast, os.O_CREAT | os.O_WRONLY)
    try:
        while True:
            os.write(file, bytes(4096))
    except OSError:
        return ballast
    finally:
        os.close(file)


def count(gateway: EngineGateway) -> object:
    (row,) = gateway.read("SELECT count(*) AS n, min(v) = max(v) AS same FROM t").to_pylist()
    return row


def check_refusals(gateway: EngineGateway, disk: Path, cause: str) -> None:
    table = Lake.open(str(disk)).table("t")
    jobs: dict[str, Callable[[], object]] = {
        "merge": lambda: merge(table),
        "index": lambda: maintain(table),
        "snapshot": lambda: snapshot(table),
        "backup": lambda: back_up(table, Storage.open(str(disk / "backups"))),
    }
    for sql in STATEMENTS:
        jobs[sql] = lambda sql=sql: gateway.write(sql)
    for name, job in jobs.items():
        with pytest.raises(LanceGatewayError) as caught:
            job()
        assert str(caught.value).startswith(cause), f"{name}: {caught.value}"
        assert caught.value.status == "UNAVAILABLE", name
    assert count(gateway) == {"n": 1000, "same": True}


def test_clean_ups_make_room_on_a_full_disk_and_then_merges_do(gateway: EngineGateway, disk: Path):
    fill(disk)
    check_refusals(gateway, disk, "The disk is full")
    table = Lake.open(str(disk)).table("t")
    for _ in range(2):  # Merged generations are taken out of their manifests, and removed a grace later.
        clean(table, NEWEST_ONLY, delete=True)
    assert merge(table).generations == 2
    for _ in range(2):
        clean(table, NEWEST_ONLY, delete=True)
    assert gateway.write("INSERT INTO t SELECT value, repeat('c', 400) FROM range(1000, 1100)") == 100
    assert count(gateway) == {"n": 1100, "same": True}


def test_a_disk_that_became_read_only(gateway: EngineGateway, disk: Path):
    assert mount("-o", "remount,ro", str(disk))
    check_refusals(gateway, disk, "The file system is read-only")
    with pytest.raises(UnavailableError, match=r"^The file system is read-only"):
        clean(Lake.open(str(disk)).table("t"), NEWEST_ONLY, delete=True)
    assert mount("-o", "remount,rw", str(disk))
    assert gateway.write("INSERT INTO t VALUES (1, repeat('c', 400))") == 1


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("Unable to open file /x: Too many open files (os error 24)", "No file descriptors are left"),
        ("[Errno 23] Too many open files in system", "No file descriptors are left"),
        ("Permission denied (os error 13)", "The file system refuses access"),
        ("Disk quota exceeded (os error 122)", "The disk quota is used up"),
        ("Generic S3 error: .. 403 Forbidden: <Code>AccessDenied</Code>", "The object store refuses access"),
    ],
)
def test_what_is_wrong_comes_first_and_once(said: str, cause: str):
    error = UnavailableError(f"table 't': region x was not flushed: {said}")
    assert str(error).startswith(f"{find_storage_cause(said)}: table 't': region x")
    again = UnavailableError(f"{error}; 12 rows had been written")
    nested = UnavailableError(f"table 't': {error}")
    assert str(again).count(cause) == str(nested).count(cause) == 1
    assert str(nested).startswith(cause)


@pytest.mark.parametrize("said", ["connection refused", "os error 2", "Errno 280", "403 rows"])
def test_other_messages_stay_as_they_are(said: str):
    assert str(UnavailableError(said)) == said
