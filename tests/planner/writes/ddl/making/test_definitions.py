"""SHOW CREATE TABLE makes the same table again; SHOW INDEXES lists what it has."""

from typing import Any

import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.access.rights import TableAccess
from tests.support.judging.principals import Principal

Sql = Any

TABLES = (
    """CREATE TABLE a (id BIGINT, "Odd name" VARCHAR(20) NOT NULL COMMENT 'it''s',
        n INT DEFAULT 3 CHECK (n > 0),
        u UUID DEFAULT uuid(), j JSON DEFAULT '{}', ts TIMESTAMP(3) DEFAULT now(), tz TIMESTAMPTZ, tm TIME,
        t0 TIME(0), ns TIMESTAMP(9), d DECIMAL(9, 2), b BYTEA, vb VARBINARY(5), f BINARY(4), v FLOAT[3],
        h HALF[2], l TEXT[], ub UBIGINT,
        s STRUCT<a INT, b TEXT[]>, ll INT[][], x REAL, dt DATE DEFAULT current_date, ls LARGE_STRING,
        PRIMARY KEY (id, "Odd name"), CONSTRAINT c2 CHECK (n < 100 OR x IS NULL), UNIQUE (n) NOT ENFORCED,
        FOREIGN KEY (n) REFERENCES sales.o (k) NOT ENFORCED)
        WITH (region_by = 'bucket(id, 4)', key_index = 'id', max_memtable_rows = 500, maintained_indexes = '')
        COMMENT 'a table'""",
    "CREATE TABLE b (a INT, b TEXT)",
    "CREATE TABLE c (a INT) WITH (memwal = false, stable_row_ids = true)",
    """CREATE TABLE sales.o (k INT PRIMARY KEY, y TIMESTAMP)
        WITH (region_by = 'year(y)', keys_never_move = true)""",
    """CREATE TABLE e (k INT, PRIMARY KEY (k))
        WITH (region_by = 'expression(''col0 % 4'', k)', key_index = false)""",
)


def test_the_statement_makes_the_same_table(sql: Sql) -> None:
    sql("CREATE SCHEMA sales")
    for statement, name in zip(TABLES, ("a", "b", "c", "sales.o", "e"), strict=True):
        sql(statement)
        shown = sql(f"SHOW CREATE TABLE {name}")
        ((schema, table, definition),) = shown
        stored = sql.engine.catalog.table(name).base()
        sql(f"DROP TABLE {name}")
        sql(definition)
        again = sql.engine.catalog.table(name).base()
        assert sql(f"SHOW CREATE TABLE {schema}.{table}") == shown
        assert again.dataset.schema.equals(stored.dataset.schema)
        assert [field.metadata for field in again.dataset.schema] == [
            field.metadata for field in stored.dataset.schema
        ]
        assert again.constraints == stored.constraints
        assert again.primary_key == stored.primary_key
        assert again.details == stored.details or again.details.region_specs == stored.details.region_specs


def test_indexes_and_views_are_shown(sql: Sql) -> None:
    sql("CREATE TABLE b (a INT, b TEXT)")
    sql("CREATE INDEX ON b (a)")
    for statement in ("SHOW INDEXES FROM b", "SHOW INDEX IN main.b", "SHOW KEYS FROM b"):
        assert sql(statement) == [("a_idx", "BTree", ["a"], True, 0, 0)]
    sql("CREATE VIEW v AS SELECT a FROM b")
    definition = 'CREATE VIEW "main"."v" AS SELECT a FROM b'
    assert sql("SHOW CREATE VIEW v") == sql("SHOW CREATE TABLE v") == [("main", "v", definition)]
    sql("DROP VIEW v")
    sql(definition)


def test_who_sees_a_part_of_a_table_is_shown_no_constraints(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK (n > 0)) WITH (region_by = 'bucket(id, 4)')")
    some = Principal({"t": TableAccess(row_filter="n > 1")})
    ((_, _, definition),) = sql("SHOW CREATE TABLE t", some)
    assert '"n" INT' in definition
    assert "CHECK" not in definition
    assert "region_by" not in definition
    with pytest.raises(LanceGatewayError, match="'t' does not exist"):
        sql("SHOW CREATE TABLE t", Principal({}))


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SHOW CREATE TABLE missing", "'missing' does not exist"),
        ("SHOW CREATE VIEW b", "The name of a view is expected"),
        ("SHOW CREATE TABLE system.tables", "The name of a table or view is expected"),
        ("SHOW INDEXES FROM", "The name of a table is expected"),
        ("SHOW CREATE TABLE b LIKE 'x'", "Unexpected 'LIKE'"),
    ],
)
def test_what_is_no_table_is_refused(sql: Sql, statement: str, said: str) -> None:
    sql("CREATE TABLE b (a INT)")
    with pytest.raises(LanceGatewayError, match=said):
        sql(statement)
