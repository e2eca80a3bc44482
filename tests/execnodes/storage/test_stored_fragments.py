"""Rows are taken by their places, from fragments that stay open."""

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes.storage import data_files
from lance_gateway.execnodes.storage.data_files import StoredFragments


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = pa.table({"id": range(12), "v": [f"v{at}" for at in range(12)]})
    lance.write_dataset(rows, tmp_path / "t.lance", max_rows_per_file=4)
    return tmp_path / "t.lance"


def taken(fragments: StoredFragments, fragment_id: int, *offsets: int) -> list[str] | None:
    rows = fragments.take(fragment_id, np.array(offsets), ["v"])
    return None if rows is None else rows.column("v").to_pylist()


@pytest.mark.parametrize("sessions", [0, 1, 64])
def test_rows_are_those_at_the_places(path: Path, monkeypatch: pytest.MonkeyPatch, sessions: int) -> None:
    monkeypatch.setattr(data_files, "MAX_SESSIONS", sessions)
    fragments = StoredFragments(lance.dataset(path))
    for _ in range(2):
        assert taken(fragments, 1, 0, 3) == ["v4", "v7"]
        assert taken(fragments, 2, 1) == ["v9"]
        rows = fragments.take(1, np.array([2]), ["v", "id"])
        assert rows is not None
        assert rows.to_pylist() == [{"v": "v6", "id": 6}]


def test_deletions_move_places(path: Path) -> None:
    lance.dataset(path).delete("id = 4")
    fragments = StoredFragments(lance.dataset(path))
    assert taken(fragments, 1, 0) is None
    assert taken(fragments, 2, 0) == ["v8"]


def test_a_version_keeps_its_rows_when_a_later_one_has_others(path: Path) -> None:
    fragments = StoredFragments(lance.dataset(path))
    assert taken(fragments, 1, 0) == ["v4"]
    lance.dataset(path).delete("id = 4")
    assert taken(fragments, 1, 0, 1) == ["v4", "v5"]
    assert fragments.get(1).deletions is None
