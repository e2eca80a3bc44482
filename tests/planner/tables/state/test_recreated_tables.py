"""A table that was dropped and recreated under the same version number is another table."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.fs
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, UnavailableError
from lance_gateway.memwal.storage.backends import ObjectBackend
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, SessionSettings, Shortcut
from lance_gateway.planner.tables.sources.keys import LOOKUPS_BEFORE
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of
from tests.support.lake.tables import LsmTable, bucketed, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32())])
Open = Callable[[Path], QueryEngine]
Rows = list[tuple[Any, ...]]


def plain(root: Path, rows: dict[int, int], *, index: bool = False) -> lance.LanceDataset:
    """Table ``t``, recreated where it exists, at version 2."""
    shutil.rmtree(root / "t.lance", ignore_errors=True)
    base = pa.Table.from_pylist([{"id": key, "n": n} for key, n in rows.items()], schema=SCHEMA)
    dataset = lance.write_dataset(base, root / "t.lance")
    if index:
        dataset.create_scalar_index("id", "BTREE")
    else:
        dataset.update_config({"made": "so"})
    assert lance.dataset(root / "t.lance").version == 2
    return dataset


def answer(engine: QueryEngine, sql: str, **settings: Any) -> Rows:
    return sorted(rows_of(engine.execute(sql, SessionSettings(**settings)).read_all()))


@pytest.mark.slow
@pytest.mark.parametrize("index", [False, True])
def test_every_kind_of_statement_reads_the_new_table(root: Path, open_engine: Open, index: bool) -> None:
    plain(root, {1: 10, 2: 20, 3: 30}, index=index)
    engine = open_engine(root)
    statements = ["SELECT * FROM t", "SELECT count(*), sum(n) FROM t", "SELECT n FROM t WHERE id = 2"]
    assert [answer(engine, sql) for sql in statements] == [[(1, 10), (2, 20), (3, 30)], [(3, 60)], [(20,)]]
    for again in (False, True):
        plain(root, {2: 21, 5: 50}, index=index is not again)
        assert [answer(engine, sql) for sql in statements] == [[(2, 21), (5, 50)], [(2, 71)], [(21,)]]
        plain(root, {1: 10}, index=index)
        assert [answer(engine, sql) for sql in statements] == [[(1, 10)], [(1, 10)], []]


@pytest.mark.slow
def test_keys_that_are_looked_up_often_are_found_in_the_new_table(root: Path, open_engine: Open) -> None:
    plain(root, {key: key for key in range(100)})
    engine = open_engine(root)
    for key in range(LOOKUPS_BEFORE + 10):
        assert answer(engine, f"SELECT n FROM t WHERE id = {key}") == [(key,)]
    plain(root, {key: -key for key in range(99, 20, -1)})
    for key in range(LOOKUPS_BEFORE + 50):
        found = [(-key,)] if key > 20 else []
        assert answer(engine, f"SELECT n FROM t WHERE id = {key}") == found


def test_a_table_that_is_gone_is_missing_until_it_is_made_anew(root: Path, open_engine: Open) -> None:
    plain(root, {1: 10})
    engine = open_engine(root)
    assert answer(engine, "SELECT * FROM t") == [(1, 10)]
    shutil.rmtree(root / "t.lance")
    with pytest.raises(NotFoundError, match="t"):
        answer(engine, "SELECT * FROM t")
    plain(root, {1: 11})
    assert answer(engine, "SELECT * FROM t") == [(1, 11)]


def test_a_table_with_other_columns_is_planned_with_them(root: Path, open_engine: Open) -> None:
    plain(root, {1: 10})
    engine = open_engine(root)
    prepared = engine.prepare("SELECT * FROM t")
    assert rows_of(prepared.execute().read_all()) == [(1, 10)]
    shutil.rmtree(root / "t.lance")
    lance.write_dataset(pa.table({"name": ["a"]}), root / "t.lance").update_config({"made": "so"})
    assert answer(engine, "SELECT * FROM t") == [("a",)]
    assert engine.prepare("SELECT * FROM t").schema.names == ["name"]
    with pytest.raises(InvalidInputError, match="No field named n"):
        answer(engine, "SELECT n FROM t")


def test_a_statement_that_was_prepared_before_reads_the_new_table(root: Path, open_engine: Open) -> None:
    plain(root, {1: 10, 2: 20})
    engine = open_engine(root)
    prepared = [engine.prepare(sql) for sql in ("SELECT * FROM t", "SELECT id, n FROM t WHERE id = 1")]
    assert [rows_of(one.execute().read_all()) for one in prepared] == [[(1, 10), (2, 20)], [(1, 10)]]
    plain(root, {1: 11})
    assert [rows_of(one.execute().read_all()) for one in prepared] == [[(1, 11)], [(1, 11)]]


@pytest.mark.slow
@pytest.mark.parametrize("layout", [unpartitioned(("id",), 1), bucketed("id", 2, recorded=True)])
@pytest.mark.parametrize("consistency", ["strong", "flushed"])
@pytest.mark.parametrize("base_rows", [0, 3])
def test_fresh_rows_are_those_of_the_new_table(
    root: Path,
    writers: WriterProcess,
    open_engine: Open,
    layout: Any,
    consistency: str,
    base_rows: int,
) -> None:
    """The regions have the same ids, and their manifests and logs the same numbers, as those before."""

    def make(n: int) -> None:
        shutil.rmtree(root / "t.lance", ignore_errors=True)
        base = pa.Table.from_pylist([{"id": key, "n": n} for key in range(base_rows)], schema=SCHEMA)
        table = LsmTable.create(root, "t", base, layout, writers)
        table.put([{"id": key, "n": n + 1} for key in (1, 10, 11)])
        table.close_writers()
        table.put([{"id": key, "n": n + 2} for key in (2, 12, 13)])
        made.append(table)

    def expected(n: int) -> Rows:
        rows = dict.fromkeys(range(base_rows), n) | dict.fromkeys((1, 10, 11), n + 1)
        if consistency == "strong":
            rows |= dict.fromkeys((2, 12, 13), n + 2)
        return sorted(rows.items())

    made: list[LsmTable] = []
    engine = open_engine(root)
    for n in (100, 200, 300):
        make(n)
        for _ in range(2):
            assert answer(engine, "SELECT * FROM t", consistency=consistency) == expected(n)
            rows = dict(expected(n))
            for key in (0, 1, 2, 10, 13):
                found = answer(engine, f"SELECT n FROM t WHERE id = {key}", consistency=consistency)
                assert found == ([(rows[key],)] if key in rows else [])
        made[-1].close_writers()


def test_a_plan_made_for_the_old_table_reads_the_regions_of_the_new(
    root: Path, writers: WriterProcess, open_engine: Open
) -> None:
    plain(root, {1: 1})
    engine = open_engine(root)
    prepared = engine.prepare("SELECT * FROM t WHERE n > 0")
    for number, layout in enumerate([bucketed("id", 2, recorded=True), bucketed("id", 3, recorded=True)], 2):
        shutil.rmtree(root / "t.lance")
        base = pa.Table.from_pylist([{"id": 1, "n": number}], schema=SCHEMA)
        table = LsmTable.create(root, "t", base, layout, writers)
        table.put([{"id": key, "n": number} for key in range(2, 9)])
        assert sorted(rows_of(prepared.execute().read_all())) == [(key, number) for key in range(1, 9)]
        prepared = engine.prepare("SELECT * FROM t WHERE n > 0 AND id > 0")
        table.close_writers()


def test_fresh_rows_may_have_other_columns_than_those_before(
    root: Path, writers: WriterProcess, open_engine: Open
) -> None:
    engine = open_engine(root)
    for kind, values in ((pa.int32(), (1, 2)), (pa.string(), ("a", "b")), (pa.float64(), (0.5, 1.5))):
        shutil.rmtree(root / "t.lance", ignore_errors=True)
        schema = pa.schema([key_field("id", pa.int64()), pa.field("n", kind)])
        rows = [{"id": key, "n": value} for key, value in enumerate(values)]
        base = pa.Table.from_pylist(rows[:1], schema=schema)
        table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers)
        table.put(rows[1:])
        assert answer(engine, "SELECT * FROM t") == list(enumerate(values))
        assert answer(engine, "SELECT n FROM t WHERE id = 1") == [(values[1],)]
        table.close_writers()


@pytest.mark.slow
def test_a_table_on_s3_is_known_by_the_entity_tag_of_its_manifest(
    s3_location: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options = s3_location
    files = pyarrow.fs.S3FileSystem(
        access_key=options["aws_access_key_id"],
        secret_key=options["aws_secret_access_key"],
        region=options["aws_region"],
        endpoint_override=options["aws_endpoint"].removeprefix("http://"),
        scheme="http",
    )

    def write(n: int) -> None:
        rows = pa.table({"id": [1], "n": [n]})
        lance.write_dataset(rows, f"{uri}/t.lance", storage_options=options)

    def drop() -> None:
        files.delete_dir(f"{uri.removeprefix('s3://')}/t.lance")

    monkeypatch.setattr(ObjectBackend, "identity_seconds", 0.0)
    write(1)
    engine = QueryEngine(Catalog.open(uri, options))
    assert answer(engine, "SELECT * FROM t") == [(1, 1)]
    for n in (2, 3):
        drop()
        write(n)
        assert answer(engine, "SELECT * FROM t") == [(1, n)]
    drop()
    with pytest.raises(NotFoundError):
        answer(engine, "SELECT * FROM t")
    engine.close()


@pytest.mark.parametrize("base_rows", [0, 3])
def test_parts_of_the_old_table_are_gone(
    root: Path, writers: WriterProcess, open_engine: Open, base_rows: int
) -> None:
    def make(n: int) -> None:
        shutil.rmtree(root / "t.lance", ignore_errors=True)
        base = pa.Table.from_pylist([{"id": key, "n": n} for key in range(base_rows)], schema=SCHEMA)
        table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers)
        table.put([{"id": key, "n": n + 1} for key in range(10, 20)])
        kept.append(table)

    kept: list[LsmTable] = []
    make(1)
    engine, elsewhere = open_engine(root), open_engine(root)
    sql = "SELECT * FROM t"
    assert len(answer(elsewhere, sql)) == base_rows + 10
    offer = engine.prepare(sql).parts(2)
    assert offer is not None
    for reader in (engine, elsewhere):
        assert rows_of(reader.prepare(sql).execute_part(offer.parts[0]).read_all())
    make(5)
    for reader in (elsewhere, engine):
        with pytest.raises(UnavailableError, match="run the query again"):
            reader.prepare(sql).execute_part(offer.parts[0]).read_all()
    fresh = engine.prepare(sql).parts(2)
    assert fresh is not None
    read = [rows_of(elsewhere.prepare(sql).execute_part(part).read_all()) for part in fresh.parts]
    assert sorted(row for part in read for row in part) == answer(engine, sql)
    for table in kept:
        table.close_writers()


def test_a_new_version_keeps_what_is_known_of_the_table(root: Path) -> None:
    plain(root, {1: 10})
    catalog = Catalog.open(str(root))
    first = catalog.table("t").base()
    assert catalog.table("t").base() is first
    lance.dataset(root / "t.lance").update_config({"one": "more"})
    newer = catalog.table("t").base()
    assert (newer.version, newer.place) == (3, first.place)
    plain(root, {1: 10})
    again = catalog.table("t").base()
    assert (again.version, again.place) != (2, first.place)
    assert catalog.table("t").base() is again
    catalog.close()


@pytest.mark.parametrize("shortcuts", [ALL_SHORTCUTS, ALL_SHORTCUTS - {Shortcut.KEPT_STATE}], ids=len)
def test_a_table_made_anew_before_the_first_batch_is_read_as_it_is_now(
    root: Path, open_engine: Open, shortcuts: frozenset[Shortcut]
) -> None:
    plain(root, {1: 10, 2: 20})
    engine = open_engine(root)
    reader = engine.execute("SELECT id, n FROM t WHERE id > 1", SessionSettings(shortcuts=shortcuts))
    plain(root, {2: 21, 5: 50})
    assert sorted(rows_of(reader.read_all())) == [(2, 21), (5, 50)]
