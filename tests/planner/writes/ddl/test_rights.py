"""Who may define tables: those who may write to them and see all of them."""

from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.errors import NotFoundError, PermissionDeniedError
from lance_gateway.planner.access.rights import TableAccess
from tests.support.judging.principals import ALL, Principal

Sql = Any
STATEMENTS = (
    "ALTER TABLE t ADD COLUMN m INT",
    "ALTER TABLE t SET (memwal = true)",
    "CREATE INDEX ON t (n)",
    "DROP INDEX n_idx ON t",
    "DROP TABLE t",
    "DROP TABLE IF EXISTS t",
    "ALTER TABLE t RENAME TO u",
    "OPTIMIZE t",
    "FLUSH TABLE t",
    "ANALYZE t",
)
MAKING = (
    "CREATE TABLE t (n INT)",
    "CREATE TABLE IF NOT EXISTS t (n INT)",
    "CREATE OR REPLACE TABLE t (n INT)",
    "CREATE TABLE t AS SELECT 1 AS n",
    "CREATE VIEW t AS SELECT 1 AS n",
)


READER = Principal({"t": ALL})
BLIND = Principal({"u": ALL}, writes=frozenset({"u"}))
FILTERED = Principal({"t": TableAccess(row_filter="n > 1")}, writes=frozenset({"t"}))
OWNER = Principal({"t": ALL, "v": ALL}, writes=frozenset({"t", "v"}))


@pytest.fixture
def lake(sql: Sql) -> Sql:
    sql("CREATE TABLE t (n INT)")
    sql("CREATE INDEX n_idx ON t (n)")
    return sql


@pytest.mark.parametrize("statement", [*STATEMENTS, *MAKING])
def test_who_may_not_write_changes_nothing(lake: Sql, root: Path, statement: str) -> None:
    before = sorted(root.rglob("*"))
    for principal in (READER, FILTERED):
        with pytest.raises(PermissionDeniedError):
            lake(statement, principal)
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_who_may_not_see_a_table_is_not_told_of_it(lake: Sql, statement: str) -> None:
    missing = statement.replace(" t", " x", 1)
    if "IF EXISTS" in statement:
        assert lake(statement, BLIND) == lake(missing, BLIND) == -1
    else:
        for one in (statement, missing):
            with pytest.raises(NotFoundError):
                lake(one, BLIND)
    assert lake("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("statement", MAKING)
def test_who_has_no_grant_for_a_name_is_not_told_whether_it_is_taken(lake: Sql, statement: str) -> None:
    said = set()
    for name in ("t", "x"):
        with pytest.raises(PermissionDeniedError) as caught:
            lake(statement.replace(" t ", f" {name} "), BLIND)
        said.add(str(caught.value).replace(repr(name), "?"))
    assert len(said) == 1


def test_what_a_table_is_made_of_must_be_seen(lake: Sql) -> None:
    for statement in ("CREATE TABLE u AS SELECT * FROM t", "CREATE TABLE u (LIKE t)"):
        with pytest.raises(NotFoundError):
            lake(statement, BLIND)
    with pytest.raises(NotFoundError):
        lake("CREATE VIEW u AS SELECT * FROM t", BLIND)


def test_a_table_like_one_that_is_seen_in_part_tells_nothing_of_the_rest(lake: Sql) -> None:
    """Regions follow from values that may be hidden."""
    lake(
        "CREATE TABLE s (id BIGINT PRIMARY KEY, tenant TEXT NOT NULL, n INT) "
        "WITH (region_by = 'identity(tenant)', keys_never_move = true)"
    )
    regions = "SELECT region_specs FROM system.tables WHERE table_name = 'u'"
    for seen in (TableAccess(hidden_columns=frozenset({"tenant"})), TableAccess(row_filter="tenant = 'a'")):
        principal = Principal({"s": seen, "u": ALL}, writes=frozenset({"u"}))
        lake("CREATE TABLE u (LIKE s)", principal)
        assert lake(regions, principal) == [(["1: unsharded()"],)]
        lake("DROP TABLE u", principal)


def test_who_may_write_may_define(lake: Sql) -> None:
    lake("ALTER TABLE t ADD COLUMN m INT", OWNER)
    lake("CREATE VIEW v AS SELECT m FROM t", OWNER)
    assert lake("SELECT * FROM v", OWNER) == []
    lake("DROP VIEW v", OWNER)
    lake("DROP TABLE t", OWNER)
    lake("CREATE TABLE t (n INT)", OWNER)


def test_a_renamed_table_is_seen_by_those_who_have_a_grant_for_its_new_name(lake: Sql) -> None:
    lake("INSERT INTO t VALUES (1)")
    mover = Principal({"t": ALL, "u": ALL}, writes=frozenset({"t", "u"}))
    with pytest.raises(PermissionDeniedError, match="may not make a table or view 'v'"):
        lake("ALTER TABLE t RENAME TO v", mover)
    lake("ALTER TABLE t RENAME TO u", mover)
    assert lake("SELECT * FROM u", BLIND) == [(1,)]
    with pytest.raises(NotFoundError):
        lake("SELECT * FROM t", READER)
    lake("CREATE VIEW v AS SELECT 1 AS n")
    with pytest.raises(PermissionDeniedError):
        lake("ALTER VIEW v RENAME TO w", OWNER)
