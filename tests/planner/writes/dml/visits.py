"""The table of visits, which has no key."""

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import base_rows
from tests.planner.writes.dml.lake import Row, ordered

VISITS = pa.table(
    {
        "id": pa.array([*range(10), 2, 5], pa.int64()),
        "page": ["a", "b", None, "d", "e", "f", None, "h", "i", "j", None, "f"],
        "seconds": pa.array([*range(10), 2, 5], pa.int32()),
    }
)


def write_visits(root: Path, rows: pa.Table = VISITS, *, stable_row_ids: bool = False) -> str:
    """Write the table as pylance does, in several fragments, with an index; return where it is."""
    uri = str(root / "visits.lance")
    written = lance.write_dataset(rows, uri, max_rows_per_file=5, enable_stable_row_ids=stable_row_ids)
    written.create_scalar_index("id", "BTREE")
    return uri


def stored(root: Path) -> list[Row]:
    """All rows, as pylance reads them."""
    found: list[Row] = lance.dataset(str(root / "visits.lance")).to_table().to_pylist()
    return ordered(found)


def before_commit(monkeypatch: pytest.MonkeyPatch, step: Callable[[], object], times: int = 1) -> list[int]:
    """Let another do something between what a statement has read and its commit; return how often it did."""
    done: list[int] = []
    commit_next = base_rows.commit_next

    def commit(*arguments: object) -> bool:
        if len(done) < times:
            done.append(1)
            step()
        return commit_next(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(base_rows, "commit_next", commit)
    return done
