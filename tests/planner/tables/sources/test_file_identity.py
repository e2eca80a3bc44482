"""Rows that are kept are those of one file: another one of the same name, wherever it is, is another file."""

import shutil
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.execnodes.storage.data_files import Columns, FragmentFiles, Place, StoredValues, intern
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.newest_base import NewestBase
from tests.planner.identity_tables import Open, check, index_texts, look_up_often, read, rows, with_bases
from tests.support.lake.hand_made import (
    PART,
    make_table,
    read_rows,
)
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
@pytest.mark.parametrize("first", ["a", "b"])
def test_two_tables_have_files_of_one_name(root: Path, open_engine: Open, first: str) -> None:
    stored = {"a": rows(range(1, 9), "ants"), "b": rows(range(3, 30), "bees", odd="y", even="x")}
    for name, of_table in stored.items():
        make_table(root / f"{name}.lance", of_table)
        index_texts(root / f"{name}.lance")
    engine = open_engine(root)
    for name in [first, *stored, *stored]:
        check(engine, name, read_rows(root / f"{name}.lance"), text=True)
        look_up_often(engine, name)
    for name in stored:
        lance.dataset(root / f"{name}.lance").delete("id = 4" if name == "a" else "id = 5")
    for name in [first, *stored, *stored]:
        check(engine, name, read_rows(root / f"{name}.lance"), text=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["a", "b"])
def test_a_copied_table_gets_other_rows_in_its_file(root: Path, open_engine: Open, first: str) -> None:
    make_table(root / "a.lance", rows(range(1, 9), "ants"))
    engine = open_engine(root)
    if first == "a":
        check(engine, "a", read_rows(root / "a.lance"))
    shutil.copytree(root / "a.lance", root / "b.lance")
    make_table(root / "b.lance", rows(range(1, 9), "bees", odd="y", even="x"))
    for name in [first, "a", "b", "a", "b"]:
        check(engine, name, read_rows(root / f"{name}.lance"))


@pytest.mark.slow
def test_a_shallow_clone_has_its_files_and_indexes_in_a_base(root: Path, open_engine: Open) -> None:
    make_table(root / "a.lance", rows(range(1, 40), "ants"))
    index_texts(root / "a.lance")
    lance.dataset(root / "a.lance").delete("id = 3")
    dataset = lance.dataset(root / "a.lance")
    dataset.shallow_clone(str(root / "b.lance"), dataset.version)
    engine = open_engine(root)
    for _ in range(2):
        for name in ("a", "b", "a", "b"):
            check(engine, name, read_rows(root / f"{name}.lance"), text=True)
        lance.dataset(root / "b.lance").delete("id IN (4, 5)")


@pytest.mark.slow
@pytest.mark.parametrize("count", [5, 500])
def test_a_table_is_made_anew_with_the_same_names(root: Path, open_engine: Open, count: int) -> None:
    engine = open_engine(root)
    for made, word in enumerate(["ants", "bees", "cats"]):
        shutil.rmtree(root / "t.lance", ignore_errors=True)
        make_table(root / "t.lance", rows(range(1, 9 if made == 0 else count + made), word))
        index_texts(root / "t.lance")
        for _ in range(3):
            check(engine, "t", read_rows(root / "t.lance"), text=True)
        look_up_often(engine, "t")


@pytest.mark.slow
def test_a_table_is_dropped_in_sql_and_made_anew(root: Path, open_engine: Open) -> None:
    engine = open_engine(root)
    for count, word in [(9, "ants"), (300, "bees"), (4, "cats")]:
        make_table(root / "t.lance", rows(range(1, count), word))
        for _ in range(3):
            check(engine, "t", read_rows(root / "t.lance"))
        engine.prepare_statement("DROP TABLE t").execute()


@pytest.mark.slow
def test_a_table_has_two_names(root: Path, open_engine: Open) -> None:
    make_table(root / "a.lance", rows(range(1, 9), "ants"))
    (root / "b.lance").symlink_to(root / "a.lance")
    engine = open_engine(root)
    for keys in (range(20, 25), range(30, 31)):
        for name in ("a", "b", "a", "b"):
            check(engine, name, read_rows(root / "a.lance"))
        lance.write_dataset(rows(keys, "more"), root / "a.lance", mode="append")
        lance.dataset(root / "b.lance").delete(f"id = {keys.start - 17}")
    for name in ("b", "a"):
        check(engine, name, read_rows(root / "a.lance"))


@pytest.mark.slow
def test_tables_keep_their_generations_apart(root: Path, writers: WriterProcess, open_engine: Open) -> None:
    table = LsmTable.create(root, "a", rows(range(1, 9), "ants"), unpartitioned(("id",), 1), writers)
    table.put(rows([2, 20], "fresh").to_pylist())
    table.close_writers()
    shutil.copytree(root / "a.lance", root / "b.lance")
    copy = LsmTable(root / "b.lance", ("id",), table.layout, writers, regions=dict(table.regions))
    expected = {row["id"]: row for row in rows(range(1, 9), "ants").to_pylist()}
    expected |= {row["id"]: row for row in rows([2, 20], "fresh").to_pylist()}
    engine = open_engine(root)
    check(engine, "a", list(expected.values()))
    copy.put(rows([3, 21], "copied").to_pylist())
    copied = expected | {row["id"]: row for row in rows([3, 21], "copied").to_pylist()}
    for _ in range(2):
        check(engine, "b", list(copied.values()))
        check(engine, "a", list(expected.values()))
    copy.close_writers()
    check(engine, "b", list(copied.values()))
    check(engine, "a", list(expected.values()))


@pytest.mark.slow
def test_as_many_rows_are_deleted_elsewhere(root: Path, open_engine: Open) -> None:
    path = root / "t.lance"
    make_table(path, rows(range(1, 9), "ants"))
    index_texts(path)
    whole = lance.dataset(path).version
    engine = open_engine(root)
    for condition in ("id = 1", "id = 2", "id IN (3, 4)", "id IN (1, 2)"):
        lance.dataset(path).delete(condition)
        for _ in range(2):
            check(engine, "t", read_rows(path), text=True)
        lance.dataset(path, version=whole).restore()


def test_a_table_object_that_is_still_held_takes_nothing_for_its_own(root: Path) -> None:
    """Between two looks of a statement at its table, the table may have been replaced more than once."""
    catalog = Catalog.open(str(root))
    make_table(root / "t.lance", rows(range(1, 3), "ants"))
    held = catalog.table("t")
    places = {held.base().place}
    for word in ("bees", "cats"):
        shutil.rmtree(root / "t.lance")
        make_table(root / "t.lance", rows(range(1, 3), word))
        catalog.forget("t")
        places.add(catalog.table("t").base().place)
    assert len(places) == 3
    assert held.base().place not in places - {catalog.table("t").base().place}
    catalog.close()


def test_a_table_is_replaced_while_it_is_opened(root: Path) -> None:
    path = root / "t.lance"
    make_table(path, rows(range(1, 3), "ants"))
    storage = Storage.open(str(path))

    class Replaced(NewestBase):
        def _open(self, *arguments: Any) -> Any:
            if self.last is not None and not done:
                done.append(True)
                shutil.rmtree(path)
                for keys in (range(1, 3), range(5, 9)):
                    make_table(path, rows(keys, "bees"))
            return super()._open(*arguments)

    done: list[bool] = []
    newest = Replaced("t", storage, lance.Session())
    first = newest.find()
    lance.dataset(path).update_config({"one": "more"})
    second = newest.find()
    assert done
    assert second.dataset.count_rows() == 4
    assert second.place != first.place


def test_a_new_version_takes_the_columns_that_are_kept(root: Path, open_engine: Open) -> None:
    path = with_bases(root)
    engine = open_engine(root)
    expected = read_rows(path)
    statements = ("SELECT * FROM t", "SELECT sum(id) FROM t")
    for sql in statements * 3:
        read(engine, sql, FULL_ACCESS)
    lance.write_dataset(rows([500], "more"), path, mode="append")
    directories = [path / "data", root / "t_one", root / "t_two" / "data"]
    for directory in directories:
        (directory / PART).unlink()
    found = read(engine, "SELECT * FROM t", FULL_ACCESS)
    assert sorted(row[0] for row in found) == [*(row["id"] for row in expected), 500]


@pytest.mark.slow
def test_swapped_columns_lack_what_the_other_lacked(
    root: Path, writers: WriterProcess, open_engine: Open
) -> None:
    vectors = pa.list_(pa.float32(), 2)
    schema = pa.schema([key_field("id", pa.int64()), pa.field("v", vectors), pa.field("w", vectors)])
    stored = [{"id": key, "v": [key, 0.0], "w": [0.0, key]} for key in range(1, 5)]
    table = LsmTable.create(
        root, "t", pa.Table.from_pylist(stored, schema=schema), unpartitioned(("id",), 1), writers
    )
    table.put([{"id": 9, "v": [9.0, 9.0], "w": None}])
    table.close_writers()
    engine = open_engine(root)
    nearest = "SELECT id FROM t ORDER BY array_distance({}, [1.0, 0.0]) NULLS FIRST LIMIT 1"
    for _ in range(2):
        assert read(engine, nearest.format("v"), FULL_ACCESS) == [(1,)]
        assert read(engine, nearest.format("w"), FULL_ACCESS) == [(9,)]
    for before, after in (("v", "x"), ("w", "v"), ("x", "w")):
        lance.dataset(table.path).alter_columns({"path": before, "name": after})
    for _ in range(2):
        assert read(engine, nearest.format("w"), FULL_ACCESS) == [(1,)]
        assert read(engine, nearest.format("v"), FULL_ACCESS) == [(9,)]


def test_types_that_print_alike_are_not_the_same() -> None:
    two = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    one = pa.struct([("a: int64, b", pa.int64())])
    assert str(one) == str(two)
    files = FragmentFiles(Place.new("t"), ())
    assert intern(StoredValues, files, 1, one) is not intern(StoredValues, files, 1, two)
    assert intern(StoredValues, files, 1, one) is intern(StoredValues, files, 1, one)
    assert Columns.of([(1, "c", one)]) != Columns.of([(1, "c", two)])
    assert Columns.of([(1, "c", one)]) is Columns.of([(1, "c", one)])


@pytest.mark.slow
def test_every_key_is_a_frozen_dataclass(root: Path, writers: WriterProcess, open_engine: Open) -> None:
    table = LsmTable.create(root, "t", rows(range(1, 9), "ants"), unpartitioned(("id",), 1), writers)
    index_texts(table.path)
    expected = {row["id"]: row for row in read_rows(table.path)}
    for keys in ([2, 20], [3, 30]):
        fresh = rows(keys, "bees").to_pylist()
        table.put(fresh)
        expected |= {row["id"]: row for row in fresh}
        if keys == [2, 20]:
            table.close_writers()
    engine = open_engine(root)
    for _ in range(2):
        check(engine, "t", list(expected.values()), text=True)
    kinds = {type(key) for cache in engine.catalog.caches.values() for key in cache._entries}
    assert len(kinds) > 20
    for kind in kinds:
        assert is_dataclass(kind)
        assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert kind.__doc__
        assert not kind.__doc__.startswith(f"{kind.__name__}(")  # what a dataclass says by itself
    table.close_writers()
