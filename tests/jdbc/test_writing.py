"""Statements that change something, over JDBC: counts, batches, every way to bind a value, and errors."""

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from tests.jdbc import lake
from tests.jdbc.jvm import Facts, Jvm
from tests.support.lake.written import make_notes
from tests.support.processes.servers import GatewayProcess
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow


# All that the driver can bind; `types` has the value that each is to be.
BOUND = (
    "flag", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "dec", "text", "ltext",
    "blob", "lblob", "uuid", "d32", "d64", "t32s", "t32ms", "t64us", "t64ns", "ts_s", "ts_ms", "ts_us",
    "ts_ns", "tz_s", "tz_ms", "tz_us", "tz_ns", "numbers", "words", "vec",
)  # fmt: skip


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess
) -> Iterator[tuple[Path, str]]:
    """A root of the tests' own, and the address of its gateway."""
    root = tmp_path_factory.mktemp("written")
    lake.write(root, shared_writers)
    with GatewayProcess(root, "--http-port", "off") as gateway:
        yield root, f"jdbc:arrow-flight-sql://{gateway.uri.removeprefix('grpc://')}/?useEncryption=false"


@pytest.fixture(scope="module")
def facts(jvm: Jvm, written: tuple[Path, str]) -> Facts:
    root, url = written
    version = jvm.version.replace(".", "_")
    typed = f"typed_{version}"
    rows = lance.dataset(root / "types.lance").schema.empty_table()
    lance.write_dataset(rows, root / f"{typed}.lance").initialize_mem_wal()
    return jvm.run("Writing", url, make_notes(root, f"notes_{version}"), typed)


def test_an_update_tells_how_many_rows_it_changed(facts: Facts) -> None:
    assert [facts[name] for name in ("INSERT", "UPDATE", "large UPDATE")] == [2, 1, 2]
    assert [facts[name] for name in ("DELETE", "DELETE of nothing")] == [1, 0]
    assert facts["what they left"] == [[2, "b", 10.0]]


def test_execute_has_a_count_and_no_result(facts: Facts) -> None:
    assert facts["execute"] == [False, 1, False, -1]


def test_returning_is_a_result(facts: Facts) -> None:
    assert facts["RETURNING"] == [[4, "d"]]
    assert facts["after RETURNING"] == [[3]]


def test_the_driver_knows_no_generated_keys(facts: Facts) -> None:
    assert facts.failure("keys").kind == "java.sql.SQLFeatureNotSupportedException"


def test_definitions_change_no_rows_and_are_seen_at_once(facts: Facts) -> None:
    assert facts["CREATE TABLE"] == 0
    assert [row[3] for row in facts["CREATE TABLE is seen at once"]] == ["TABLE"]
    assert facts["DROP TABLE"] == [False, 0]


def test_prepared_updates(facts: Facts) -> None:
    assert facts["parameters"] == 2
    assert [facts[f"prepared {name}"] for name in ("INSERT", "UPDATE", "DELETE without parameters")] == [
        1
    ] * 3


def test_the_driver_executes_a_prepared_update_like_a_query(facts: Facts) -> None:
    assert facts["prepared INSERT again"] == [True, -1]


def test_a_batch_is_one_update_with_one_count(facts: Facts) -> None:
    assert facts["a batch"] == [3]
    assert facts["a large batch"] == [1, 10_000]
    assert facts["rows of the batches"] == [[10_003, "note 100", 5001.5]]
    assert facts["a batch of deletes"] == [3]


def test_the_driver_does_not_know_batches_of_statements(facts: Facts) -> None:
    assert facts.failure("a batch of statements").kind == "java.lang.NullPointerException"


def test_each_statement_was_executed_as_often_as_it_was_sent(facts: Facts) -> None:
    more = {"DELETE FROM": 2, "(id, text) VALUES (?, ?)": 2, "(id, text, score) VALUES": 2}
    for statement, count in facts["executions"]:
        is_repeated = statement.endswith("WHERE id = 1") or "INSERT" in statement
        expected = next((times for part, times in more.items() if part in statement and is_repeated), 1)
        assert count == expected, statement


@pytest.mark.parametrize("column", BOUND)
def test_a_bound_value_is_stored_as_it_is(facts: Facts, column: str) -> None:
    assert facts[f"stored {column}"] == 1


def test_null_is_stored_in_every_type(facts: Facts) -> None:
    stored = {name: facts[name] for name in facts if name.startswith("NULL ") and name != "NULL as key"}
    assert len(stored) == 15
    assert set(stored.values()) == {1}


def test_statements_make_transactions(facts: Facts) -> None:
    assert [facts[name] for name in ("BEGIN", "UPDATE in the transaction", "ROLLBACK")] == [0, 1, False]
    assert facts["seen in the transaction"] == [["changed"]]
    assert facts["seen by others"] == facts["after ROLLBACK"] == []
    assert facts["others after COMMIT"] == [["once more"]]
    assert "no transaction is open" in facts.failure("COMMIT of nothing").text


def test_the_driver_has_nothing_but_autocommit_and_tools_are_told_so(facts: Facts) -> None:
    """What `setAutoCommit(false)` and `rollback()` do stays in the driver."""
    assert [facts[name] for name in ("autocommit", "transactions")] == [True, False]
    assert facts["after rollback()"] == []
    assert facts["setAutoCommit(true)"] == "done"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("NULL as key", "column 'id' of row 1 is NULL"),
        ("an unknown column", "no column 'nope'"),
        ("an unknown table", "'nowhere' does not exist"),
        ("a value of another type", "column 'id'"),
        ("INSERT as a query", "did not return a result set"),
    ],
)
def test_what_is_refused_is_a_clear_exception_without_state(facts: Facts, name: str, complaint: str) -> None:
    failure = facts.failure(name)
    assert (failure.kind, failure.state) == ("java.sql.SQLException", None)
    assert complaint in failure.text


def test_a_batch_with_a_row_that_is_refused_writes_nothing(facts: Facts) -> None:
    """The driver tells of no counts then: it is not a BatchUpdateException."""
    failure = facts.failure("a batch with a NULL as key")
    assert failure.kind == "java.sql.SQLException"
    assert "column 'id' of row 2 is NULL" in failure.text
    assert "its counts" not in facts
    assert facts["what it left"] == 0


def test_a_table_is_followed_while_it_is_written(jvm: Jvm, written: tuple[Path, str]) -> None:
    root, url = written
    facts = jvm.run("Following", url, make_notes(root, f"followed_{jvm.version.replace('.', '_')}"))
    for key in (1, 2, 3):
        assert facts[f"insert {key}"] == [[key, "new", "insert"]]
    assert facts["update"] == [[2, "new", "update_before"], [2, "changed", "update_after"]]
    assert facts["delete"] == [[3, "new", "delete"]]
    assert facts["cancelled"] == [["ended"]]
