"""DROP TABLE: readers and writers of every gateway find it gone, and nothing of it comes back."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.creating import delete_table
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, PreconditionError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.tables.sources.keys import LOOKUPS_BEFORE
from tests.planner.identity_tables import with_bases
from tests.support.processes.gateways import EngineGateway

Sql = Any
MAKE = "CREATE TABLE t (id INT PRIMARY KEY, name TEXT) WITH (region_by = 'bucket(id, 2)')"


@pytest.fixture
def filled(sql: Sql) -> Sql:
    """Table t with rows in the log of two regions."""
    sql(MAKE)
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return sql


def test_nothing_of_it_is_left(filled: Sql, root: Path) -> None:
    assert filled("DROP TABLE t") == -1
    assert list(root.iterdir()) == []
    for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (4, 'd')", "DROP TABLE t", "OPTIMIZE t"):
        with pytest.raises(NotFoundError, match="'t' does not exist"):
            filled(statement)
    assert filled("DROP TABLE IF EXISTS t") == -1


def test_what_was_prepared_before_finds_it_gone(filled: Sql, root: Path) -> None:
    query = filled.engine.prepare("SELECT * FROM t")
    insert = filled.engine.prepare_statement("INSERT INTO t VALUES (4, 'd')")
    filled("DROP TABLE t")
    for late in (lambda: query.execute().read_all(), insert.execute):
        with pytest.raises(NotFoundError):
            late()
    assert list(root.iterdir()) == []


def test_a_table_made_anew_has_nothing_of_the_old_one(filled: Sql) -> None:
    filled("DROP TABLE t")
    filled(MAKE)
    assert filled("SELECT * FROM t") == []
    filled("INSERT INTO t VALUES (1, 'new')")
    assert filled("SELECT * FROM t") == [(1, "new")]


@pytest.mark.slow
def test_another_gateway_reads_and_writes_the_new_table(
    filled: Sql, root: Path, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(root)
    assert len(other("SELECT * FROM t")) == 3
    other("INSERT INTO t VALUES (4, 'd')")  # holds a region of the table that is dropped
    filled("DROP TABLE t")
    with pytest.raises(NotFoundError):
        other("SELECT * FROM t")
    with pytest.raises(LanceGatewayError):
        other("INSERT INTO t VALUES (5, 'e')")
    assert filled("SELECT table_name FROM system.tables") == []
    filled(MAKE)
    assert other("SELECT * FROM t") == []
    other("INSERT INTO t VALUES (6, 'f')")
    filled("INSERT INTO t VALUES (7, 'g')")
    assert (
        filled("SELECT * FROM t ORDER BY id") == other("SELECT * FROM t ORDER BY id") == [(6, "f"), (7, "g")]
    )


def test_another_gateway_that_ends_later_leaves_nothing_of_it(
    filled: Sql, root: Path, open_gateway: Callable[..., Sql]
) -> None:
    other = open_gateway(root)
    other("INSERT INTO t VALUES (4, 'd')")
    filled("DROP TABLE t")
    filled(MAKE)
    other.engine.close()
    assert filled("SELECT * FROM t") == []


def test_a_writer_that_did_not_notice_harms_no_later_table(filled: Sql) -> None:
    dataset = filled.dataset("t")
    region = filled("SELECT region_id FROM system.regions LIMIT 1")[0][0]
    writer = dataset.mem_wal_writer(
        region, durable_write=True, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
    )
    filled("DROP TABLE t")
    # Lance makes directories again where it does not find them.
    writer.put(dataset.schema.empty_table().from_pylist([{"id": 9, "name": "ghost"}], schema=dataset.schema))
    assert filled("SELECT table_name FROM system.tables") == []
    filled(MAKE)
    filled("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert filled("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_drop_that_was_cut_short_leaves_no_table_and_can_be_repeated(filled: Sql, root: Path) -> None:
    (manifest,) = (root / "t.lance" / "_versions").glob("*.manifest")
    manifest.unlink()
    with pytest.raises(NotFoundError):
        filled("SELECT * FROM t")
    filled("DROP TABLE IF EXISTS t")
    filled(MAKE)
    assert filled("SELECT * FROM t") == []
    delete_table(Storage.open(str(root / "t.lance")))
    delete_table(Storage.open(str(root / "t.lance")))
    assert list(root.iterdir()) == []


def test_files_that_are_to_stay_stay(root: Path) -> None:
    table = root / "t.lance"
    for name in ("_versions/1.manifest", "data/a.lance", "data/b.lance"):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"x")
    delete_table(Storage.open(str(table)), keep=["data/b.lance"])
    assert [path for path in root.rglob("*") if path.is_file()] == [table / "data" / "b.lance"]


def test_writers_and_a_drop_at_once_end_with_no_table(filled: Sql) -> None:
    failures: list[Exception] = []
    started = threading.Barrier(3)

    def write(first: int) -> None:
        started.wait()
        for key in range(first, first + 50):
            try:
                filled(f"INSERT INTO t VALUES ({key}, 'x')")
            except LanceGatewayError as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=write, args=(first,)) for first in (100, 200)]
    for thread in threads:
        thread.start()
    started.wait()
    filled("DROP TABLE t")
    for thread in threads:
        thread.join()
    assert filled("SELECT table_name FROM system.tables") == []
    filled(MAKE)
    assert filled("SELECT * FROM t") == []


def test_views_and_tables_are_told_apart(filled: Sql) -> None:
    filled("CREATE VIEW v AS SELECT id FROM t")
    with pytest.raises(InvalidInputError, match="DROP VIEW"):
        filled("DROP TABLE v")
    with pytest.raises(InvalidInputError, match="DROP TABLE"):
        filled("DROP VIEW t")
    filled("DROP VIEW v")
    with pytest.raises(NotFoundError):
        filled("SELECT * FROM v")


@pytest.mark.slow
def test_what_was_found_out_about_a_table_is_not_believed_of_the_next_one(sql: Sql) -> None:
    make = "CREATE OR REPLACE TABLE t (PRIMARY KEY (id)) AS SELECT {} FROM generate_series(0, 99) AS s(value)"
    sql(make.format("value AS id, value AS n"))
    for key in range(LOOKUPS_BEFORE + 10):
        assert sql(f"SELECT n FROM t WHERE id = {key}") == [(key,)][: key < 100]
    sql("INSERT INTO t VALUES (7, 70)")
    assert sql("SELECT n, count(*) OVER () FROM t WHERE id = 7") == [(70, 1)]
    sql(make.format("99 - value AS id, -value AS n"))
    for key in range(LOOKUPS_BEFORE + 50):
        assert sql(f"SELECT n FROM t WHERE id = {key}") == [(key - 99,)][: key < 100]
    assert sql("SELECT count(*), sum(n) FROM t") == [(100, -4950)]


def test_files_in_other_places_are_not_left_in_silence(tmp_path: Path):
    path, gateway = with_bases(tmp_path), EngineGateway(tmp_path)
    everything = "SELECT count(*) AS n, sum(id) AS s FROM {}"
    before = gateway.read(everything.format("t")).to_pylist()
    gateway.write("CREATE TABLE copied CLONE t")
    lance.dataset(path).shallow_clone(str(tmp_path / "shallow.lance"), lance.dataset(path).version)
    lance.write_dataset(pa.table({"a": [1]}), tmp_path / "plain.lance").shallow_clone(
        str(tmp_path / "of_plain.lance"), 1
    )
    elsewhere = rf"{tmp_path}/t_one, {tmp_path}/t_two\. DROP TABLE t CASCADE"
    for sql in ("DROP TABLE t", "CREATE OR REPLACE TABLE t AS SELECT 1 AS a"):
        with pytest.raises(PreconditionError, match=elsewhere):
            gateway.write(sql)
    with pytest.raises(PreconditionError, match="DROP TABLE shallow CASCADE"):
        gateway.write("DROP TABLE shallow")
    gateway.write("DROP TABLE shallow CASCADE")
    gateway.write("DROP TABLE of_plain")
    assert gateway.read(everything.format("t")).to_pylist() == before
    gateway.write("ALTER TABLE t RENAME TO u")
    gateway.write("OPTIMIZE u")
    assert gateway.read(everything.format("u")).to_pylist() == before
    gateway.write("DROP TABLE u CASCADE")
    assert gateway.read(everything.format("copied")).to_pylist() == before
    assert lance.dataset(tmp_path / "copied.lance").count_rows() == before[0]["n"]
    assert list((tmp_path / "t_one").iterdir())
    assert list((tmp_path / "t_two" / "data").iterdir())
    gateway.close()
