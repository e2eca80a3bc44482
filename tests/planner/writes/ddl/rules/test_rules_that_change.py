"""Rules that come, change and go where rows are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PreconditionError
from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.writes.ddl import alter
from lance_gateway.planner.writes.ddl.rules import changes
from lance_gateway.planner.writes.ddl.tables import change_columns

LISTED = (
    "SELECT constraint_name, constraint_type, definition, is_enforced FROM system.constraints "
    "WHERE table_name = '{}' ORDER BY constraint_name"
)
Sql = Any
Open = Callable[..., Sql]


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
        with pytest.raises(
            PreconditionError, match="the row with id = 1 has a value there that is not of type UUID"
        ):
            sql("ALTER TABLE t ALTER COLUMN s TYPE UUID")
        sql("DELETE FROM t WHERE id = 1")
        sql("ALTER TABLE t ALTER COLUMN s TYPE UUID")
        with pytest.raises(InvalidInputError, match="takes UUIDs"):
            sql("INSERT INTO t VALUES (1, 'x')")

    def test_texts_become_json(self, sql: Sql) -> None:
        sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT)")
        sql("INSERT INTO t VALUES (1, '{'), (2, '[]'), (3, NULL)")
        with pytest.raises(
            PreconditionError, match="the row with id = 1 has a value there that is not of type JSON"
        ):
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
