"""CREATE VIEW and DROP VIEW: a view is a file with one SELECT."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.errors import AlreadyExistsError, InvalidInputError, NotFoundError

Sql = Any


def test_a_view_is_there_for_every_gateway(root: Path, open_gateway: Callable[..., Sql]) -> None:
    first, second = open_gateway(root), open_gateway(root)
    first("CREATE TABLE t (id INT PRIMARY KEY)")
    assert first("CREATE VIEW big AS SELECT id FROM t WHERE id > 10") == -1
    assert (root / "big.view.sql").read_text() == "SELECT id FROM t WHERE id > 10"
    second("INSERT INTO t VALUES (5), (15)")
    assert second("SELECT * FROM big") == first("SELECT * FROM big") == [(15,)]
    first("CREATE OR REPLACE VIEW big AS SELECT id FROM t WHERE id > 1")
    assert len(second("SELECT * FROM big")) == 2
    first("DROP VIEW big")
    with pytest.raises(NotFoundError):
        second("SELECT * FROM big")
    assert first("DROP VIEW IF EXISTS big") == -1


def test_a_view_is_not_replaced_unless_that_is_said(sql: Sql) -> None:
    sql("CREATE VIEW v AS SELECT 1 AS one")
    with pytest.raises(AlreadyExistsError, match="OR REPLACE"):
        sql("CREATE VIEW v AS SELECT 2 AS two")
    sql("CREATE VIEW IF NOT EXISTS v AS SELECT 2 AS two")
    assert sql("SELECT * FROM v") == [(1,)]


def test_no_view_reads_itself(sql: Sql, root: Path) -> None:
    sql("CREATE VIEW a AS SELECT 1 AS one")
    sql("CREATE VIEW b AS SELECT * FROM a")
    with pytest.raises(InvalidInputError, match="refers to itself: a -> b -> a"):
        sql("CREATE OR REPLACE VIEW a AS SELECT * FROM b")
    assert (root / "a.view.sql").read_text() == "SELECT 1 AS one"


def test_views_and_tables_share_their_names(sql: Sql) -> None:
    sql("CREATE VIEW v AS SELECT 1 AS one")
    for statement in ("CREATE TABLE v (id INT)", "CREATE TABLE IF NOT EXISTS v (id INT)"):
        with pytest.raises(AlreadyExistsError, match="'v' is a view"):
            sql(statement)


def test_a_view_takes_the_name_of_a_table_that_another_gateway_dropped(
    root: Path, open_gateway: Callable[..., Sql]
) -> None:
    first, second = open_gateway(root), open_gateway(root)
    first("CREATE TABLE t (id INT PRIMARY KEY)")
    second("SELECT * FROM t")
    first("DROP TABLE t")
    first("CREATE VIEW t AS SELECT 7 AS seven")
    kinds = "SELECT table_type FROM information_schema.tables WHERE table_name = 't'"
    assert second(kinds) == [("VIEW",)]
    assert second("SELECT * FROM t") == [(7,)]


def test_a_view_in_another_dialect_is_refused(sql: Sql) -> None:
    with pytest.raises(InvalidInputError, match="dialect 'postgres'"):
        sql("CREATE VIEW v AS SELECT 1 AS one", dialect="mysql")


@pytest.mark.slow
def test_views_that_multiply_are_refused_before_they_are_planned(sql: Sql) -> None:
    """Each of them is a few words; the text that they stand for doubles with each."""
    sql("CREATE VIEW v0 AS SELECT 1 AS id")

    def twice(number: int) -> None:
        sql(f"CREATE VIEW v{number} AS SELECT a.id FROM v{number - 1} a, v{number - 1} b")

    for number in range(1, 8):
        twice(number)
    # Making these would be refused; files may come from elsewhere.
    for number in range(8, 40):
        text = f"SELECT a.id FROM v{number - 1} a, v{number - 1} b"
        (sql.root / f"v{number}.view.sql").write_text(text)
    with pytest.raises(InvalidInputError, match="reads more than the 1000 tables that are allowed"):
        twice(40)
    with pytest.raises(InvalidInputError, match="reads more than the 1000 tables that are allowed"):
        sql("SELECT * FROM v39")


def test_a_view_may_read_the_list_of_tables_and_views(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT)")
    sql("CREATE VIEW listed AS SELECT column_name FROM information_schema.columns WHERE table_name = 't'")
    assert sql("SELECT * FROM listed ORDER BY 1") == [("id",), ("name",)]
    query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'main'"
    assert sorted(sql(query)) == [("listed", "column_name"), ("t", "id"), ("t", "name")]
