"""Lengths, defaults and constraints: declared, told, changed, and kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pytest

from memwal.creating import NOT_NULL
from memwal.errors import InvalidInputError, LanceGatewayError, PermissionDeniedError, PreconditionError
from memwal.rules import DEFAULT, MAX_LENGTH
from planner.access.rights import TableAccess
from planner.engine import PreparedQuery
from planner.writes.ddl import alter
from planner.writes.ddl.rules import changes
from planner.writes.ddl.tables import change_columns
from tests.support.merging import merge_flushed
from tests.support.principals import create_principal

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
    ("Sum", "CHECK", "CHECK (qty + other < 50)", True),
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
    ) == [("Sum", "qty + other < 50"), ("t_qty_check", "qty > 0"), ("t_qty_check1", "qty < 100")]
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


class TestConstraintsThatCome:
    def test_rows_that_are_there_are_checked_first(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        sql("INSERT INTO t VALUES (1, 5), (2, NULL)")
        with pytest.raises(PreconditionError, match="the row with id = 1 violates CHECK"):
            sql("ALTER TABLE t ADD CONSTRAINT less CHECK (n < 5)")
        assert sql.dataset("t").config() == {}
        sql("ALTER TABLE t ADD CONSTRAINT less CHECK (n < 6)")
        with pytest.raises(InvalidInputError, match="'less'"):
            sql("INSERT INTO t VALUES (3, 6)")

    def test_they_bind_other_gateways_that_own_regions(self, root: Path, open_gateway: Open) -> None:
        first, second = open_gateway(root), open_gateway(root)
        first("CREATE TABLE t (id INT PRIMARY KEY, n INT) WITH (region_by = 'bucket(id, 4)')")
        insert = second.engine.prepare_statement("INSERT INTO t VALUES (1, 5), (2, 6), (3, 7), (4, 8)")
        insert.execute()
        first("ALTER TABLE t ADD CHECK (n BETWEEN 5 AND 8)")
        assert insert.execute().affected == 4
        for statement in (
            "INSERT INTO t VALUES (1, 9)",
            "UPDATE t SET n = n + 1",
            "DELETE FROM t WHERE id = 1",
        ):
            if statement.startswith("DELETE"):
                assert second(statement) == 1
                continue
            with pytest.raises(InvalidInputError, match="'t_check'"):
                second(statement)
        assert first("SELECT * FROM t ORDER BY id") == [(2, 6), (3, 7), (4, 8)]
        first("ALTER TABLE t DROP CONSTRAINT t_check")
        assert second("INSERT INTO t VALUES (1, 9)") == 1

    def test_a_row_that_comes_while_a_constraint_is_added_withdraws_it(
        self, root: Path, open_gateway: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = open_gateway(root), open_gateway(root)
        first("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        second("INSERT INTO t VALUES (1, 5)")
        # Another gateway holds the region, so what it writes now is not checked.
        flush = type(first.engine.catalog.table("t").writer()).flush
        calls: list[int] = []

        def flushed(writer: Any, *args: Any) -> None:
            calls.append(1)
            if len(calls) == 2:
                second("INSERT INTO t VALUES (2, 50)")
            flush(writer, *args)

        monkeypatch.setattr(type(first.engine.catalog.table("t").writer()), "flush", flushed)
        with pytest.raises(PreconditionError, match="the row with id = 2"):
            first("ALTER TABLE t ADD CONSTRAINT few CHECK (n < 10)")
        monkeypatch.undo()
        assert first("SELECT count(*) FROM system.constraints WHERE constraint_name = 'few'") == [(0,)]
        assert second("INSERT INTO t VALUES (3, 50)") == 1

    @pytest.mark.parametrize(
        ("meanwhile", "said"),
        [
            ("ADD CHECK (n < 100)", "has a constraint 't_check' already"),
            ("DROP COLUMN n", "column 'n' of a CHECK is none of id"),
        ],
    )
    def test_another_gateway_that_is_first_is_noticed(
        self, root: Path, open_gateway: Open, monkeypatch: pytest.MonkeyPatch, meanwhile: str, said: str
    ) -> None:
        first, second = open_gateway(root), open_gateway(root)
        first("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        commit = changes.commit_change

        def committed(*args: Any) -> Any:
            monkeypatch.undo()
            second(f"ALTER TABLE t {meanwhile}")
            return commit(*args)

        monkeypatch.setattr(changes, "commit_change", committed)
        with pytest.raises(LanceGatewayError, match=said):
            first("ALTER TABLE t ADD CHECK (n > 0)")
        listed = [definition for _, kind, definition, _ in first(LISTED.format("t")) if kind == "CHECK"]
        assert listed == (["CHECK (n < 100)"] if meanwhile.startswith("ADD") else [])

    def test_a_column_that_a_constraint_just_came_to_name_stays(
        self, root: Path, open_gateway: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = open_gateway(root), open_gateway(root)
        commit = alter.commit_change
        changes = {"DROP COLUMN n": change_columns, "RENAME COLUMN n TO m": alter}
        for number, (change, module) in enumerate(changes.items()):
            table = f"t{number}"
            first(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)")

            def committed(*args: Any, table: str = table) -> Any:
                monkeypatch.undo()
                second(f"ALTER TABLE {table} ADD CHECK (n > 0)")
                return commit(*args)

            monkeypatch.setattr(module, "commit_change", committed)
            with pytest.raises(PreconditionError, match="DROP CONSTRAINT first"):
                first(f"ALTER TABLE {table} {change}")

    def test_a_condition_that_fails_for_a_row_is_told_as_such(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        sql("INSERT INTO t VALUES (1, 0)")
        with pytest.raises(PreconditionError, match="add constraint 't_check' of table 't', since it fails"):
            sql("ALTER TABLE t ADD CHECK (10 / n > 1)")

    def test_names_are_taken_once(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT, CHECK (n > 0))")
        with pytest.raises(LanceGatewayError, match="has a constraint 't_check' already"):
            sql("ALTER TABLE t ADD CONSTRAINT t_check CHECK (n > 1)")
        sql("ALTER TABLE t ADD CHECK (n > 1)")
        assert sql("ALTER TABLE t DROP CONSTRAINT t_check1") == -1
        assert sql("ALTER TABLE t DROP CONSTRAINT IF EXISTS t_check1") == -1

    def test_what_is_not_enforced_is_noted(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        sql("INSERT INTO t VALUES (1, 1), (2, 1)")
        sql("ALTER TABLE t ADD CONSTRAINT once UNIQUE (n) NOT ENFORCED")
        sql("ALTER TABLE t ADD CONSTRAINT high CHECK (n > 5) NOT ENFORCED")
        sql("ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES t (id) ON DELETE NO ACTION NOT ENFORCED")
        sql("INSERT INTO t VALUES (3, 1)")
        assert [row[3] for row in sql(LISTED.format("t")) if row[1] != "PRIMARY KEY"] == [False] * 3

    def test_columns_that_they_name_stay(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK (n > 0))")
        for change in ("DROP COLUMN n", "RENAME COLUMN n TO m"):
            with pytest.raises(PreconditionError, match="'t_n_check' names it; DROP CONSTRAINT first"):
                sql(f"ALTER TABLE t {change}")
        sql("ALTER TABLE t DROP CONSTRAINT t_n_check")
        sql("ALTER TABLE t DROP COLUMN n")


class TestLengthsThatChange:
    def test_longer_and_shorter(self, root: Path, open_gateway: Open) -> None:
        first, second = open_gateway(root), open_gateway(root)
        first("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(3))")
        second("INSERT INTO t VALUES (1, 'abc')")
        with pytest.raises(InvalidInputError, match="at most 3"):
            second("INSERT INTO t VALUES (2, 'abcd')")
        first("ALTER TABLE t ALTER COLUMN s TYPE VARCHAR(4)")
        second("INSERT INTO t VALUES (2, 'abcd')")
        with pytest.raises(PreconditionError, match="the row with id = 2 has a value there"):
            first("ALTER TABLE t ALTER COLUMN s TYPE VARCHAR(3)")
        second("INSERT INTO t VALUES (2, 'abcd')")
        second("DELETE FROM t WHERE id = 2")
        first("ALTER TABLE t ALTER COLUMN s SET DATA TYPE VARCHAR(3)")
        with pytest.raises(InvalidInputError, match="at most 3"):
            second("INSERT INTO t VALUES (2, 'abcd')")
        first("ALTER TABLE t ALTER COLUMN s TYPE TEXT")
        second("INSERT INTO t VALUES (2, 'abcdefgh')")

    def test_binary_values_have_a_length_in_bytes(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, b VARBINARY(3))")
        sql("INSERT INTO t VALUES (1, X'00ff80'), (2, NULL)")
        with pytest.raises(PreconditionError, match="the row with id = 1 has a value there"):
            sql("ALTER TABLE t ALTER COLUMN b TYPE VARBINARY(2)")
        sql("UPDATE t SET b = X'00ff'")
        sql("ALTER TABLE t ALTER COLUMN b TYPE VARBINARY(2)")
        with pytest.raises(InvalidInputError, match="at most 2 bytes"):
            sql("INSERT INTO t VALUES (1, X'00ff80')")

    def test_texts_become_uuids(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
        sql("INSERT INTO t VALUES (1, 'x'), (2, uuid()), (3, NULL)")
        with pytest.raises(PreconditionError, match="the row with id = 1 has a value there that is no UUID"):
            sql("ALTER TABLE t ALTER COLUMN s TYPE UUID")
        sql("DELETE FROM t WHERE id = 1")
        sql("ALTER TABLE t ALTER COLUMN s TYPE UUID")
        with pytest.raises(InvalidInputError, match="takes UUIDs"):
            sql("INSERT INTO t VALUES (1, 'x')")

    def test_texts_become_json(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
        sql("INSERT INTO t VALUES (1, '{'), (2, '[]'), (3, NULL)")
        with pytest.raises(PreconditionError, match="the row with id = 1 has a value there that is no JSON"):
            sql("ALTER TABLE t ALTER COLUMN s TYPE JSON")
        sql("DELETE FROM t WHERE id = 1")
        sql("ALTER TABLE t ALTER COLUMN s TYPE JSON")
        with pytest.raises(InvalidInputError, match="takes JSON"):
            sql("INSERT INTO t VALUES (1, '{')")
        sql("ALTER TABLE t ALTER COLUMN s TYPE TEXT")
        assert sql("INSERT INTO t VALUES (1, '{')") == 1


class TestDefaultsAndNullsThatChange:
    def test_a_default_comes_and_goes(self, root: Path, open_gateway: Open) -> None:
        first, second = open_gateway(root), open_gateway(root)
        first("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        assert second("INSERT INTO t (id) VALUES (1) RETURNING n") == [{"n": None}]
        first("ALTER TABLE t ALTER COLUMN n SET DEFAULT 4")
        assert second("INSERT INTO t (id) VALUES (1) RETURNING n") == [{"n": 4}]
        first("ALTER TABLE t ALTER n DROP DEFAULT")
        assert second("INSERT INTO t (id) VALUES (1) RETURNING n") == [{"n": None}]
        with pytest.raises(InvalidInputError, match="does not fit"):
            first("ALTER TABLE t ALTER COLUMN n SET DEFAULT 'four'")

    def test_a_prepared_statement_does_not_keep_an_old_default(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 1)")
        insert = sql.engine.prepare_statement("INSERT INTO t (id) VALUES (1)")
        assert not isinstance(insert, PreparedQuery)
        sql("ALTER TABLE t ALTER COLUMN n SET DEFAULT 2")
        with pytest.raises(PreconditionError, match="prepare it again"):
            insert.execute()

    def test_a_column_comes_with_a_default_where_there_are_no_rows(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY)")
        sql("ALTER TABLE t ADD COLUMN n INT DEFAULT 3")
        assert sql("INSERT INTO t (id) VALUES (1) RETURNING n") == [{"n": 3}]
        with pytest.raises(PreconditionError, match="ALTER COLUMN m SET DEFAULT"):
            sql("ALTER TABLE t ADD COLUMN m TEXT DEFAULT uuid()")
        sql("ALTER TABLE t ADD COLUMN m VARCHAR(4)")
        sql("ALTER TABLE t ALTER COLUMN m SET DEFAULT 'x'")
        sql("UPDATE t SET m = DEFAULT")
        assert sql("SELECT * FROM t") == [(1, 3, "x")]

    def test_null_is_refused_and_taken_again(self, root: Path, open_gateway: Open) -> None:
        first, second = open_gateway(root), open_gateway(root)
        first("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        second("INSERT INTO t VALUES (1, NULL)")
        with pytest.raises(PreconditionError, match="the row with id = 1 has NULL in column 'n'"):
            first("ALTER TABLE t ALTER COLUMN n SET NOT NULL")
        second("UPDATE t SET n = 1")
        first("ALTER TABLE t ALTER COLUMN n SET NOT NULL")
        with pytest.raises(InvalidInputError, match="column 'n'"):
            second("UPDATE t SET n = NULL")
        first("ALTER TABLE t ALTER COLUMN n DROP NOT NULL")
        assert second("UPDATE t SET n = NULL") == 1


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
