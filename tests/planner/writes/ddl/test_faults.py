"""Each call to storage fails once while tables are made and dropped: it can be done again."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.writes.ddl.conftest import EAGER, Gateway
from tests.support.stores.faults import How, open_faulty_storage

Sql = Any
MAKE = "CREATE TABLE {} t (id INT PRIMARY KEY, name TEXT) WITH (region_by = 'bucket(id, 2)')"
OLD = [(1, "old"), (2, "old"), (3, "old")]
NEW = [(2, "new"), (4, "new")]
SELECT = "SELECT id, 'new' AS name FROM (VALUES (2), (4)) AS s(id)"
REPLACE = f"CREATE OR REPLACE TABLE t (PRIMARY KEY (id)) AS {SELECT}"


def made(sql: Sql) -> None:
    """Make table t, empty or with rows."""
    sql(MAKE.format("IF NOT EXISTS"))
    sql("INSERT INTO t VALUES (1, 'old'), (2, 'old'), (3, 'old')")


def check_create(sql: Sql, again: Sql) -> None:
    for gateway in (sql, again):
        gateway(MAKE.format("IF NOT EXISTS"))
    assert sql("SELECT * FROM t") == []
    made(sql)
    assert sql("SELECT * FROM t ORDER BY id") == again("SELECT * FROM t ORDER BY id") == OLD


def check_replaced(sql: Sql, again: Sql) -> None:
    for gateway in (sql, again):
        assert gateway("SELECT * FROM t ORDER BY id") in (OLD, NEW)
    sql(REPLACE)
    assert sql("SELECT * FROM t ORDER BY id") == again("SELECT * FROM t ORDER BY id") == NEW
    sql("INSERT INTO t VALUES (2, 'newer')")
    assert again("SELECT * FROM t ORDER BY id") == [(2, "newer"), (4, "new")]


def check_dropped(sql: Sql, again: Sql) -> None:
    sql("DROP TABLE IF EXISTS t")
    assert again("SELECT table_name FROM system.tables") == []
    sql(MAKE.format(""))
    assert sql("SELECT * FROM t") == again("SELECT * FROM t") == []
    made(again)
    assert sql("SELECT * FROM t ORDER BY id") == OLD


def check_renamed(sql: Sql, again: Sql) -> None:
    (name,) = (name for (name,) in sql("SELECT table_name FROM system.tables"))
    assert again("SELECT table_name FROM system.tables") == [(name,)]
    assert sql(f"SELECT * FROM {name} ORDER BY id") == again(f"SELECT * FROM {name} ORDER BY id") == OLD
    if name == "t":
        sql("ALTER TABLE t RENAME TO u")
    again("INSERT INTO u VALUES (4, 'new')")
    assert sql("SELECT * FROM u ORDER BY id") == again("SELECT * FROM u ORDER BY id") == [*OLD, (4, "new")]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["after", pytest.param("before", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("statement", "check"),
    [
        pytest.param(MAKE.format(""), check_create, id="create"),
        pytest.param("DROP TABLE t", check_dropped, id="drop"),
        pytest.param(REPLACE, check_replaced, id="replace", marks=pytest.mark.soak),
        pytest.param("ALTER TABLE t RENAME TO u", check_renamed, id="rename", marks=pytest.mark.soak),
    ],
)
def test_any_call_may_fail(root: Path, statement: str, check: Callable[[Sql, Sql], None], how: How) -> None:
    number, failed = 0, True
    while failed:
        path = root / str(number)
        path.mkdir()
        storage, backend = open_faulty_storage(path)
        sql = Gateway(path, QueryEngine(Catalog(storage, writing=EAGER)))
        again = Gateway(path, QueryEngine(Catalog.open(str(path), writing=EAGER)))
        try:
            if check is not check_create:
                made(sql)
                assert len(again("SELECT * FROM t")) == 3
            backend.arm(lambda called, *_, number=number: how if called == number else None)
            with suppress(UnavailableError):
                sql(statement)
            backend.disarm()
            failed = len(backend.calls) > number
            check(sql, again)
        except BaseException as error:
            error.add_note(f"call {number} failed: {backend.calls[number : number + 1]}")
            raise
        finally:
            backend.disarm()
            sql.engine.close()
            again.engine.close()
        number += 1
    assert number > 4
