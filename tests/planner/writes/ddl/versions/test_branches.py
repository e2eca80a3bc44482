"""CREATE BRANCH, DROP BRANCH and reading branches, as Lance's own readers see them, too."""

from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
)
from lance_gateway.pipeline.cleaning import clean
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.planner.access.rights import TableAccess
from tests.planner.writes.ddl.versions.test_restore import merge_all
from tests.support.judging.principals import create_principal
from tests.support.lake.cleaning import NEWEST_ONLY, create_late_clock

Sql = Any


@pytest.fixture
def table(sql: Sql) -> Sql:
    """Table t, whose tag 'first' has row 1, and whose newest version has rows 1 and 2."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT) WITH (region_by = 'bucket(id, 2)')")
    sql("INSERT INTO t VALUES (1, 'a')")
    merge_all(sql)
    sql("CREATE TAG first ON t")
    sql("INSERT INTO t VALUES (2, 'b')")
    merge_all(sql)
    return sql


def branch(sql: Sql, name: str) -> lance.LanceDataset:
    """The newest version of a branch, by the path that all readers of Lance take."""
    return lance.dataset(f"{sql.root}/t.lance/tree/{name}")


def append(sql: Sql, name: str, key: int) -> None:
    rows = pa.Table.from_pylist([{"id": key, "s": name}], sql.dataset("t").schema)
    lance.write_dataset(rows, branch(sql, name), mode="append")


def test_a_branch_goes_its_own_way(table: Sql) -> None:
    table('CREATE BRANCH "exp/one" ON t')
    table("CREATE BRANCH old ON t FROM VERSION AS OF 'first'")
    table("CREATE BRANCH again ON t FROM VERSION AS OF 'exp/one'")
    append(table, "exp/one", 7)
    table("INSERT INTO t VALUES (3, 'c')")
    read = "SELECT id FROM t {} ORDER BY id"
    assert table(read.format("FOR VERSION AS OF 'exp/one'")) == [(1,), (2,), (7,)]
    append(table, "exp/one", 8)
    assert table(read.format("VERSION AS OF 'exp/one'")) == [(1,), (2,), (7,), (8,)]
    assert table(read.format("VERSION AS OF 'old'")) == [(1,)]
    assert table(read.format("VERSION AS OF 'again'")) == [(1,), (2,)]
    assert table(read.format("")) == [(1,), (2,), (3,)]
    assert table("SELECT s FROM t VERSION AS OF 'exp/one' WHERE id = 8") == [("exp/one",)]
    assert branch(table, "exp/one").to_table().column("id").to_pylist() == [1, 2, 7, 8]
    assert table("SELECT branch, parent, created_at > now() - INTERVAL '1 hour' FROM system.branches") == [
        ("again", "exp/one", True),
        ("exp/one", "main", True),
        ("old", "main", True),
    ]
    plan = table("EXPLAIN SELECT * FROM t VERSION AS OF 'old'")
    assert "on branch 'old'" in str(plan)


def test_rows_in_regions_of_a_branch_are_read(table: Sql) -> None:
    """Lance's own writer opens a region of a branch, which begins above what the table had merged."""
    table("CREATE BRANCH b ON t")
    at = branch(table, "b")
    merged = table.details("t").merged_generations
    with at.mem_wal_writer("11111111-2222-4333-8444-555555555555") as writer:
        writer.put(pa.Table.from_pylist([{"id": 9, "s": "fresh"}], at.schema))
        assert table("SELECT id FROM t VERSION AS OF 'b' ORDER BY id") == [(1,), (2,), (9,)]
    assert table("SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    assert table.details("t").merged_generations == merged


def test_a_tag_of_a_branch_is_read_and_keeps_it(table: Sql) -> None:
    table("CREATE BRANCH b ON t")
    append(table, "b", 7)
    table("CREATE TAG seven ON t VERSION AS OF 'b'")
    append(table, "b", 8)
    assert table("SELECT id FROM t VERSION AS OF 'seven' ORDER BY id") == [(1,), (2,), (7,)]
    assert table("SELECT branch FROM system.tags WHERE tag = 'seven'") == [("b",)]
    table("CREATE BRANCH c ON t FROM VERSION AS OF 'seven'")
    assert table("SELECT max(id) FROM t VERSION AS OF 'c'") == [(7,)]
    with pytest.raises(
        PreconditionError, match="branch 'b' of table 't' is needed by tag 'seven': DROP TAG it"
    ):
        table("DROP BRANCH b ON t")
    table("DROP TAG seven ON t")
    with pytest.raises(PreconditionError, match="is needed by branch 'c': DROP BRANCH it"):
        table("DROP BRANCH b ON t")
    table("DROP BRANCH c ON t")
    table("DROP BRANCH b ON t")
    table("DROP BRANCH IF EXISTS b ON t")
    assert sorted(table.dataset("t").branches.list()) == []
    with pytest.raises(NotFoundError, match="'t' has no tag 'b'"):
        table("SELECT * FROM t VERSION AS OF 'b'")


def test_a_branch_made_anew_is_another_one(table: Sql) -> None:
    for key in (7, 8):
        table("CREATE BRANCH b ON t")
        append(table, "b", key)
        assert table("SELECT id FROM t VERSION AS OF 'b' ORDER BY id") == [(1,), (2,), (key,)]
        table("DROP BRANCH b ON t")


def test_cleaning_the_table_leaves_what_branches_need(table: Sql) -> None:
    table("CREATE BRANCH b ON t FROM VERSION AS OF 'first'")
    table("DROP TAG first ON t")
    table("DELETE FROM t WHERE id > 0")
    merge_all(table)
    table("OPTIMIZE t")
    clean(LakeTable.at(str(table.root / "t.lance")), NEWEST_ONLY, delete=True, clock=create_late_clock())
    assert table("SELECT * FROM t VERSION AS OF 'b'") == [(1, "a")]
    assert branch(table, "b").to_table().num_rows == 1
    assert table("SELECT * FROM t") == []


def test_rows_that_are_not_merged_refuse_a_branch(table: Sql) -> None:
    table("INSERT INTO t VALUES (5, 'e')")
    with pytest.raises(
        PreconditionError, match=r"'b' of table 't' can't be created from version .*: 1 of its"
    ):
        table("CREATE BRANCH b ON t")
    table("CREATE BRANCH b ON t FROM VERSION AS OF 'first'")
    merge_all(table)
    table("CREATE BRANCH c ON t")
    assert table("SELECT max(id) FROM t VERSION AS OF 'c'") == [(5,)]


def test_a_table_with_branches_stays_where_it_is(table: Sql) -> None:
    table("CREATE BRANCH b ON t")
    with pytest.raises(PreconditionError, match="'t' can't be renamed, since its branch 'b'"):
        table("ALTER TABLE t RENAME TO u")
    table("DROP BRANCH b ON t")
    table("ALTER TABLE t RENAME TO u")


def test_a_table_is_compared_with_a_branch_and_restored_to_it(table: Sql) -> None:
    table("CREATE BRANCH b ON t")
    append(table, "b", 7)
    table("DELETE FROM t WHERE id = 1")
    changes = "SELECT id, _change FROM lance_changes('t', {}) ORDER BY id"
    assert table(changes.format("since => 'b'")) == [(1, "delete"), (7, "delete")]
    assert table(changes.format("since => 'first', until => 'b'")) == [(2, "insert"), (7, "insert")]
    table("RESTORE TABLE t TO VERSION AS OF 'b'")
    assert table("SELECT id, s FROM t ORDER BY id") == [(1, "a"), (2, "b"), (7, "b")]


@pytest.mark.parametrize("name", ["main", "über", "a b", "a//b", "x.lock", "a..b", "/a", "a/"])
def test_names_that_lance_does_not_take_are_refused(table: Sql, name: str) -> None:
    with pytest.raises(InvalidInputError, match="a branch can't be named"):
        table(f'CREATE BRANCH "{name}" ON t')


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("CREATE BRANCH first ON t", AlreadyExistsError, "'t' has a tag 'first'"),
        ("CREATE BRANCH b ON t", AlreadyExistsError, "'t' has a branch 'b' already"),
        ("CREATE TAG b ON t", AlreadyExistsError, "'t' has a branch 'b': give the tag another name"),
        ("CREATE BRANCH c ON t FROM VERSION AS OF 99", NotFoundError, "'t' has no version 99"),
        ("CREATE BRANCH c ON t FROM x", InvalidInputError, "Expected VERSION AS OF"),
        ("CREATE OR REPLACE BRANCH b ON t", InvalidInputError, "A branch is not replaced"),
        ("DROP BRANCH c ON t", NotFoundError, "'t' has no branch 'c'; it has 'b'"),
        ("INSERT INTO t VERSION AS OF 'b' VALUES (1, 'x')", InvalidInputError, "branch"),
        ("DELETE FROM t FOR VERSION AS OF 'b'", InvalidInputError, "branch"),
        ("UPDATE t FOR VERSION AS OF 'b' SET s = 'x'", InvalidInputError, "branch"),
    ],
)
def test_what_is_wrong_is_named(table: Sql, statement: str, error: type[Exception], message: str) -> None:
    table("CREATE BRANCH b ON t")
    table("CREATE BRANCH IF NOT EXISTS b ON t")
    with pytest.raises(error, match=message):
        table(statement)


def test_branches_are_for_those_who_may_write(table: Sql) -> None:
    table("CREATE BRANCH b ON t")
    reader = create_principal(t=TableAccess())
    assert table("SELECT count(*) FROM t VERSION AS OF 'b'", reader) == [(2,)]
    for statement in ("CREATE BRANCH c ON t", "DROP BRANCH b ON t"):
        with pytest.raises(PermissionDeniedError):
            table(statement, reader)
