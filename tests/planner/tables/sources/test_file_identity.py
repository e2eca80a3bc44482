"""Rows that are kept are those of one file: another one of the same name, wherever it is, is another file."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from execnodes.storage.data_files import Columns, FragmentFiles, Place, StoredValues, intern, list_bases
from memwal.errors import CorruptDataError
from memwal.storage.files import Storage
from planner.access.rights import FULL_ACCESS, Access, TableAccess
from planner.engine import QueryEngine
from planner.tables.sources.keys import LOOKUPS_BEFORE
from planner.tables.state.catalog import Catalog
from planner.tables.state.table import NewestBase
from tests.support.hand_made import (
    PART,
    commit_fragments,
    create_base_path,
    make_table,
    read_rows,
    write_fragment,
)
from tests.support.principals import create_principal
from tests.support.results import rows_of
from tests.support.tables import LsmTable, key_field, unpartitioned
from tests.support.writer_process import WriterProcess

SCHEMA = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("tenant", pa.string()),
        pa.field("title", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
Open = Callable[[Path], QueryEngine]
Row = dict[str, Any]

X_ONLY = TableAccess(row_filter="tenant = 'x'", masks={"title": "upper(title)"})
FILTERED_ONLY = TableAccess(row_filter="tenant = 'x'")
MASKED = create_principal(a=X_ONLY, b=X_ONLY, t=X_ONLY)
FILTERED = create_principal(a=FILTERED_ONLY, b=FILTERED_ONLY, t=FILTERED_ONLY)
PRINCIPALS: tuple[Access, ...] = (FULL_ACCESS, MASKED, FILTERED)


def rows(keys: Iterable[int], word: str, *, odd: str = "x", even: str = "y") -> pa.Table:
    """One row for each key; a table of another word differs in every column but the key."""
    shift = sum(map(ord, word)) / 7
    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "tenant": odd if key % 2 else even,
                "title": f"{word} {key}",
                "vec": [key + shift, shift],
            }
            for key in keys
        ],
        schema=SCHEMA,
    )


def shown(stored: Iterable[Row], access: Access) -> dict[int, Row]:
    """What a principal sees of rows, by key; written out, so that no code under test decides it."""
    if access is FULL_ACCESS:
        return {row["id"]: row for row in stored}
    of_x = [row for row in stored if row["tenant"] == "x"]
    return {row["id"]: {**row, "title": row["title"].upper()} if access is MASKED else row for row in of_x}


def read(engine: QueryEngine, sql: str, access: Access) -> list[tuple[Any, ...]]:
    return rows_of(engine.prepare(sql, access=access).execute().read_all())


def check(engine: QueryEngine, table: str, stored: Sequence[Row], *, text: bool = False) -> None:
    """Whatever way a table is read, and whoever reads it, these are its rows."""
    for access in PRINCIPALS:
        expected = shown(stored, access)
        found = engine.prepare(f"SELECT * FROM {table}", access=access).execute().read_all()
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == [
            expected[key] for key in sorted(expected)
        ]
        assert read(engine, f"SELECT count(*), sum(id) FROM {table}", access) == [
            (len(expected), sum(expected) if expected else None)
        ]
        assert sorted(read(engine, f"SELECT title FROM {table} WHERE tenant = 'x'", access)) == sorted(
            (row["title"],) for row in expected.values() if row["tenant"] == "x"
        )
        for key in [*sorted({row["id"] for row in stored})[:2], 10_000]:
            assert read(engine, f"SELECT title FROM {table} WHERE id = {key}", access) == (
                [(expected[key]["title"],)] if key in expected else []
            )
        target = [3.0, 1.0]
        distances = sorted(
            (float(np.square(np.array(row["vec"]) - target).sum()), key) for key, row in expected.items()
        )
        nearest = (
            f"SELECT id FROM lance_vector_search('{table}', 'vec', {target}, k => 3) ORDER BY _distance, id"
        )
        assert read(engine, nearest, access) == [(key,) for _, key in distances[:3]]
        if text and access is not MASKED:  # what is masked can't be searched
            for word in sorted({row["title"].split()[0] for row in stored}):
                found_by = f"SELECT id FROM lance_fts('{table}', 'title', '{word}', k => 1000)"
                having = sorted((key,) for key, row in expected.items() if word in row["title"])
                assert sorted(read(engine, found_by, access)) == having


def look_up_often(engine: QueryEngine, table: str) -> None:
    """So that keys of the base table are kept."""
    for _ in range(LOOKUPS_BEFORE + 2):
        read(engine, f"SELECT id FROM {table} WHERE id = 1", FULL_ACCESS)


def index_texts(path: Path) -> None:
    lance.dataset(path).create_scalar_index("title", "INVERTED", with_position=True)


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


def with_bases(root: Path, name: str = "t") -> Path:
    """A table with files of one name in its own directory and in two bases, of both kinds."""
    path = root / f"{name}.lance"
    make_table(path, rows(range(1, 9), "oaks"))
    one, two = root / f"{name}_one", root / f"{name}_two"
    lance.dataset(path).add_bases([create_base_path(one, 1), create_base_path(two, 2, is_dataset_root=True)])
    commit_fragments(
        path,
        write_fragment(one, rows(range(101, 109), "elms", odd="y", even="x"), base_id=1),
        write_fragment(two / "data", rows(range(201, 240), "firs"), base_id=2),
    )
    return path


@pytest.mark.slow
def test_a_table_lies_in_several_bases(root: Path, open_engine: Open) -> None:
    path = with_bases(root)
    index_texts(path)
    engine = open_engine(root)
    for _ in range(3):
        check(engine, "t", read_rows(path), text=True)
        look_up_often(engine, "t")
    elsewhere = open_engine(root)
    offer = engine.prepare("SELECT * FROM t").parts(3)
    assert offer is not None
    parts = [elsewhere.prepare("SELECT * FROM t").execute_part(part).read_all() for part in offer.parts]
    assert sorted(row["id"] for part in parts for row in part.to_pylist()) == [
        row["id"] for row in read_rows(path)
    ]
    for condition in ("id IN (2, 102, 203)", "id = 101"):
        lance.dataset(path).delete(condition)
        for _ in range(2):
            check(engine, "t", read_rows(path), text=True)


@pytest.mark.slow
def test_fresh_rows_supersede_those_of_their_base(
    root: Path, writers: WriterProcess, open_engine: Open
) -> None:
    path = with_bases(root)
    lance.dataset(path).initialize_mem_wal()
    table = LsmTable(path, ("id",), unpartitioned(("id",), 1), writers)
    expected = {row["id"]: row for row in read_rows(path)}
    engine = open_engine(root)
    check(engine, "t", list(expected.values()))
    for keys in ([1, 103], [204, 105, 300]):
        fresh = rows(keys, "fresh").to_pylist()
        table.put(fresh)
        expected |= {row["id"]: row for row in fresh}
        for _ in range(2):
            check(engine, "t", list(expected.values()))
        table.close_writers()  # flushes
        for _ in range(2):
            check(engine, "t", list(expected.values()))
    table.delete([{"id": 2}, {"id": 201}])
    del expected[2], expected[201]
    for _ in range(2):
        check(engine, "t", list(expected.values()))
    table.close_writers()
    check(engine, "t", list(expected.values()))


@pytest.mark.slow
def test_a_generation_lies_in_several_bases(root: Path, writers: WriterProcess, open_engine: Open) -> None:
    table = LsmTable.create(root, "t", rows(range(1, 9), "base"), unpartitioned(("id",), 1), writers)
    expected = {row["id"]: row for row in rows(range(1, 9), "base").to_pylist()}
    fresh = rows(range(2, 22), "fresh").to_pylist()
    table.put(fresh)
    (region,) = table.regions.values()
    table.close_writers()
    expected |= {row["id"]: row for row in fresh}
    _divide(table.generation_directory(region, 1), root)
    for _ in range(2):
        engine = open_engine(root)
        for _ in range(3):
            check(engine, "t", list(expected.values()))
        later = rows([3, 13, 40], "later").to_pylist()
        table.put(later)
        expected |= {row["id"]: row for row in later}
        check(engine, "t", list(expected.values()))
        table.close_writers()
        check(engine, "t", list(expected.values()))


def _divide(path: Path, root: Path) -> None:
    """Put the rows of a generation into two files of one name, in bases of their own, in the same order."""
    generation = lance.dataset(path)
    written = generation.to_table()
    stored = [one.metadata for one in generation.get_fragments()]
    ids = stored[0].files[0].fields
    generation.add_bases([create_base_path(root / "left", 1), create_base_path(root / "right", 2)])
    half = written.num_rows // 2
    parts = [
        write_fragment(root / "left", written.slice(0, half), base_id=1, ids=ids),
        write_fragment(root / "right", written.slice(half), base_id=2, ids=ids),
    ]
    lance.LanceDataset.commit(
        path,
        lance.LanceOperation.Update(removed_fragment_ids=[one.id for one in stored], new_fragments=parts),
        read_version=lance.dataset(path).version,
    )
    assert lance.dataset(path).to_table().num_rows == written.num_rows


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


def test_a_file_in_a_base_that_is_not_there_is_told(root: Path) -> None:
    path = root / "t.lance"
    dataset = make_table(path, rows(range(1, 9), "ants"))
    described = write_fragment(root / "lost", rows([1], "bees"), base_id=7)
    with pytest.raises(CorruptDataError, match="base 7"):
        FragmentFiles.of(described, Place.new(str(path)), list_bases(dataset))
