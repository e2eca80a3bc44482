"""How the processes of a gateway divide the cache."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from lance_gateway.gateway.config.loader import Flag, load
from lance_gateway.gateway.start.processes import Processes, plan_processes

MIB = 1 << 20


def plan(root: str, **values: object) -> Processes:
    flags = [Flag("test", key.replace("__", "."), value) for key, value in values.items()]
    return plan_processes(load([Flag("test", "root", root), *flags]).config, 8 << 30)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


def test_what_is_shared_counts_once(root: str, tmp_path: Path) -> None:
    planned = plan(
        root, server__workers=3, limits__cache_bytes="512MiB", cache__directory=str(tmp_path / "shared")
    )
    assert planned.worker is not None
    assert (planned.shared.directory, planned.shared.nbytes) == (tmp_path / "shared", 256 * MIB)
    assert planned.cache_bytes == planned.worker.cache_bytes == 64 * MIB
    assert planned.worker.shared_directory == tmp_path / "shared"
    assert planned.worker.shared_bytes == 256 * MIB
    assert planned.shared.is_named


def test_processes_keep_an_eighth_in_any_case(root: str, tmp_path: Path) -> None:
    planned = plan(
        root,
        server__workers=0,
        limits__cache_bytes="64MiB",
        cache__directory=str(tmp_path),
        cache__shared_bytes="1GiB",
    )
    assert (planned.shared.nbytes, planned.cache_bytes) == (56 * MIB, 8 * MIB)


def test_by_default_the_cache_takes_a_quarter_of_the_memory(root: str, tmp_path: Path) -> None:
    planned = plan(root, server__workers=3, cache__directory=str(tmp_path))
    assert planned.worker is not None
    assert (planned.shared.nbytes, planned.cache_bytes) == (1024 * MIB, 256 * MIB)
    assert planned.worker.memory_bytes == (6 - 1) * 1024 * MIB // 3


def make_room(monkeypatch: pytest.MonkeyPatch, rooms: Mapping[Path, int]) -> None:
    """Let file systems hold so many bytes, half of which may be used."""

    def measure(path: str | Path) -> os.statvfs_result:
        nbytes = next(room for parent, room in rooms.items() if Path(path).is_relative_to(parent))
        return os.statvfs_result((1, 1, nbytes, 0, 0, 0, 0, 0, 0, 255))

    monkeypatch.setattr(os, "statvfs", measure)


@pytest.mark.parametrize("is_larger", [True, False])
def test_by_default_files_lie_in_memory_where_there_is_more_room(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_larger: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    make_room(monkeypatch, {tmp_path: (8 if is_larger else 2) << 30, Path("/dev/shm"): 4 << 30})
    shared = plan(root, server__workers=1).shared
    expected = tmp_path / "lance-gateway" if is_larger else Path(f"/dev/shm/lance-gateway-{os.geteuid()}")
    assert (shared.directory, shared.nbytes, shared.is_named) == (expected, 1024 * MIB, False)


@pytest.mark.parametrize(("room", "shared", "own"), [(256, 128, 192), (128, 64, 224), (126, 0, 256)])
def test_little_room_is_taken_as_it_is_and_very_little_is_left_alone(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int, shared: int, own: int
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    make_room(monkeypatch, {tmp_path: room * MIB, Path("/dev/shm"): 0})
    planned = plan(root, server__workers=1, limits__cache_bytes="512MiB")
    assert (planned.shared.nbytes, planned.cache_bytes) == (shared * MIB, own * MIB)


@pytest.mark.parametrize("root", ["s3://bucket/tables", "s3+ddb://bucket/tables?ddbTableName=commits"])
def test_tables_in_a_bucket_are_shared_as_local_ones(root: str, tmp_path: Path) -> None:
    planned = plan(root, server__workers=1, cache__directory=str(tmp_path), limits__cache_bytes="512MiB")
    assert (planned.shared.directory, planned.cache_bytes) == (tmp_path, 128 * MIB)


def test_it_can_be_switched_off(root: str) -> None:
    planned = plan(root, server__workers=1, cache__directory="none", limits__cache_bytes="512MiB")
    assert (planned.shared.directory, planned.cache_bytes) == (None, 256 * MIB)
