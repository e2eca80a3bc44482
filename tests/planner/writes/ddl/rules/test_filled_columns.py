"""ALTER TABLE .. ADD COLUMN .. DEFAULT where rows lie in the log, in generations and in the base table."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import lance
import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from tests.support.lake.merging import merge_flushed

Sql = Any


@pytest.fixture
def filled(sql: Sql, root: Path) -> Sql:
    """Table t with rows in the base table, one of them deleted, one in a generation, one in the log."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT) WITH (region_by = 'bucket(id, 1)')")
    table = sql.engine.catalog.table("t")
    sql("INSERT INTO t VALUES (1, 'base'), (4, 'deleted')")
    table.writer().flush()
    merge_flushed(root / "t.lance")
    sql("DELETE FROM t WHERE id = 4")
    table.writer().flush()
    merge_flushed(root / "t.lance")
    sql("INSERT INTO t VALUES (2, 'flushed')")
    table.writer().flush()
    sql("INSERT INTO t VALUES (3, 'log')")
    return sql


COLUMNS = (
    ("n INT NOT NULL DEFAULT 7", "n", "7"),
    ("s VARCHAR(9) DEFAULT 'new one'", "s", "'new one'"),
    ("d DECIMAL(9, 2) DEFAULT 1.25", "d", "1.25"),
    ("day DATE DEFAULT '2024-02-29'", "day", "DATE '2024-02-29'"),
    (
        "ts TIMESTAMPTZ NOT NULL DEFAULT '2024-02-29 12:00:00+00'",
        "ts",
        "TIMESTAMPTZ '2024-02-29 12:00:00+00'",
    ),
    ("ok BOOLEAN DEFAULT TRUE", "ok", "TRUE"),
    ("b BYTEA DEFAULT X'00FF'", "b", "'\\x00\\xFF'::BLOB"),
    ("l INT[] DEFAULT [1, NULL]", "l", "[1, NULL]"),
    ("v FLOAT[2] DEFAULT [0.5, 1]", "v", "[0.5, 1]"),
    ("plain INT", "plain", "NULL"),
    ("none INT DEFAULT NULL", "none", "NULL"),
)
QUERIES = (
    "SELECT * FROM t ORDER BY id",
    "SELECT id FROM t WHERE n = 7 AND s LIKE 'new%' ORDER BY id",
    "SELECT count(*) FROM t WHERE n IS NULL OR n <> 7",
    "SELECT n, s, d FROM t WHERE id = 2",
    "SELECT n, day, ok FROM t WHERE id IN (1, 3) ORDER BY id",
    "SELECT s, sum(n), max(ts), count(plain) FROM t GROUP BY s",
)


def test_rows_have_the_default_wherever_they_lie(filled: Sql, root: Path) -> None:
    with duckdb.connect() as other:
        other.execute("SET TimeZone = 'UTC'")
        other.execute(
            "CREATE TABLE t AS SELECT * FROM (VALUES (1, 'base'), (2, 'flushed'), (3, 'log')) AS t(id, name)"
        )
        for _, name, value in COLUMNS:
            other.execute(f"CREATE OR REPLACE TABLE t AS SELECT *, {value} AS {name} FROM t")
        filled(f"ALTER TABLE t {', '.join('ADD COLUMN ' + definition for definition, _, _ in COLUMNS)}")

        def check() -> None:
            for query in QUERIES:
                assert filled(query) == other.execute(query).fetchall(), query

        check()
        # Lance's own readers see it in the base table.
        assert filled.dataset("t").to_table(["id", "n", "s"]).to_pylist() == [
            {"id": 1, "n": 7, "s": "new one"}
        ]
        statements = (
            "UPDATE t SET n = n + id WHERE id >= 2",
            "INSERT INTO t (id, name) VALUES (5, 'later')",
            "DELETE FROM t WHERE id = 2",
        )
        defaults = ", ".join(f"{name} = {value}" for _, name, value in COLUMNS)
        for statement in statements:
            filled(statement)
            other.execute(statement)
        other.execute(f"UPDATE t SET {defaults} WHERE id = 5")
        check()
        filled.engine.catalog.table("t").writer().flush()
        check()
        merge_flushed(root / "t.lance")
        check()


def test_rows_of_writers_that_died_have_it_when_they_are_taken_over(
    root: Path, open_gateway: Callable[..., Sql]
) -> None:
    first, second, third = open_gateway(root), open_gateway(root), open_gateway(root)
    first("CREATE TABLE t (id INT PRIMARY KEY) WITH (region_by = 'bucket(id, 1)')")
    first("INSERT INTO t VALUES (1)")
    first.engine.catalog.table("t").writer().abandon()
    second("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7")
    third("INSERT INTO t VALUES (2, 8)")
    third.engine.catalog.table("t").writer().flush()
    assert second("SELECT * FROM t ORDER BY id") == [(1, 7), (2, 8)]


def test_gateways_write_while_the_column_comes(root: Path, open_gateway: Callable[..., Sql]) -> None:
    first, second, third = open_gateway(root), open_gateway(root), open_gateway(root)
    first("CREATE TABLE t (id INT PRIMARY KEY) WITH (region_by = 'bucket(id, 1)')")
    insert = second.engine.prepare_statement("INSERT INTO t (id) VALUES (2)")
    second("INSERT INTO t VALUES (1)")
    first("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7")
    with suppress(PreconditionError):
        insert.execute()
    second("INSERT INTO t (id) VALUES (3)")
    second.engine.catalog.table("t").writer().abandon()
    third("INSERT INTO t VALUES (4, 8)")
    third.engine.catalog.table("t").writer().flush()
    assert first("SELECT * FROM t WHERE id <> 2 ORDER BY id") == [(1, 7), (3, 7), (4, 8)]


def test_an_initial_value_stays_when_the_default_changes(filled: Sql) -> None:
    filled("ALTER TABLE t ADD COLUMN n INT DEFAULT 7")
    filled("ALTER TABLE t ALTER COLUMN n SET DEFAULT 8")
    filled("INSERT INTO t (id) VALUES (5)")
    assert filled("SELECT id, n FROM t ORDER BY id") == [(1, 7), (2, 7), (3, 7), (5, 8)]
    filled("ALTER TABLE t ALTER COLUMN n DROP DEFAULT")
    filled("ALTER TABLE t RENAME COLUMN n TO m")
    filled("INSERT INTO t (id) VALUES (5)")
    assert filled("SELECT id, m FROM t ORDER BY id") == [(1, 7), (2, 7), (3, 7), (5, None)]
    assert filled("SELECT id FROM t WHERE m = 7 ORDER BY id") == [(1,), (2,), (3,)]
    filled("ALTER TABLE t DROP COLUMN m, ADD COLUMN k INT")
    filled("ALTER TABLE t ADD COLUMN m INT DEFAULT 9")
    assert filled("SELECT id, m, k FROM t WHERE m = 9 ORDER BY id") == [
        (one, 9, None) for one in (1, 2, 3, 5)
    ]


def test_functions_of_the_moment_have_one_value(filled: Sql) -> None:
    filled(
        "ALTER TABLE t ADD COLUMN ts TIMESTAMP DEFAULT now(), ADD COLUMN d DATE NOT NULL DEFAULT current_date"
    )
    first = filled("SELECT DISTINCT ts, d FROM t")
    assert len(first) == 1
    assert first[0][0] is not None
    filled("INSERT INTO t (id) VALUES (5)")
    assert filled("SELECT DISTINCT ts FROM t WHERE id < 5") == [first[0][:1]]
    assert filled("SELECT ts > (SELECT min(ts) FROM t) FROM t WHERE id = 5") == [(True,)]


def test_searches_find_rows_by_their_default(filled: Sql) -> None:
    filled("ALTER TABLE t ADD COLUMN s TEXT DEFAULT 'red apple', ADD COLUMN v FLOAT[2] DEFAULT [1, 0]")
    filled("CREATE INDEX ON t USING FTS (s)")
    filled("INSERT INTO t VALUES (5, 'later', 'green pear', [0, 1])")
    assert filled("SELECT id FROM lance_fts('t', 's', 'apple', k => 9) ORDER BY id") == [(1,), (2,), (3,)]
    near = "SELECT id, _distance FROM lance_vector_search('t', 'v', [1, 0], k => 9{}) ORDER BY _distance, id"
    assert filled(near.format("")) == [(1, 0.0), (2, 0.0), (3, 0.0), (5, 2.0)]
    query = "SELECT id FROM lance_vector_search('t', 'v', [0, 1], k => 2, prefilter => true) WHERE s > 'r'"
    assert len(filled(query)) == 2


def test_tables_without_a_key_or_a_memwal(sql: Sql, root: Path) -> None:
    for number, options in enumerate(("", "WITH (memwal = false)")):
        sql(f"CREATE TABLE u{number} (a INT) {options}")
        sql(f"INSERT INTO u{number} VALUES (1), (2)")
        sql(f"ALTER TABLE u{number} ADD COLUMN b TEXT NOT NULL DEFAULT 'x'")
        sql(f"INSERT INTO u{number} (a) VALUES (3)")
        assert sql(f"SELECT * FROM u{number} ORDER BY a") == [(1, "x"), (2, "x"), (3, "x")]
        sql(f"UPDATE u{number} SET a = a + 1 WHERE b = 'x' AND a > 1")
        assert sql(f"SELECT * FROM u{number} ORDER BY a") == [(1, "x"), (3, "x"), (4, "x")]
    assert lance.dataset(str(root / "u1.lance")).count_rows("b = 'x'") == 3


def test_what_no_row_could_have_is_refused(filled: Sql) -> None:
    version = filled.dataset("t").version
    for change, reason in (
        (
            "u TEXT DEFAULT uuid()",
            "'u' can't be added with DEFAULT uuid\\(\\), which is another for each row",
        ),
        ("r DOUBLE NOT NULL DEFAULT random()", "can't be added as NOT NULL with a DEFAULT that is another"),
        ("n INT NOT NULL", "'n' can't be added as NOT NULL, since rows that exist would have NULL"),
        ("n INT NOT NULL DEFAULT NULL", "'n' can't be added as NOT NULL"),
        ("a INT DEFAULT 1, ADD COLUMN u TEXT DEFAULT uuid()", "'u' can't be added with DEFAULT uuid"),
    ):
        with pytest.raises(LanceGatewayError, match=reason):
            filled(f"ALTER TABLE t ADD COLUMN {change}")
    assert filled.dataset("t").version == version
    filled("ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 1")
    with pytest.raises(InvalidInputError, match="column 'n'"):
        filled("INSERT INTO t VALUES (9, 'x', NULL)")
