"""CREATE TAG and DROP TAG, as Lance's own readers see them, too."""

import threading
from collections.abc import Callable
from pathlib import Path
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
from lance_gateway.planner.access.rights import TableAccess
from tests.support.judging.principals import create_principal

Sql = Any


@pytest.fixture
def table(sql: Sql) -> Sql:
    """Table t: row 1 since version 2, row 2 since the newest one."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
    for row in ({"id": 1, "s": "a"}, {"id": 2, "s": "b"}):
        rows = pa.Table.from_pylist([row], sql.dataset("t").schema)
        lance.write_dataset(rows, sql.root / "t.lance", mode="append")
    return sql


def versions(sql: Sql) -> dict[str, int]:
    return {name: one["version"] for name, one in sql.dataset("t").tags.list().items()}


def test_a_tag_names_a_version(table: Sql) -> None:
    newest = table.dataset("t").version
    table("CREATE TAG release ON t")
    table(f"CREATE TAG older ON t VERSION AS OF {newest - 1}")
    table("CREATE TAG copy ON t FOR VERSION AS OF 'older'")
    table('CREATE TAG "v1.0-RC_1" ON main.t TIMESTAMP AS OF now()')
    assert versions(table) == {
        "release": newest,
        "older": newest - 1,
        "copy": newest - 1,
        "v1.0-RC_1": newest,
    }
    assert table("SELECT id FROM t VERSION AS OF 'older'") == [(1,)]
    table("INSERT INTO t VALUES (3, 'c')")
    assert table("SELECT count(*) FROM t FOR VERSION AS OF 'release'") == [(2,)]
    assert table("SELECT tag, branch, version, created_at IS NOT NULL FROM system.tags ORDER BY tag") == [
        ("copy", "main", newest - 1, True),
        ("older", "main", newest - 1, True),
        ("release", "main", newest, True),
        ("v1.0-RC_1", "main", newest, True),
    ]


def test_a_tag_is_moved_only_where_that_is_said(table: Sql) -> None:
    newest = table.dataset("t").version
    table("CREATE TAG x ON t VERSION AS OF 2")
    with pytest.raises(AlreadyExistsError, match="'t' has a tag 'x' already: use OR REPLACE"):
        table("CREATE TAG x ON t")
    table("CREATE TAG IF NOT EXISTS x ON t")
    assert versions(table) == {"x": 2}
    table("CREATE OR REPLACE TAG x ON t")
    assert versions(table) == {"x": newest}


def test_a_tag_is_dropped(table: Sql) -> None:
    table("CREATE TAG x ON t")
    table("DROP TAG x ON t")
    assert versions(table) == {}
    with pytest.raises(NotFoundError, match="'t' has no tag 'x'; it has none"):
        table("DROP TAG x ON t")
    table("DROP TAG IF EXISTS x ON t")


@pytest.mark.parametrize("name", ["über", "a b", "a/b", "x.lock", "a..b", ".a", "a."])
def test_names_that_lance_could_not_read_again_are_refused(table: Sql, name: str) -> None:
    with pytest.raises(InvalidInputError, match="a tag can't be named"):
        table(f'CREATE TAG "{name}" ON t')
    assert versions(table) == {}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TAG x ON t VERSION AS OF 99", "'t' has no version 99"),
        ("CREATE TAG x ON t VERSION AS OF 'nope'", "'t' has no tag 'nope'"),
        ("CREATE TAG x ON nope", "'nope' does not exist"),
    ],
)
def test_what_is_not_there_is_named(table: Sql, statement: str, message: str) -> None:
    with pytest.raises(NotFoundError, match=message):
        table(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TAG x t",
        "CREATE TAG x ON t AS OF 3",
        "CREATE TAG x ON t FOR 3",
        "CREATE OR REPLACE TAG IF NOT EXISTS x ON t",
    ],
)
def test_other_forms_are_no_syntax(table: Sql, statement: str) -> None:
    with pytest.raises(InvalidInputError):
        table(statement)


def test_tags_are_for_those_who_may_write(table: Sql) -> None:
    table("CREATE TAG x ON t")
    reader = create_principal(t=TableAccess())
    for statement in ("CREATE TAG y ON t", "DROP TAG x ON t"):
        with pytest.raises(PermissionDeniedError):
            table(statement, reader)
    with pytest.raises(NotFoundError, match="'t' does not exist"):
        table("CREATE TAG y ON t", create_principal(other=TableAccess()))
    assert list(versions(table)) == ["x"]


def test_a_tag_that_lance_cannot_list_fails_nothing_else(
    table: Sql, open_gateway: Callable[[Path], Sql]
) -> None:
    table("CREATE TABLE u (id INT PRIMARY KEY)")
    table.dataset("t").tags.create("über", 2)
    sql = open_gateway(table.root)
    assert sql("SELECT count(*) FROM t") == [(2,)]
    assert sql("SELECT DISTINCT table_name FROM system.versions") == [("u",)]
    with pytest.raises(PreconditionError, match="tags of table 't' can't be listed"):
        sql("SELECT count(*) FROM t VERSION AS OF 'über'")


def test_readers_of_a_table_go_on_while_tags_and_branches_change(table: Sql) -> None:
    dataset = table.engine.catalog.table("t").base().dataset
    ended, problems = threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            try:
                dataset.scanner(columns=["id"]).to_table()
            except RuntimeError as error:
                problems.append(str(error))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(8):
            table(f"CREATE TAG a{number} ON t")
            table(f"CREATE BRANCH b{number} ON t")
            table(f"DROP TAG a{number} ON t")
            table(f"DROP BRANCH b{number} ON t")
    finally:
        ended.set()
        for reader in readers:
            reader.join()
    assert problems == []
