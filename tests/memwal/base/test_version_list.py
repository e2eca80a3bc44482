"""The versions of a base table, listed while others remove some of them."""

import time
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.version_list import (
    CommittedVersion,
    list_manifests,
    list_versions,
    read_commit_time,
)
from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.memwal.storage.files import Storage, base_manifest_paths

ROWS = pa.table({"id": list(range(10))})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of three versions."""
    path = tmp_path / "t.lance"
    for _ in range(3):
        lance.write_dataset(ROWS, path, mode="append")
    return path


def remove(path: Path, version: int) -> None:
    (found,) = (path / name for name in base_manifest_paths(version) if (path / name).exists())
    found.unlink()


def find(path: Path) -> tuple[CommittedVersion, ...]:
    return list_versions(lance.dataset(path), Storage.open(str(path)))


def test_versions_have_numbers_times_and_rows(path: Path) -> None:
    found = find(path)
    assert [(one.version, one.rows) for one in found] == [(1, 10), (2, 20), (3, 30)]
    times = [0, *(one.committed_at for one in found), time.time_ns() // 1000]
    assert times == sorted(times)
    assert read_commit_time(lance.dataset(path, version=2)) == found[1].committed_at


def test_a_version_that_is_removed_while_they_are_read_is_left_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = find(path)
    read_all = lance.LanceDataset.versions

    def read_late(_: Any) -> Any:
        """As Lance does where a manifest that it has listed is gone when it comes to it."""
        monkeypatch.setattr(lance.LanceDataset, "versions", read_all)
        remove(path, 1)
        raise ValueError("Not found: 1.manifest")

    monkeypatch.setattr(lance.LanceDataset, "versions", read_late)
    assert find(path) == whole[1:]


def test_a_manifest_that_is_damaged_is_an_error(path: Path) -> None:
    (found,) = (path / name for name in base_manifest_paths(1) if (path / name).exists())
    found.write_bytes(b"damaged")
    with pytest.raises(CorruptDataError, match="version 1 of the base table can't be read"):
        find(path)
    assert sorted(list_manifests(Storage.open(str(path)))) == [1, 2, 3]
