"""Of the rows that plain Lance appends to a key, the one with the highest address counts, everywhere."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.memwal.base import repeated_rows
from lance_gateway.memwal.base.repeated_rows import find_repeated_rows, hash_keys
from lance_gateway.pipeline.indexing.indexes import IndexPolicy
from lance_gateway.pipeline.indexing.job import compact
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Threads, ignore_progress
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.visibility import repeated_keys
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.merging import merge_flushed
from tests.support.lake.tables import key_field

SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("v", pa.int64()),
        pa.field("words", pa.string()),
        pa.field("point", pa.list_(pa.float32(), 2)),
    ]
)


def rows(*values: tuple[int, int]) -> pa.Table:
    made = [{"id": key, "v": v, "words": f"w{v} lake", "point": [float(v), 0.0]} for key, v in values]
    return pa.Table.from_pylist(made, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with MemWAL, in which key 1 has two rows."""
    path = tmp_path / "t.lance"
    lance.write_dataset(rows((1, 1), (2, 2)), str(path))
    lance.write_dataset(rows((1, 99)), str(path), mode="append").initialize_mem_wal(unsharded=True)
    return path


@pytest.fixture
def lake(table: Path, open_engine: Callable[[Path], QueryEngine]) -> Lake:
    return Lake(open_engine(table.parent))


def read(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lake.read(sql)]


def test_one_row_a_key_is_read(lake: Lake) -> None:
    assert read(lake, "SELECT id, v FROM t ORDER BY id") == [(1, 99), (2, 2)]
    assert read(lake, "SELECT count(*) FROM t") == [(2,)]
    assert read(lake, "SELECT id FROM t WHERE v = 1") == []
    assert read(lake, "SELECT v FROM t WHERE id = 1") == [(99,)]
    assert read(lake, "SELECT v FROM t WHERE id IN (1, 2) ORDER BY v") == [(2,), (99,)]


def test_searches_rank_one_row_a_key(table: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    lance.dataset(str(table)).create_scalar_index("words", "INVERTED")
    lake = Lake(open_engine(table.parent))
    found = read(lake, "SELECT id, v FROM lance_fts('t', 'words', 'lake', k => 5) ORDER BY id")
    assert found == [(1, 99), (2, 2)]
    assert read(lake, "SELECT id FROM lance_fts('t', 'words', 'w1', k => 5)") == []
    nearest = "SELECT id, v FROM lance_vector_search('t', 'point', [1.0, 0.0], k => 1)"
    assert read(lake, nearest) == [(2, 2)]


def test_statements_change_the_newest_row_and_merges_change_no_answer(
    table: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    lake = Lake(open_engine(table.parent))

    def check(*expected: tuple[int, int]) -> Lake:
        assert read(lake, "SELECT id, v FROM t ORDER BY id") == list(expected)
        lake.engine.close()
        merge_flushed(table)
        merged = Lake(open_engine(table.parent))
        assert read(merged, "SELECT id, v FROM t ORDER BY id") == list(expected)
        assert read(merged, "SELECT v FROM t WHERE id = 1") == [(v,) for key, v in expected if key == 1]
        return merged

    lake.write("DELETE FROM t WHERE v = 1")
    lake = check((1, 99), (2, 2))
    lake.write("UPDATE t SET v = v + 1")
    lake = check((1, 100), (2, 3))
    lake.write("DELETE FROM t WHERE v = 100")
    check((2, 3))


def test_changes_are_of_the_newest_row(table: Path, lake: Lake) -> None:
    before = read(lake, "SELECT _position FROM lance_position('t')")[0][0]
    lance.write_dataset(rows((2, 50), (3, 3)), str(table), mode="append")
    changed = read(lake, f"SELECT id, v, _change FROM lance_changes('t', since => '{before}') ORDER BY id, v")
    assert changed == [(2, 2, "update_before"), (2, 50, "update_after"), (3, 3, "insert")]


def test_a_row_below_a_deleted_one_is_shown(table: Path, lake: Lake) -> None:
    assert read(lake, "SELECT id, v FROM t ORDER BY id") == [(1, 99), (2, 2)]
    lance.dataset(str(table)).delete("v = 99")
    assert read(lake, "SELECT id, v FROM t ORDER BY id") == [(1, 1), (2, 2)]


@pytest.mark.parametrize("compacts_by", ["statement", "job"])
def test_compaction_keeps_the_newest_row(table: Path, lake: Lake, compacts_by: str) -> None:
    lance.dataset(str(table)).create_scalar_index("v", "BTREE")
    lance.write_dataset(rows((2, 50)), str(table), mode="append")  # which is not compacted with the others
    if compacts_by == "statement":
        lake.write("OPTIMIZE TABLE t COMPACT")
    else:
        compact(LakeTable.at(str(table)), IndexPolicy(), Threads(1), ignore_progress)
    assert read(lake, "SELECT id, v FROM t ORDER BY id") == [(1, 99), (2, 50)]
    assert lance.dataset(str(table)).count_rows() == 2


def test_a_table_without_memwal_shows_all_rows(
    tmp_path: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    lance.write_dataset(rows((1, 1), (1, 2)), str(tmp_path / "t.lance"))
    lake = Lake(open_engine(tmp_path))
    assert read(lake, "SELECT v FROM t ORDER BY v") == [(1,), (2,)]
    assert read(lake, "SELECT v FROM t WHERE id = 1 ORDER BY v") == [(1,), (2,)]


KEYS: dict[str, list[pa.Array]] = {
    "int64": [pa.array([5, 3, 5, -1, 3, 5])],
    "ascending": [pa.array([1, 2, 3, 3, 4, 5])],
    "uint64": [pa.array([2**64 - 1, 1, 2**64 - 1, 0, 1, 7], pa.uint64())],
    "bool": [pa.array([True, False, True, True, False, False])],
    "text": [pa.array(["long enough", "", "long enough", "long enoug", "", "b"])],
    "binary": [pa.array([b"a\0", b"a", b"a", b"", b"a\0", b"b"])],
    "integers": [pa.array([1, 1, 2, 1, 2, 1]), pa.array([1, 2, 1, 1, 1, 3], pa.int32())],
    "mixed": [pa.array(["a", "a", "b", "a", "b", "c"]), pa.array([1, 2, 1, 1, 1, 3])],
}


@pytest.mark.parametrize("checked_rows", [1, 3, 100])
@pytest.mark.parametrize("kind", KEYS)
def test_repeated_rows_of_every_key_type_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, checked_rows: int
) -> None:
    columns = KEYS[kind]
    schema = pa.schema([key_field(f"k{at}", column.type, at + 1) for at, column in enumerate(columns)])
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table(columns, schema=schema), path, max_rows_per_file=2)
    lance.dataset(path).initialize_mem_wal(unsharded=True)
    monkeypatch.setattr(repeated_rows, "_CHECKED_ROWS", checked_rows)

    keys = list(zip(*(column.to_pylist() for column in columns), strict=True))
    older = [row for row, key in enumerate(keys) if key in keys[row + 1 :]]
    found = find_repeated_rows(lance.dataset(path), schema.names).tolist()
    assert [2 * (address >> 32) + (address & 0xFFFFFFFF) for address in found] == older


def test_equal_keys_have_equal_hashes_wherever_they_lie() -> None:
    texts = pa.array(["x" * length for length in range(40)] * 2)
    hashes = hash_keys(pa.record_batch([texts.slice(3, 70)], names=["key"]))
    copied = pa.array(texts.slice(3, 70).to_pylist(), pa.large_string())
    assert np.array_equal(hashes, hash_keys(pa.record_batch([copied], names=["key"])))
    assert len(set(hashes.tolist())) == 40


class TestHistory:
    """Where it follows from the history of a table that each key has one row, no key is read."""

    @pytest.fixture
    def sought(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Versions whose keys were read."""
        versions: list[int] = []

        def note(dataset: lance.LanceDataset, key: Sequence[str]) -> np.ndarray:
            versions.append(dataset.version)
            return find_repeated_rows(dataset, key)

        monkeypatch.setattr(repeated_keys, "find_repeated_rows", note)
        return versions

    @pytest.fixture
    def merged(self, tmp_path: Path, open_engine: Callable[[Path], QueryEngine]) -> Path:
        """A table that was made and written by statements, and merged."""
        lake = Lake(open_engine(tmp_path))
        lake.write("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
        for number in range(3):
            lake.write(f"INSERT INTO t VALUES ({number}, 1), ({number + 1}, 2)")
            lake.write(f"DELETE FROM t WHERE id = {number}")
            lake.engine.close()
            merge_flushed(tmp_path / "t.lance")
            lake = Lake(open_engine(tmp_path))
        lake.engine.close()
        return tmp_path / "t.lance"

    def count(self, lake: Lake) -> int:
        found: int = read(lake, "SELECT count(v) FROM t")[0][0]
        return found

    def test_merges_leave_one_row_a_key(
        self, merged: Path, open_engine: Callable[[Path], QueryEngine], sought: list[int]
    ) -> None:
        lance.dataset(str(merged)).optimize.compact_files()
        lake = Lake(open_engine(merged.parent))
        assert self.count(lake) == 1
        lance.dataset(str(merged)).delete("id = 3")
        assert self.count(lake) == 0
        assert sought == []

    def test_what_other_writers_add_is_checked_once(
        self, merged: Path, open_engine: Callable[[Path], QueryEngine], sought: list[int]
    ) -> None:
        lake = Lake(open_engine(merged.parent))
        schema = lance.dataset(str(merged)).schema
        for number in range(2):
            appended = pa.Table.from_pylist([{"id": 3, "v": number}], schema)
            lance.write_dataset(appended, str(merged), mode="append")
            assert self.count(lake) == 1
            assert self.count(lake) == 1
        lance.dataset(str(merged)).update({"id": "7"})
        assert self.count(lake) == 1
        assert len(sought) == 3

    def test_a_restored_version_is_checked(
        self, table: Path, open_engine: Callable[[Path], QueryEngine], sought: list[int]
    ) -> None:
        repeated = lance.dataset(str(table)).version
        lake = Lake(open_engine(table.parent))
        lance.dataset(str(table)).delete("v < 99")
        assert self.count(lake) == 1
        lance.dataset(str(table), version=repeated).restore()
        assert self.count(lake) == 2
        assert len(sought) == 2

    def test_a_history_that_was_cleaned_up_shows_nothing(
        self, merged: Path, open_engine: Callable[[Path], QueryEngine], sought: list[int]
    ) -> None:
        dataset = lance.dataset(str(merged))
        dataset.cleanup_old_versions(timedelta(0))
        assert self.count(Lake(open_engine(merged.parent))) == 1
        assert sought == [dataset.version]
