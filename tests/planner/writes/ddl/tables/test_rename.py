"""RENAME TO: the table has its rows under another name, and nothing that was acknowledged is lost."""

import itertools
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.base import table_place
from lance_gateway.memwal.creating import delete_table
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.memwal.writing.changes import OutcomeUnknownError
from lance_gateway.memwal.writing.region.claim import Claim
from lance_gateway.planner.writes.ddl.tables.renaming import rename_table

Sql = Any
MAKE = "CREATE TABLE {} (id INT PRIMARY KEY, name TEXT) WITH (region_by = 'bucket(id, 2)')"
ROWS = [(1, "a"), (2, "b"), (3, "c")]


@pytest.fixture
def filled(sql: Sql) -> Sql:
    """Table t with rows in the log of two regions."""
    sql(MAKE.format("t"))
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return sql


def test_the_table_has_its_rows_under_the_new_name_alone(filled: Sql, root: Path) -> None:
    filled("CREATE INDEX ON t (name)")
    filled("INSERT INTO t VALUES (4, 'd')")
    assert filled("ALTER TABLE t RENAME TO u") == -1
    assert filled("SELECT * FROM u ORDER BY id") == [*ROWS, (4, "d")]
    assert filled("SELECT table_name FROM system.tables") == [("u",)]
    assert filled("SELECT table_name, index_name FROM system.indexes") == [("u", "name_idx")]
    assert filled.dataset("u").count_rows() == 0  # as Lance reads it; no row was merged
    with pytest.raises(NotFoundError, match="'t' does not exist"):
        filled("SELECT * FROM t")
    filled("INSERT INTO u VALUES (5, 'e')")
    filled("DELETE FROM u WHERE id = 1")
    assert [key for key, _ in filled("SELECT * FROM u ORDER BY id")] == [2, 3, 4, 5]
    assert [path.name for path in root.iterdir()] == ["u.lance"]


def test_a_swap_by_three_renames_exchanges_what_the_names_stand_for(
    filled: Sql, root: Path, open_gateway: Callable[..., Sql]
) -> None:
    """What dbt does to replace a table, among writers of another gateway and a view over the name."""
    other = open_gateway(root)
    other("INSERT INTO t VALUES (4, 'd')")  # holds a region
    other("CREATE VIEW v AS SELECT count(*) AS n FROM t")
    filled("CREATE TABLE t__tmp (PRIMARY KEY (id)) AS SELECT CAST(9 AS INT) AS id, 'new' AS name")
    filled('ALTER TABLE "lance"."main"."t" RENAME TO "t__backup"')
    filled('ALTER TABLE "lance"."main"."t__tmp" RENAME TO "t"')
    assert other("SELECT * FROM t") == filled("SELECT * FROM t") == [(9, "new")]
    assert other("SELECT n FROM v") == filled("SELECT n FROM v") == [(1,)]
    assert other("SELECT * FROM t__backup ORDER BY id") == [*ROWS, (4, "d")]
    other("INSERT INTO t VALUES (10, 'newer')")
    filled("INSERT INTO t__backup VALUES (1, 'changed')")
    filled("DROP TABLE IF EXISTS t__backup CASCADE")
    assert filled("SELECT * FROM t ORDER BY id") == [(9, "new"), (10, "newer")]
    other("INSERT INTO t VALUES (9, 'newest')")
    assert filled("SELECT * FROM t ORDER BY id") == [(9, "newest"), (10, "newer")]
    assert sorted(path.name for path in root.iterdir()) == ["t.lance", "v.view.sql"]


@pytest.mark.slow
@pytest.mark.soak
def test_rows_that_were_acknowledged_while_the_name_changed_are_there(
    root: Path, open_gateway: Callable[..., Sql]
) -> None:
    """Both gateways write by whichever name there is, while a third one renames the table to and fro."""
    first, second, renaming = open_gateway(root), open_gateway(root), open_gateway(root)
    first(MAKE.format("t"))
    acknowledged: list[int] = []
    keys, stops = itertools.count(), threading.Event()

    def write(gateway: Sql) -> None:
        while not stops.is_set():
            key = next(keys)
            for name in itertools.cycle(("t", "u")):
                try:
                    gateway(f"INSERT INTO {name} VALUES ({key}, 'x')")
                except OutcomeUnknownError:
                    break
                except LanceGatewayError:
                    if stops.is_set():
                        break
                else:
                    acknowledged.append(key)
                    break

    threads = [threading.Thread(target=write, args=(one,)) for one in (first, second, first)]
    for thread in threads:
        thread.start()
    old, new = "t", "u"
    for _ in range(6):
        before = len(acknowledged)
        while len(acknowledged) < before + 5:
            pass
        try:
            renaming(f"ALTER TABLE {old} RENAME TO {new}")
        except UnavailableError:  # others fought for a region too long
            continue
        old, new = new, old
    stops.set()
    for thread in threads:
        thread.join()
    assert set(acknowledged) <= {key for key, _ in renaming(f"SELECT * FROM {old}")}
    assert [path.name for path in root.glob("*.lance/_versions")] == ["_versions"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_row_on_its_way_while_the_table_moves_is_not_acknowledged(
    filled: Sql, root: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Lance makes the directories of a log again where it finds none: nobody would read such a row."""
    append = Claim.append

    def move_and_append(claim: Claim, parts: Any, *, deleted: bool) -> None:
        if moment == "after":
            append(claim, parts, deleted=deleted)
        (root / "t.lance").rename(root / "u.lance")
        if moment == "before":
            append(claim, parts, deleted=deleted)

    monkeypatch.setattr(Claim, "append", move_and_append)
    with pytest.raises(OutcomeUnknownError, match="renamed, replaced or dropped while rows were written"):
        filled("INSERT INTO t VALUES (4, 'd')")
    monkeypatch.undo()
    arrived = [(4, "d")] if moment == "after" else []
    assert filled("SELECT * FROM u ORDER BY id") == ROWS + arrived
    filled(MAKE.format("t"))
    assert filled("SELECT * FROM t") == []


def test_names_that_are_taken_stay_what_they_are(filled: Sql) -> None:
    filled(MAKE.format("u"))
    filled("CREATE VIEW v AS SELECT 1 AS one")
    for name in ("u", "v", "t"):
        with pytest.raises(AlreadyExistsError, match=f"'t' can't be renamed: '{name}' exists already"):
            filled(f"ALTER TABLE t RENAME TO {name}")
    with pytest.raises(AlreadyExistsError, match="'v' can't be renamed: 't' exists"):
        filled("ALTER VIEW v RENAME TO t")
    assert filled("SELECT * FROM t ORDER BY id") == ROWS


def test_a_view_is_renamed(filled: Sql, root: Path) -> None:
    filled("CREATE VIEW v AS SELECT id FROM t")
    filled("ALTER VIEW v RENAME TO w")
    filled("ALTER TABLE w RENAME TO x")  # as tools for PostgreSQL write it
    assert filled("SELECT count(*) FROM x") == [(3,)]
    assert sorted(path.name for path in root.iterdir()) == ["t.lance", "x.view.sql"]
    with pytest.raises(InvalidInputError, match="'t' is a table: ALTER TABLE"):
        filled("ALTER VIEW t RENAME TO y")
    with pytest.raises(UnsupportedError, match="can only be renamed"):
        filled("ALTER VIEW x AS SELECT 1")


def test_what_is_not_there_is_not_renamed(sql: Sql) -> None:
    for statement in ("ALTER TABLE t RENAME TO u", "ALTER VIEW t RENAME TO u"):
        with pytest.raises(NotFoundError, match="'t' does not exist"):
            sql(statement)
    assert sql("ALTER TABLE IF EXISTS t RENAME TO u") == -1


def test_what_writers_of_a_former_table_left_does_not_keep_its_name(filled: Sql, root: Path) -> None:
    shutil.copytree(root / "t.lance" / "_mem_wal", root / "u.lance" / "_mem_wal")
    filled("ALTER TABLE t RENAME TO u")
    filled("DELETE FROM u WHERE id = 3")
    assert filled("SELECT * FROM u ORDER BY id") == ROWS[:2]


def test_files_that_may_be_those_of_a_table_being_made_are_not_removed(filled: Sql, root: Path) -> None:
    (root / "u.lance" / "data").mkdir(parents=True)
    (root / "u.lance" / "data" / "x.lance").write_bytes(b"x")
    with pytest.raises(UnavailableError, match="files that are of no table"):
        filled("ALTER TABLE t RENAME TO u")
    assert filled("SELECT * FROM t ORDER BY id") == ROWS
    assert (root / "u.lance" / "data" / "x.lance").exists()


def test_what_was_prepared_before_finds_the_table_that_has_the_name_now(filled: Sql) -> None:
    query = filled.engine.prepare("SELECT * FROM t ORDER BY id")
    insert = filled.engine.prepare_statement("INSERT INTO t VALUES (7, 'new')")
    filled("ALTER TABLE t RENAME TO u")
    for late in (lambda: query.execute().read_all(), insert.execute):
        with pytest.raises(NotFoundError):
            late()
    filled(MAKE.format("t"))
    insert.execute()
    assert query.execute().read_all().to_pylist() == [{"id": 7, "name": "new"}]
    assert filled("SELECT * FROM u ORDER BY id") == ROWS


def test_a_table_stays_where_it_is_while_a_job_commits_to_it(
    filled: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance would commit to the path, whichever table is there by then."""
    monkeypatch.setattr(table_place, "_WAIT_SECONDS", 0.0)
    statements = ("ALTER TABLE t RENAME TO u", "CREATE OR REPLACE TABLE t (id INT)")
    with table_place.keep_in_place(filled.engine.catalog.locate_table("t")):
        filled("ALTER TABLE t ADD COLUMN n INT")  # commits themselves go on beside one another
        for statement in statements:
            with pytest.raises(UnavailableError, match="being merged, indexed, altered or cleaned up"):
                filled(statement)
    assert filled("SELECT id, name FROM t ORDER BY id") == ROWS
    for statement in statements:
        filled(statement)


def test_no_row_is_written_while_a_table_moves(filled: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    """It might come into the log of the table that takes its place."""
    monkeypatch.setattr(table_place, "_WAIT_SECONDS", 0.0)
    with (
        table_place.reserve_place(filled.engine.catalog.locate_table("t")),
        pytest.raises(UnavailableError, match="is renamed or replaced, which takes longer"),
    ):
        filled("INSERT INTO t VALUES (4, 'd')")
    assert filled("SELECT * FROM t ORDER BY id") == ROWS
    filled("INSERT INTO t VALUES (4, 'd')")


def test_a_table_without_a_mem_wal_is_renamed(sql: Sql) -> None:
    sql("CREATE TABLE t WITH (memwal = false) AS SELECT 1 AS id")
    sql("ALTER TABLE t RENAME TO u")
    assert sql("SELECT * FROM u") == [(1,)]


def test_a_table_that_went_meanwhile_is_told(filled: Sql) -> None:
    filled.engine.catalog.table("t").base()
    delete_table(filled.engine.catalog.locate_table("t"))
    with pytest.raises(NotFoundError):
        rename_table(filled.engine.catalog, TableName("t"), TableName("u"))
