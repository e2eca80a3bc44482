"""Connections: sessions and their options, autocommit, several cursors at once, cancellation, errors."""

import threading
from collections.abc import Iterator
from typing import Any

import adbc_driver_manager
import pytest
from adbc_driver_flightsql import ConnectionOptions
from adbc_driver_manager import AdbcStatusCode

from lance_gateway.gateway.execution.query import QueryState
from lance_gateway.gateway.server import GatewayServer
from tests.support.processes.servers import open_connection

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(a) WHERE a % 7 = 3"
TRICKLE = "SELECT a FROM generate_series(1, 1000000000000) AS t(a)"
OPTION = "adbc.flight.sql.session.option."


@pytest.fixture
def own(uri: str) -> Iterator[Any]:
    """A connection of the test's own, which may change its options."""
    with open_connection(uri) as connection:
        yield connection


def test_a_connection_with_autocommit_needs_no_warning(own: Any) -> None:
    with own.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
    # In autocommit there is nothing to commit, and callers may do so out of habit.
    own.commit()
    own.rollback()


def test_session_options_are_read_and_changed(own: Any) -> None:
    low = own.adbc_connection
    low.set_options(**{f"{OPTION}consistency": "flushed", f"{OPTION}max_staleness_ms": 5})
    low.set_options(**{"adbc.flight.sql.session.optionbool.region_pruning": "false"})
    assert low.get_option(f"{OPTION}consistency") == "flushed"
    assert low.get_option_int(f"{OPTION}max_staleness_ms") == 5
    assert low.get_option("adbc.flight.sql.session.optionbool.region_pruning") == "false"
    low.set_options(**{"adbc.flight.sql.session.optionerase.consistency": ""})
    assert low.get_option(f"{OPTION}consistency") == "strong"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (f"{OPTION}colour", "green", r"'colour' \(invalid name\)"),
        (f"{OPTION}consistency", "weak", r"'consistency' \(invalid value\)"),
        (f"{OPTION}dialect", "klingon", r"'dialect' \(invalid value\)"),
        (f"{OPTION}endpoints", 0, r"'endpoints' \(invalid value\)"),
        (f"{OPTION}query_timeout_ms", -1, r"'query_timeout_ms' \(invalid value\)"),
        ("adbc.flight.sql.session.optionbool.consistency", "true", "invalid value"),
        ("adbc.flight.sql.session.optionstringlist.schema", '["main"]', "invalid value"),
    ],
)
def test_an_option_that_cannot_be_is_refused(own: Any, name: str, value: Any, said: str) -> None:
    with pytest.raises(adbc_driver_manager.ProgrammingError, match=said) as caught:
        own.adbc_connection.set_options(**{name: value})
    assert caught.value.status_code == AdbcStatusCode.INVALID_ARGUMENT


def test_a_dialect_may_be_chosen_for_a_connection(own: Any) -> None:
    own.adbc_connection.set_options(**{f"{OPTION}dialect": "mysql"})
    with own.cursor() as cursor:
        cursor.execute("SELECT `customer` FROM `orders` WHERE `id` = 3 LIMIT 0, 1")
        assert cursor.fetchall() == [("customer 3",)]


def test_cursors_of_one_connection_read_at_the_same_time(adbc: Any) -> None:
    with adbc.cursor() as first, adbc.cursor() as second:
        first.execute("SELECT id FROM orders WHERE id < 500 ORDER BY id")
        second.execute("SELECT id FROM orders WHERE id >= 500 ORDER BY id")
        rows = [(first.fetchone(), second.fetchone()) for _ in range(500)]
    assert rows == [((number,), (number + 500,)) for number in range(500)]


@pytest.mark.slow
def test_threads_share_a_connection(adbc: Any) -> None:
    counts: list[int] = []

    def count(number: int) -> None:
        with adbc.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM orders WHERE id < ?", (number,))
            counts.append(cursor.fetchone()[0])

    threads = [threading.Thread(target=count, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == list(range(8))


def rows_of(cursor: Any, text: str) -> list[Any]:
    cursor.execute(text)
    return cursor.fetchall()


def running(gateway: GatewayServer, text: str) -> bool:
    return any(
        query.sql == text and query.state is QueryState.RUNNING for query in gateway.queries.list_active()
    )


def await_that(condition: Any) -> None:
    for _ in range(600):
        if condition():
            return
        threading.Event().wait(0.05)
    pytest.fail("it did not happen within 30 s")


@pytest.mark.slow
def test_a_statement_is_cancelled_from_another_thread(own: Any, gateway: GatewayServer) -> None:
    with own.cursor() as cursor:

        def cancel() -> None:
            await_that(lambda: running(gateway, ENDLESS))
            cursor.adbc_cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(adbc_driver_manager.OperationalError) as caught:
            rows_of(cursor, ENDLESS)
        thread.join()
        assert caught.value.status_code == AdbcStatusCode.CANCELLED
        await_that(lambda: not running(gateway, ENDLESS))
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_a_result_that_is_not_read_to_its_end_stops_when_its_cursor_closes(
    own: Any, gateway: GatewayServer
) -> None:
    with own.cursor() as cursor:
        cursor.execute(TRICKLE)
        assert cursor.fetchone() == (1,)
        assert running(gateway, TRICKLE)
    await_that(lambda: not running(gateway, TRICKLE))


@pytest.mark.slow
def test_a_call_has_the_time_that_its_client_gives_it(own: Any, gateway: GatewayServer) -> None:
    own.adbc_connection.set_options(**{ConnectionOptions.TIMEOUT_FETCH.value: 0.5})
    with own.cursor() as cursor, pytest.raises(adbc_driver_manager.Error) as caught:
        rows_of(cursor, ENDLESS)
    assert caught.value.status_code == AdbcStatusCode.TIMEOUT
    await_that(lambda: not running(gateway, ENDLESS))


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ("SELECT 1 +", AdbcStatusCode.INVALID_ARGUMENT, "line 1"),
        ("SELECT * FROM nowhere", AdbcStatusCode.NOT_FOUND, "'nowhere' does not exist"),
        ("SELECT nothing FROM orders", AdbcStatusCode.INVALID_ARGUMENT, "nothing"),
        ("INSERT INTO orders VALUES (1)", AdbcStatusCode.INVALID_ARGUMENT, "has no MemWAL"),
        ("COPY orders TO 'x'", AdbcStatusCode.NOT_IMPLEMENTED, "COPY"),
        ("SELECT 1 / (id - id) FROM orders", AdbcStatusCode.INVALID_ARGUMENT, "Divide by zero"),
    ],
)
def test_an_error_has_a_status_and_no_traceback(
    own: Any, text: str, status: AdbcStatusCode, said: str
) -> None:
    with own.cursor() as cursor, pytest.raises(adbc_driver_manager.Error, match=said) as caught:
        rows_of(cursor, text)
    assert caught.value.status_code == status
    assert "Traceback" not in str(caught.value)
    assert ".py" not in str(caught.value)
