"""How the processes of a gateway divide the cache."""

import os
from pathlib import Path

import pytest

from gateway.config.loader import Flag, load
from gateway.start.processes import Processes, plan_processes

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


def test_by_default_the_directory_is_the_users_own(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    shared = plan(root, server__workers=1).shared
    assert (shared.directory, shared.is_named) == (tmp_path / "lance-gateway", False)


def test_nothing_is_shared_by_default_where_there_is_little_room(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    room = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*room[:2], 16, *room[3:])))
    planned = plan(root, server__workers=1, limits__cache_bytes="512MiB")
    assert planned.shared.directory is None
    assert planned.cache_bytes == 256 * MIB


@pytest.mark.parametrize("root", ["s3://bucket/tables", "s3+ddb://bucket/tables?ddbTableName=commits"])
def test_object_stores_share_nothing(root: str, tmp_path: Path) -> None:
    planned = plan(root, server__workers=1, cache__directory=str(tmp_path), limits__cache_bytes="512MiB")
    assert (planned.shared.directory, planned.cache_bytes) == (None, 256 * MIB)


def test_it_can_be_switched_off(root: str) -> None:
    planned = plan(root, server__workers=1, cache__directory="none", limits__cache_bytes="512MiB")
    assert (planned.shared.directory, planned.cache_bytes) == (None, 256 * MIB)
