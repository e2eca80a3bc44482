"""What a transaction refuses, and what it says when COMMIT can't write everything."""

from collections.abc import Iterator
from typing import Any

import pytest

from lance_gateway.memwal.errors import (
    ConflictError,
    InvalidInputError,
    ResourcesExhaustedError,
    UnsupportedError,
)
from lance_gateway.memwal.writing import PartlyWrittenError
from tests.support.processes.gateways import EngineGateway, EngineTransaction

ALL = "SELECT id, n FROM t ORDER BY id"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineGateway]:
    gateway = EngineGateway(tmp_path_factory.mktemp("transactions"))
    yield gateway
    gateway.close()


@pytest.fixture(autouse=True)
def _tables(gateway: EngineGateway) -> None:
    for name in ("t", "u"):
        gateway.write(f"DROP TABLE IF EXISTS {name}")
        gateway.write(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)")
        gateway.write(f"INSERT INTO {name} VALUES (1, 10), (2, 20)")


@pytest.fixture
def transaction(gateway: EngineGateway) -> EngineTransaction:
    return EngineTransaction(gateway)


def rows(reader: EngineGateway | EngineTransaction, sql: str = ALL) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in reader.read(sql).to_pylist()]


def test_a_commit_that_fails_between_tables_says_what_was_written(
    gateway: EngineGateway, transaction: EngineTransaction
) -> None:
    for name in ("t", "u"):
        transaction.write(f"INSERT INTO {name} VALUES (3, 30)")
    gateway.engine.catalog.table("u").writer().close()
    said = r"COMMIT wrote 1 of 2 tables \(1 rows\) before it failed at table 'u': .* what was written stays"
    with pytest.raises(PartlyWrittenError, match=said):
        transaction.commit()
    assert rows(gateway) == [(1, 10), (2, 20), (3, 30)]
    assert rows(gateway, "SELECT id FROM u ORDER BY id") == [(1,), (2,)]


def test_a_state_that_only_the_transaction_has_gets_no_token(
    gateway: EngineGateway, transaction: EngineTransaction
) -> None:
    """Its rows are in no log yet: a token would name entries that others write."""
    ((before,),) = rows(transaction, "SELECT * FROM lance_position('t')")
    every = f"SELECT id, _change FROM lance_changes('t', since => '{before}', mode => 'all')"
    assert rows(transaction, every) == []
    transaction.write("INSERT INTO t VALUES (3, 30)")
    assert rows(transaction, "SELECT * FROM lance_position('t')") == [(None,)]
    net = f"SELECT id, _position FROM lance_changes('t', since => '{before}')"
    assert rows(transaction, net) == [(3, None)]
    with pytest.raises(UnsupportedError, match="where the rows of this transaction come when it commits"):
        rows(transaction, every)
    transaction.commit()
    assert rows(gateway, every) == [(3, "insert")]


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [
        (["ALTER TABLE t ADD COLUMN x INT"], "'t' was altered or recreated"),
        (["DROP TABLE t"], "'t' was dropped"),
        (
            ["DROP TABLE t", "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)"],
            "'t' was altered or recreated",
        ),
    ],
)
def test_a_table_that_is_another_one_by_then_gets_no_rows(
    gateway: EngineGateway, transaction: EngineTransaction, meanwhile: list[str], said: str
) -> None:
    transaction.write("INSERT INTO u VALUES (3, 30)")
    transaction.write("INSERT INTO t VALUES (3, 30)")
    for statement in meanwhile:
        gateway.write(statement)
    with pytest.raises(ConflictError, match=f"{said}.*nothing of the transaction was written"):
        transaction.commit()
    assert rows(gateway, "SELECT id FROM u ORDER BY id") == [(1,), (2,)]


def test_a_table_that_is_altered_is_not_read_as_if_it_were_not(
    gateway: EngineGateway, transaction: EngineTransaction
) -> None:
    assert rows(transaction) == [(1, 10), (2, 20)]
    gateway.write("ALTER TABLE t ADD COLUMN x INT")
    with pytest.raises(ConflictError, match=r"'t' was altered or recreated.*begin it again"):
        rows(transaction)


@pytest.mark.parametrize(
    "change", ["UPDATE t SET n = 0 WHERE id = 2", "DELETE FROM t WHERE id = 2", "DELETE FROM t"]
)
@pytest.mark.parametrize(
    "mine",
    [
        "UPDATE t SET n = n + 1",
        "DELETE FROM t WHERE n > 15",
        "MERGE INTO t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 5",
        "INSERT INTO t VALUES (2, 5) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
    ],
)
def test_rows_that_others_changed_are_not_overwritten(
    gateway: EngineGateway, transaction: EngineTransaction, change: str, mine: str
) -> None:
    transaction.write(mine)
    gateway.write(change)
    left = rows(gateway)
    with pytest.raises(ConflictError, match=r"the row id = [12] of table 't' was changed by others"):
        transaction.commit()
    assert rows(gateway) == left


def test_a_row_that_both_insert_where_there_was_none_is_a_conflict(
    gateway: EngineGateway, transaction: EngineTransaction
) -> None:
    insert = "INSERT INTO t VALUES (3, {}) ON CONFLICT DO NOTHING"
    assert transaction.write(insert.format(1)) == 1
    gateway.write(insert.format(2))
    with pytest.raises(ConflictError, match="the row id = 3"):
        transaction.commit()
    assert (3, 2) in rows(gateway)


def test_an_equal_row_is_no_conflict(gateway: EngineGateway, transaction: EngineTransaction) -> None:
    transaction.write("UPDATE t SET n = n + 1 WHERE id = 1")
    gateway.write("UPDATE t SET n = 10 WHERE id = 1")
    transaction.commit()
    assert rows(gateway) == [(1, 11), (2, 20)]


def test_the_last_of_several_changes_of_a_key_counts(
    gateway: EngineGateway, transaction: EngineTransaction
) -> None:
    for statement in (
        "INSERT INTO t VALUES (3, 1)",
        "DELETE FROM t WHERE id IN (1, 3)",
        "INSERT INTO t VALUES (1, 2)",
        "UPDATE t SET n = n * 2",
        "DELETE FROM t WHERE id = 2",
    ):
        transaction.write(statement)
    assert rows(transaction) == [(1, 4)]
    transaction.commit()
    assert rows(gateway) == [(1, 4)]


def test_a_table_without_a_key_takes_rows(gateway: EngineGateway, transaction: EngineTransaction) -> None:
    gateway.write("DROP TABLE IF EXISTS log")
    gateway.write("CREATE TABLE log (text VARCHAR)")
    for text in ("a", "b"):
        transaction.write(f"INSERT INTO log VALUES ('{text}')")
    assert sorted(rows(transaction, "SELECT text FROM log")) == [("a",), ("b",)]
    assert rows(gateway, "SELECT text FROM log") == []
    transaction.commit()
    assert sorted(rows(gateway, "SELECT text FROM log")) == [("a",), ("b",)]


@pytest.mark.parametrize("change", ["UPDATE log SET text = 'b'", "DELETE FROM log"])
def test_what_commits_to_a_base_table_is_refused(
    gateway: EngineGateway, transaction: EngineTransaction, change: str
) -> None:
    gateway.write("DROP TABLE IF EXISTS log")
    gateway.write("CREATE TABLE log (text VARCHAR)")
    gateway.write("INSERT INTO log VALUES ('a')")
    with pytest.raises(UnsupportedError, match="outside of a transaction"):
        transaction.write(change)
    assert rows(gateway, "SELECT text FROM log") == [("a",)]


def test_a_statement_that_fails_in_a_later_part_leaves_nothing(
    gateway: EngineGateway, transaction: EngineTransaction
) -> None:
    transaction.write("INSERT INTO t VALUES (3, 30)")
    with pytest.raises(InvalidInputError, match="'n'"):
        transaction.write("INSERT INTO t SELECT value, nullif(value, 200000) FROM generate_series(1, 200000)")
    assert rows(transaction) == [(1, 10), (2, 20), (3, 30)]
    transaction.commit()
    assert rows(gateway) == [(1, 10), (2, 20), (3, 30)]


def test_what_is_too_large_is_refused_and_the_rest_goes_on(gateway: EngineGateway) -> None:
    transaction = EngineTransaction(gateway, max_bytes=1000)
    with pytest.raises(
        ResourcesExhaustedError, match=r"1000 are allowed: commit more often.*max_transaction_bytes"
    ):
        transaction.write("INSERT INTO t SELECT value, 1 FROM generate_series(1, 1000)")
    transaction.write("DELETE FROM t WHERE id = 1")
    transaction.commit()
    assert rows(gateway) == [(2, 20)]


def test_the_past_and_the_plan_are_read_in_a_transaction(transaction: EngineTransaction) -> None:
    transaction.write("INSERT INTO t VALUES (3, 30)")
    assert rows(transaction, "SELECT count(*) FROM t FOR VERSION AS OF 1") == [(0,)]
    plan = transaction.read("EXPLAIN SELECT * FROM t WHERE id = 3")
    assert "in a transaction" in str(plan.to_pylist())


def test_begin_is_no_query(gateway: EngineGateway) -> None:
    with pytest.raises(UnsupportedError, match="BEGIN is not a query"):
        gateway.read("BEGIN")
