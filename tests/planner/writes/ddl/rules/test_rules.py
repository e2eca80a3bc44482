"""Lengths, defaults and constraints: declared, told, changed, and kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

from lance_gateway.memwal.creating import NOT_NULL
from lance_gateway.memwal.errors import InvalidInputError, PermissionDeniedError
from lance_gateway.memwal.rules import DEFAULT, MAX_LENGTH
from lance_gateway.planner.access.rights import TableAccess
from tests.support.judging.principals import create_principal
from tests.support.lake.merging import merge_flushed

Sql = Any
Open = Callable[..., Sql]


@pytest.mark.parametrize(
    ("kind", "fits", "too_long"),
    [
        ("VARCHAR(3)", "'äöü'", "'abcd'"),
        ("CHAR(3)", "'abc'", "'abcd'"),
        ("CHARACTER VARYING(3)", "'abc'", "'abcd'"),
        ("NVARCHAR(3)", "'abc'", "'abcd'"),
        ("TEXT(3)", "'abc'", "'   x'"),
        ("VARBINARY(2)", "X'00ff'", "X'00ff00'"),
        ("BINARY VARYING(2)", "X'00ff'", "X'00ff00'"),
        ("UUID", "'c7c228cb-9836-4016-84a7-5f935143a86e'", "'x'"),
        ("JSON", """'{"a": [1, null, "ä"]}'""", "'{a: 1}'"),
        ("jsonb", "'7'", "'NaN'"),
    ],
)
def test_types_with_a_rule(sql: Sql, kind: str, fits: str, too_long: str) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v {kind})")
    assert sql(f"INSERT INTO t VALUES (1, {fits}), (2, NULL)") == 2
    with pytest.raises(InvalidInputError, match="column 'v' takes"):
        sql(f"INSERT INTO t VALUES (3, {fits}), (4, {too_long})")
    with pytest.raises(InvalidInputError, match="the row with id = 1 has"):
        sql(f"UPDATE t SET v = {too_long} WHERE id = 1")
    assert sql("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_values_are_not_padded(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v CHAR(5))")
    sql("INSERT INTO t VALUES (1, 'ab')")
    assert sql("SELECT v, length(v) FROM t WHERE v = 'ab'") == [("ab", 2)]


def test_a_length_of_max_is_none(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(MAX))")
    sql("INSERT INTO t VALUES (1, repeat('x', 70000))")
    assert sql("SELECT length(v) FROM t") == [(70000,)]


TABLE = """
CREATE TABLE t (
  id INT PRIMARY KEY,
  name VARCHAR(5) NOT NULL DEFAULT 'anon',
  qty INT DEFAULT 7 CHECK (qty > 0) CHECK (qty < 100),
  other INT REFERENCES u (id) NOT ENFORCED,
  CONSTRAINT "Sum" CHECK (qty + other < 50),
  UNIQUE (name) NOT ENFORCED
)"""
CONSTRAINTS = [
    ("Sum", "CHECK", "CHECK (CAST(qty AS BIGINT) + CAST(other AS BIGINT) < 50)", True),
    ("t_name_key", "UNIQUE", "UNIQUE (name) NOT ENFORCED", False),
    ("t_other_fkey", "FOREIGN KEY", "FOREIGN KEY (other) REFERENCES u (id) NOT ENFORCED", False),
    ("t_pkey", "PRIMARY KEY", "PRIMARY KEY (id)", True),
    ("t_qty_check", "CHECK", "CHECK (qty > 0)", True),
    ("t_qty_check1", "CHECK", "CHECK (qty < 100)", True),
]
LISTED = (
    "SELECT constraint_name, constraint_type, definition, is_enforced FROM system.constraints "
    "WHERE table_name = '{}' ORDER BY constraint_name"
)


def test_constraints_are_listed(sql: Sql) -> None:
    sql(TABLE)
    assert sql(LISTED.format("t")) == CONSTRAINTS
    assert sql(
        "SELECT constraint_name, table_name, constraint_type, enforced "
        "FROM information_schema.table_constraints WHERE constraint_type <> 'CHECK' ORDER BY 1"
    ) == [
        ("t_name_key", "t", "UNIQUE", "NO"),
        ("t_other_fkey", "t", "FOREIGN KEY", "NO"),
        ("t_pkey", "t", "PRIMARY KEY", "YES"),
    ]
    assert sql(
        "SELECT constraint_name, check_clause FROM lance.information_schema.check_constraints ORDER BY 1"
    ) == [
        ("Sum", "CAST(qty AS BIGINT) + CAST(other AS BIGINT) < 50"),
        ("t_qty_check", "qty > 0"),
        ("t_qty_check1", "qty < 100"),
    ]
    sql("CREATE TABLE two (a INT, b INT, PRIMARY KEY (b, a))")
    assert sql(
        "SELECT column_name, ordinal_position FROM information_schema.key_column_usage "
        "WHERE table_name = 'two' ORDER BY 2"
    ) == [("b", 1), ("a", 2)]


def test_columns_are_listed_with_their_defaults_and_lengths(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(5) DEFAULT 'x', b VARBINARY(2), "
        "at TIMESTAMP DEFAULT now())"
    )
    columns = "column_name, column_default, character_maximum_length, character_octet_length"
    listed = (
        f"SELECT {columns} FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position"
    )
    assert sql(listed) == [
        ("id", None, None, None),
        ("s", "'x'", 5, 2**31 - 1),
        ("b", None, None, 2),
        ("at", "now()", None, None),
    ]
    for condition, names in (
        ("column_default IS NULL", {"id", "b"}),
        ("columns.column_default IS NOT NULL AND is_nullable = 'YES'", {"s", "at"}),
        ("character_maximum_length > 3 OR ordinal_position = 1", {"id", "s"}),
    ):
        found = f"SELECT column_name FROM information_schema.columns WHERE table_name = 't' AND ({condition})"
        assert {name for (name,) in sql(found)} == names


def test_who_does_not_see_all_of_a_table_sees_no_condition_and_no_default_of_a_mask(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 7, s VARCHAR(9) DEFAULT 'hush', "
        "h VARCHAR(3) DEFAULT 'x', CHECK (h <> 'boss'), UNIQUE (h) NOT ENFORCED)"
    )
    hides_h = TableAccess(masks={"s": "'*'"}, hidden_columns=frozenset({"h"}))
    filters = TableAccess(row_filter="h <> 'x'")
    constraints = "SELECT constraint_name, columns FROM system.constraints"
    for access, defaults in (
        (hides_h, [("id", None, None), ("n", "7", None), ("s", None, 9)]),
        (filters, [("id", None, None), ("n", "7", None), ("s", "'hush'", 9), ("h", "'x'", 3)]),
    ):
        user = replace(create_principal(t=access), writes=frozenset({"t", "u"}))
        columns = "SELECT column_name, column_default, {} FROM {} WHERE table_name = 't'"
        assert sql(columns.format("max_length", "system.columns"), user) == defaults
        assert sql(columns.format("character_maximum_length", "information_schema.columns"), user) == defaults
        assert sql(constraints, user) == [("t_pkey", ["id"])]
        assert sql("SELECT * FROM information_schema.check_constraints", user) == []
        assert sql("SELECT column_name FROM information_schema.key_column_usage", user) == [("id",)]
        for statement in (
            "ALTER TABLE t ADD CHECK (h <> 'a')",
            "ALTER TABLE t DROP CONSTRAINT t_check",
            "ALTER TABLE t ALTER h TYPE VARCHAR(1)",
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET n = 1",
        ):
            with pytest.raises(PermissionDeniedError, match="may not write to table 't', since a policy"):
                sql(statement, user)
    without_key = create_principal(t=TableAccess(hidden_columns=frozenset({"id"})))
    assert sql(constraints, without_key) == []


def test_rules_are_in_the_base_table_alone(sql: Sql) -> None:
    sql(TABLE)
    dataset = sql.dataset("t")
    assert dataset.schema.field("name").metadata == {
        MAX_LENGTH: b"5",
        DEFAULT: b"'anon'",
        NOT_NULL: b"true",
    }
    keys = {key for key in dataset.config() if key.startswith("lance-gateway.")}
    assert keys == {
        f"lance-gateway.constraint.{name}" for name, kind, *_ in CONSTRAINTS if "PRIMARY" not in kind
    }
    assert [one["version"] for one in dataset.versions()] == [1]


def test_rules_outlast_evolution_merges_and_compaction(sql: Sql, root: Path) -> None:
    sql(TABLE)
    for number in range(4):
        sql(f"INSERT INTO t (id, other) VALUES ({number}, 1)")
        sql.engine.catalog.table("t").writer().flush()
        merge_flushed(root / "t.lance")
    sql("ALTER TABLE t ADD COLUMN more TEXT")
    sql("ALTER TABLE t RENAME COLUMN more TO most")
    sql("ALTER TABLE t DROP COLUMN most")
    sql("CREATE INDEX ON t (name)")
    sql("OPTIMIZE t")
    lance.dataset(root / "t.lance").optimize.compact_files()
    assert sql(LISTED.format("t")) == CONSTRAINTS
    assert sql("INSERT INTO t (id) VALUES (9) RETURNING name, qty") == [{"name": "anon", "qty": 7}]
    with pytest.raises(InvalidInputError, match="at most 5 characters"):
        sql("INSERT INTO t (id, name) VALUES (10, 'abcdef')")
    with pytest.raises(InvalidInputError, match="'Sum'"):
        sql("INSERT INTO t (id, other) VALUES (10, 44)")


def test_a_renamed_column_keeps_its_length_and_default(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(3) DEFAULT 'x')")
    sql("ALTER TABLE t RENAME COLUMN s TO text")
    assert sql("INSERT INTO t (id) VALUES (1) RETURNING text") == [{"text": "x"}]
    with pytest.raises(InvalidInputError, match="column 'text' takes at most 3"):
        sql("INSERT INTO t VALUES (2, 'abcd')")


def test_like_keeps_rules(sql: Sql) -> None:
    sql(TABLE)
    sql("CREATE TABLE c (LIKE t)")
    assert [row for row in sql(LISTED.format("c")) if row[1] != "PRIMARY KEY"] == [
        row for row in CONSTRAINTS if row[1] != "PRIMARY KEY"
    ]
    assert sql("INSERT INTO c (id) VALUES (9) RETURNING name, qty") == [{"name": "anon", "qty": 7}]
    with pytest.raises(InvalidInputError, match="at most 5 characters"):
        sql("INSERT INTO c (id, name) VALUES (10, 'abcdef')")


def test_rows_of_a_query_meet_the_constraints_of_their_table(sql: Sql, root: Path) -> None:
    select = "AS SELECT value AS id, value * 2 AS twice FROM generate_series(1, 9) AS s(value)"
    with pytest.raises(InvalidInputError, match="the row with id = 6 violates constraint 'few'"):
        sql(f"CREATE TABLE t (PRIMARY KEY (id), CONSTRAINT few CHECK (twice < 12)) {select}")
    assert not (root / "t.lance" / "_versions").exists()
    sql(f"CREATE TABLE t (PRIMARY KEY (id), CONSTRAINT few CHECK (twice < 20)) {select}")
    with pytest.raises(InvalidInputError, match="'few'"):
        sql("INSERT INTO t VALUES (1, 20)")


@pytest.mark.parametrize(
    ("condition", "met", "violated"),
    [
        ("(n, m) IN ((1, 2), (3, 4))", "(1, NULL), (1, 2)", "(2, NULL)"),
        ("(n, m) <> (1, 2)", "(NULL, 3), (1, NULL)", "(1, 2)"),
        ("at < TIMESTAMP '9999-12-31'", "(1, 1)", ""),
        ("at < '9999-12-31' AND n > 1", "(2, 1)", "(1, 1)"),
        ("date_trunc('year', at) = TIMESTAMP '3000-01-01' AND n > 1", "(2, 1)", "(1, 1)"),
        ("CAST(n AS TEXT) LIKE '1!%' ESCAPE '!' OR m = 2", "(1, 2)", "(10, 1)"),
        ("n = 0 OR 10 / n >= 1", "(10, 1), (0, 1), (5, NULL), (0, 0)", "(11, 0)"),
    ],
)
def test_conditions_mean_what_they_mean_in_a_query(sql: Sql, condition: str, met: str, violated: str) -> None:
    sql(
        "CREATE TABLE t (id UUID DEFAULT uuid() PRIMARY KEY, n INT, m INT, "
        f"at TIMESTAMP DEFAULT TIMESTAMP '3000-01-01', CHECK ({condition}))"
    )
    assert sql(f"INSERT INTO t (n, m) VALUES {met}") > 0
    if violated:
        with pytest.raises(InvalidInputError, match="violates constraint 't_check'"):
            sql(f"INSERT INTO t (n, m) VALUES {met}, {violated}")


@pytest.mark.parametrize("rule", ["DEFAULT {}", "CHECK (n > {})"])
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (" + ".join(["1"] * 1500), "more than 2000 deep"),
        ("CAST(NULL AS INT" + "[]" * 1500 + ") IS NULL", "more than 2000 deep"),
        ("length(repeat('x', 2000000000))", "at most 10000000 elements"),
    ],
    ids=["operators", "types", "values"],
)
def test_expressions_are_as_small_as_in_a_query(sql: Sql, rule: str, expression: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        sql(f"CREATE TABLE t (id INT PRIMARY KEY, n INT {rule.format(expression)})")


def test_expressions_name_no_table(sql: Sql) -> None:
    for table in ("rows", "t"):
        with pytest.raises(InvalidInputError, match=f"No field named {table}.n. Did you mean 'n'"):
            sql(f"CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK ({table}.n > 0))")
    with pytest.raises(InvalidInputError, match=r"No field named m\. Valid fields are id, n\."):
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK (m > 0))")
    for name in ("row", "id"):
        with pytest.raises(InvalidInputError, match=f"No field named {name}: a default is made"):
            sql(f"CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT {name})")
    sql('CREATE TABLE t (id INT PRIMARY KEY, "Ä-b" INT, "C ""d" INT, CHECK ("Ä-b" > "C ""d"))')
    with pytest.raises(InvalidInputError, match="violates"):
        sql("INSERT INTO t VALUES (1, 2, 2)")


def test_they_and_writes_take_functions_of_other_databases(sql: Sql) -> None:
    first, second = "550e8400-e29b-41d4-a716-446655440000", "660e8400-e29b-41d4-a716-446655440000"
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, u UUID DEFAULT gen_random_uuid(), y VARCHAR, n INT, "
        "CHECK (n BETWEEN SYMMETRIC 10 AND -10))"
    )
    sql(
        "INSERT INTO t VALUES "
        f"(1, '{first.upper()}'::uuid, to_char(DATE '2024-01-01', 'YYYY'), if(1 > 2, 5, 6))"
    )
    sql(f"INSERT INTO t (id, n) SELECT 2, count(DISTINCT id, n) FROM t WHERE u = '{first.upper()}'::uuid")
    sql(f"UPDATE t SET n = mod(n, 4), u = CAST('{second}' AS UUID) WHERE sign(n) = 1 AND id = 1")
    assert sql("SELECT id, u = CAST(u AS UUID), y, n FROM t ORDER BY ALL") == [
        (1, True, "2024", 2),
        (2, True, None, 1),
    ]
    assert sql(f"DELETE FROM t WHERE u = '{second.upper()}'::uuid") == 1
    assert sql("SELECT id FROM t") == [(2,)]
