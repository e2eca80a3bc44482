"""Transactions over the ADBC driver: its own (`autocommit=False`), and those of BEGIN in a session."""

import warnings
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import pandas as pd
import pyarrow as pa
import pytest

TOTALS = "SELECT count(*), sum(balance) FROM {}"


@pytest.fixture
def accounts(adbc: Any, table: str) -> str:
    with adbc.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, balance BIGINT) WITH (region_by = 'bucket(id, 2)')"
        )
        cursor.execute(f"INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30)")
    return table


@pytest.fixture
def manual(uri: str) -> Iterator[Any]:
    """A connection as Python's DB-API opens it, which must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connection = flightsql.connect(uri)
    with closing(connection):
        yield connection


def ask(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def run(connection: Any, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_what_a_transaction_wrote_is_seen_in_it_at_once_and_by_others_after_commit(
    adbc: Any, manual: Any, accounts: str
) -> None:
    with manual.cursor() as cursor:
        cursor.execute(f"UPDATE {accounts} SET balance = balance - 5 WHERE id = 1")
        assert cursor.rowcount == 1
        cursor.execute(f"UPDATE {accounts} SET balance = balance + 5 WHERE balance = 20")
        cursor.executemany(f"INSERT INTO {accounts} VALUES (?, ?)", [(4, 40), (5, 50)])
        cursor.execute(f"DELETE FROM {accounts} WHERE id IN (3, 4) RETURNING id")
        assert sorted(cursor.fetchall()) == [(3,), (4,)]
    rows = f"SELECT * FROM {accounts} ORDER BY id"
    assert ask(manual, rows) == [(1, 5), (2, 25), (5, 50)]
    assert ask(adbc, rows) == [(1, 10), (2, 20), (3, 30)]
    manual.commit()
    assert ask(manual, rows) == ask(adbc, rows) == [(1, 5), (2, 25), (5, 50)]


def test_rollback_takes_everything_back(adbc: Any, manual: Any, accounts: str) -> None:
    run(manual, f"INSERT INTO {accounts} VALUES (9, 90)", f"DELETE FROM {accounts} WHERE id < 3")
    assert ask(manual, TOTALS.format(accounts)) == [(2, 120)]
    manual.rollback()
    assert ask(manual, TOTALS.format(accounts)) == ask(adbc, TOTALS.format(accounts)) == [(3, 60)]


def test_a_table_is_read_in_one_snapshot_until_the_transaction_ends(
    adbc: Any, manual: Any, accounts: str
) -> None:
    with manual.cursor() as cursor:
        for _ in range(2):
            cursor.execute(TOTALS.format(accounts))
            assert cursor.fetchall() == [(3, 60)]
            run(adbc, f"INSERT INTO {accounts} VALUES (7, 70)")
        manual.commit()
        # The cursor goes on with the statement that it prepared in the transaction before.
        cursor.execute(TOTALS.format(accounts))
        assert cursor.fetchall() == [(4, 130)]


def test_prepared_statements_outlive_the_transactions_in_which_they_are_executed(
    adbc: Any, manual: Any, accounts: str
) -> None:
    insert = f"INSERT INTO {accounts} VALUES (?, 1)"
    with manual.cursor() as cursor:
        for number, end in enumerate((manual.commit, manual.rollback, manual.commit)):
            cursor.execute(insert, (100 + number,))
            end()
    assert ask(adbc, f"SELECT id FROM {accounts} WHERE id >= 100 ORDER BY id") == [(100,), (102,)]


def test_the_first_to_commit_wins(adbc: Any, manual: Any, accounts: str) -> None:
    run(manual, f"UPDATE {accounts} SET balance = balance + 1 WHERE id = 1")
    run(adbc, f"UPDATE {accounts} SET balance = balance + 100 WHERE id IN (1, 2)")
    with pytest.raises(
        flightsql.OperationalError,
        match=r"the row id = 1 of table .* was changed by others .* begin it again",
    ):
        run(manual, "COMMIT")
    assert ask(manual, TOTALS.format(accounts)) == [(3, 260)]
    run(manual, f"UPDATE {accounts} SET balance = balance + 1 WHERE id = 1")
    manual.commit()
    assert ask(adbc, f"SELECT balance FROM {accounts} WHERE id = 1") == [(111,)]


def test_changes_of_other_rows_are_no_conflict(adbc: Any, manual: Any, accounts: str) -> None:
    run(manual, f"UPDATE {accounts} SET balance = balance + 1 WHERE id = 1")
    run(adbc, f"UPDATE {accounts} SET balance = balance + 100 WHERE id IN (2, 3)")
    manual.commit()
    assert ask(adbc, TOTALS.format(accounts)) == [(3, 261)]


def test_a_statement_that_fails_leaves_nothing_in_the_transaction(
    adbc: Any, manual: Any, accounts: str
) -> None:
    run(manual, f"INSERT INTO {accounts} VALUES (8, 80)")
    with pytest.raises(flightsql.ProgrammingError, match=r"key column 'id'|column 'id' .* NULL"):
        run(manual, f"INSERT INTO {accounts} VALUES (9, 90), (NULL, 1)")
    manual.commit()
    assert ask(adbc, TOTALS.format(accounts)) == [(4, 140)]


def test_a_definition_commits_what_came_before(adbc: Any, manual: Any, accounts: str) -> None:
    run(
        manual,
        f"INSERT INTO {accounts} VALUES (8, 80)",
        f"CREATE TABLE {accounts}_more (id BIGINT PRIMARY KEY)",
    )
    assert ask(adbc, TOTALS.format(accounts)) == [(4, 140)]
    run(manual, f"INSERT INTO {accounts} VALUES (9, 90)")
    manual.rollback()
    assert ask(adbc, TOTALS.format(accounts)) == [(4, 140)]
    assert ask(adbc, f"SELECT count(*) FROM {accounts}_more") == [(0,)]


def test_pandas_makes_a_table_and_appends_to_it(adbc: Any, manual: Any, table: str) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
    frame.to_sql(table, manual, index=False)
    frame.to_sql(table, manual, index=False, if_exists="append")
    manual.commit()
    assert ask(adbc, f"SELECT count(*) FROM {table}") == [(4,)]


def test_the_driver_sends_bulk_rows_outside_of_its_transaction(adbc: Any, manual: Any, accounts: str) -> None:
    with manual.cursor() as cursor:
        cursor.adbc_ingest(accounts, pa.table({"id": [50], "balance": [500]}), mode="append")
    manual.rollback()
    assert ask(adbc, TOTALS.format(accounts)) == [(4, 560)]


def test_a_session_begins_and_ends_transactions_by_statements(adbc: Any, uri: str, accounts: str) -> None:
    run(adbc, "BEGIN", f"INSERT INTO {accounts} VALUES (4, 40)")
    try:
        assert ask(adbc, TOTALS.format(accounts)) == [(4, 100)]
        with flightsql.connect(uri, autocommit=True) as other:
            assert ask(other, TOTALS.format(accounts)) == [(3, 60)]
        with pytest.raises(flightsql.ProgrammingError, match="COMMIT or ROLLBACK it before BEGIN"):
            run(adbc, "BEGIN")
    finally:
        run(adbc, "ROLLBACK")
    assert ask(adbc, TOTALS.format(accounts)) == [(3, 60)]
    run(
        adbc,
        "START TRANSACTION ISOLATION LEVEL READ COMMITTED",
        f"DELETE FROM {accounts} WHERE id = 1",
        "END",
    )
    assert ask(adbc, TOTALS.format(accounts)) == [(2, 50)]


def test_a_transaction_that_only_reads_refuses_to_write(adbc: Any, accounts: str) -> None:
    run(adbc, "BEGIN", "SET TRANSACTION READ ONLY")
    try:
        assert ask(adbc, TOTALS.format(accounts)) == [(3, 60)]
        for statement in (f"DELETE FROM {accounts}", f"DROP TABLE {accounts}"):
            with pytest.raises(flightsql.ProgrammingError, match="READ ONLY and changes nothing"):
                run(adbc, statement)
    finally:
        run(adbc, "COMMIT")


def test_who_sends_no_cookie_back_is_told_so_at_begin(uri: str) -> None:
    with flightsql.connect(uri, autocommit=True) as connection:
        with pytest.raises(flightsql.ProgrammingError, match=r"BEGIN needs a session.*autocommit=False"):
            run(connection, "BEGIN")
        with pytest.raises(flightsql.ProgrammingError, match="no transaction is open"):
            run(connection, "COMMIT")
        run(connection, "ROLLBACK")


@pytest.mark.parametrize(
    ("statement", "error", "complaint"),
    [
        ("SAVEPOINT one", flightsql.NotSupportedError, "no savepoints"),
        ("ROLLBACK TO SAVEPOINT one", flightsql.NotSupportedError, "no savepoints"),
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            flightsql.NotSupportedError,
            "not SERIALIZABLE.*REPEATABLE READ",
        ),
        ("START TRANSACTION WITH CONSISTENT SNAPSHOT", flightsql.ProgrammingError, "it is written START"),
        ("COMMIT AND CHAIN", flightsql.ProgrammingError, "it is written COMMIT"),
        ("SET TRANSACTION READ ONLY", flightsql.ProgrammingError, "comes behind BEGIN"),
    ],
)
def test_what_is_not_promised_is_refused(
    adbc: Any, statement: str, error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        run(adbc, statement)
