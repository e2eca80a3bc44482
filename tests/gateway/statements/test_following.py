"""Statements that follow a table, at real gateways: what they send, what they hold, and how they end."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.policy import parse_policy
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.gateway.statements.copies import DONE, Copy, create_table, read_step, read_token, write_randomly
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

pytestmark = pytest.mark.slow


@pytest.mark.soak
def test_copies_follow_all_writers_through_merges_and_the_death_of_a_gateway(root: Path) -> None:
    follow_and_write(root, seed=1, writes=20)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(2, 12))
def test_copies_follow_long_histories(root: Path, seed: int) -> None:
    follow_and_write(root, seed, writes=150)


def follow_and_write(root: Path, seed: int, writes: int) -> None:
    rng, oracle = random.Random(seed), dict[int, tuple[Any, ...]]()
    with (
        GatewayProcess(root, "--http-port", "off") as first,
        GatewayProcess(root, "--http-port", "off") as other,
        open_connection(first.uri) as one,
        open_connection(other.uri) as two,
    ):
        create_table(one)
        copies = [Copy("1") for _ in range(4)]
        threads = [
            threading.Thread(target=copy.follow_through, args=([gateway.uri, first.uri],))
            for copy, gateway in zip(copies, (first, other, first, other), strict=True)
        ]
        for thread in threads:
            thread.start()
        for number in range(writes):
            write_randomly(rng.choice((one, two)) if number < writes // 2 else one, rng, oracle)
            if number == writes // 2:
                other.kill()
        fetch(one, f"INSERT INTO t VALUES ({DONE}, 0, 'done')")
        for thread in threads:
            thread.join(120)
        shown = {row["id"]: (row["v"], row["s"]) for row in fetch(one, "SELECT * FROM t").to_pylist()}
    assert [copy.failure for copy in copies] == [None] * len(copies)
    assert shown == {**oracle, DONE: (0, "done")}
    assert [copy.rows for copy in copies] == [shown] * len(copies)


LIMITS = (
    "limits.max_followers=2",
    "limits.max_concurrent_queries=1",
    "limits.follow_heartbeat=250ms",
    "limits.query_timeout=2s",
)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with little of everything, whose table t has the rows 1 to 9."""
    options = [word for limit in LIMITS for word in ("--set", limit)]
    root = tmp_path_factory.mktemp("followed")
    with (
        GatewayProcess(root, "--http-port", "off", *options) as gateway,
        open_connection(gateway.uri) as connection,
    ):
        create_table(connection)
        fetch(connection, "INSERT INTO t SELECT value, value, 'new' FROM generate_series(1, 9)")
        fetch(connection, "CREATE TABLE plain (v BIGINT)")
        yield gateway


@contextmanager
def following(
    uri: str, text: str = "SELECT id FROM lance_changes('t', since => 1, follow => true)"
) -> Iterator[Any]:
    """The chunks of a follower, whose client goes away at the end."""
    with flight.FlightClient(uri) as client:
        reader = rpc.stream(client, sql.CommandStatementQuery(query=text))
        try:
            yield reader
        finally:
            reader.cancel()


def drain(reader: Any) -> None:
    """Read to the end, which is an error."""
    for _ in reader:
        pass


def list_running(client: flight.FlightClient) -> list[str]:
    found = rpc.query(
        client,
        "SELECT query_id FROM system.queries WHERE state = 'running' AND statement LIKE '%follow => true%' "
        "AND statement NOT LIKE '%system.queries%'",
    )
    return list(found.column("query_id").to_pylist())


def await_none(client: flight.FlightClient) -> None:
    while list_running(client):
        threading.Event().wait(0.02)


def test_followers_hold_no_slot_and_outlive_the_time_limit_of_queries(narrow: GatewayProcess) -> None:
    text = "SELECT id FROM lance_changes('t', since => 1, follow => true) WHERE id < 10"
    with flight.FlightClient(narrow.uri) as client:
        await_none(client)  # Of other tests.
    with (
        following(narrow.uri, text) as one,
        following(narrow.uri, text) as two,
        flight.FlightClient(narrow.uri) as client,
    ):
        for reader in (one, two):
            rows, token = read_step(reader)
            assert sorted(rows.column(0).to_pylist()) == list(range(1, 10))
            beats = [next(reader) for _ in range(10)]  # Which take longer than a query may.
            assert {beat.data.num_rows for beat in beats} == {0}
            assert {read_token(beat) for beat in beats} == {token}
        assert rpc.query(client, "SELECT count(*) FROM t WHERE id < 10").to_pydict() == {"count(*)": [9]}
        with pytest.raises(flight.FlightUnavailableError, match=r"2 statements follow tables.*max_followers"):
            next(
                rpc.stream(
                    client,
                    sql.CommandStatementQuery(
                        query="SELECT id FROM lance_changes('t', since => 1, follow => true)"
                    ),
                )
            )
    with flight.FlightClient(narrow.uri) as client:
        await_none(client)  # Their clients went away.


def test_a_follower_ends_when_it_is_killed(narrow: GatewayProcess) -> None:
    with flight.FlightClient(narrow.uri) as client:
        await_none(client)
    with following(narrow.uri) as reader, flight.FlightClient(narrow.uri) as client:
        next(reader)
        (query_id,) = list_running(client)
        rpc.query(client, f"KILL QUERY '{query_id}'")
        with pytest.raises(flight.FlightCancelledError, match="was killed"):
            drain(reader)
        await_none(client)


def test_conditions_and_columns_of_a_follower(narrow: GatewayProcess) -> None:
    text = """
        SELECT c.id * 10 AS tens, _change FROM lance_changes('t', since => 1, follow => true) AS c
        WHERE id IN (2, 100)
    """
    with following(narrow.uri, text) as reader, open_connection(narrow.uri) as connection:
        told = (one for chunk in reader for one in chunk.data.to_pylist())
        assert next(told) == {"tens": 20, "_change": "insert"}
        fetch(connection, "INSERT INTO t VALUES (101, 0, 'other')")
        fetch(connection, "INSERT INTO t VALUES (100, 0, 'wanted')")
        assert next(told) == {"tens": 1000, "_change": "insert"}
        fetch(connection, "DELETE FROM t WHERE id >= 100")
        assert next(told) == {"tens": 1000, "_change": "delete"}


def test_a_follower_of_every_change(narrow: GatewayProcess) -> None:
    text = "SELECT * FROM lance_changes('w', mode => 'all', since => 1, follow => true)"
    with open_connection(narrow.uri) as connection:
        fetch(connection, "CREATE TABLE w (id BIGINT PRIMARY KEY, v BIGINT)")
        fetch(connection, "INSERT INTO w VALUES (1, 1)")
        fetch(connection, "UPDATE w SET v = 2")
        fetch(connection, "DELETE FROM w")
        with following(narrow.uri, text) as reader:
            rows, _ = read_step(reader)
            fetch(connection, "INSERT INTO w VALUES (2, 2)")
            later, _ = read_step(reader)
    told = rows.sort_by("_sequence").select(["v", "_change"]).to_pylist()
    assert [(one["v"], one["_change"]) for one in told] == [
        (1, "insert"),
        (1, "update_before"),
        (2, "update_after"),
        (2, "delete"),
    ]
    assert later.select(["v", "_change"]).to_pylist() == [{"v": 2, "_change": "insert"}]


def test_a_follower_ends_with_the_columns_of_its_table(narrow: GatewayProcess) -> None:
    text = "SELECT * FROM lance_changes('u', since => 1, follow => true)"
    with open_connection(narrow.uri) as connection:
        fetch(connection, "CREATE TABLE u (id BIGINT PRIMARY KEY, v BIGINT)")
        with following(narrow.uri, text) as reader:
            next(reader)
            fetch(connection, "ALTER TABLE u ADD COLUMN extra VARCHAR")
            with pytest.raises(pa.ArrowInvalid, match="a table was altered"):
                drain(reader)


POLICY = """
[[roles.reader.grants]]
tables = ["t"]
rows = "id % 2 = 0"
hidden = ["s"]
"""


def test_a_follower_sees_what_its_user_may_see_until_that_changes(root: Path) -> None:
    policies = [parse_policy(POLICY, "policy")]
    anna = Identity("anna", frozenset({"reader"}), "none")
    security = Security(access=lambda _: policies[-1].access(anna))
    with GatewayProcess(root, "--http-port", "off") as owner, open_connection(owner.uri) as connection:
        create_table(connection)
        with serving(root, security=security) as server:
            text = "SELECT * FROM lance_changes('t', since => 1, follow => true)"
            with following(f"grpc://127.0.0.1:{server.port}", text) as reader:
                fetch(connection, "INSERT INTO t VALUES (1, 1, 'odd'), (2, 2, 'even')")
                rows = next(chunk.data for chunk in reader if chunk.data.num_rows)
                assert rows.drop_columns(["_position", "_changed_at"]).to_pylist() == [
                    {"id": 2, "v": 2, "_change": "insert"}
                ]
                policies.append(parse_policy(POLICY.replace("= 0", "= 1"), "policy"))
                with pytest.raises(pa.ArrowInvalid, match="may see has changed: go on from the last token"):
                    drain(reader)


def test_adbc_reads_changes_as_they_come(narrow: GatewayProcess) -> None:
    with open_connection(narrow.uri) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, _change FROM lance_changes('t', since => 1, follow => true) WHERE id > 500"
        )
        reader = cursor.fetch_record_batch()
        with open_connection(narrow.uri) as other:
            for key in (501, 502):
                fetch(other, f"INSERT INTO t VALUES ({key}, 0, 'x')")
                rows = next(batch for batch in reader if batch.num_rows)
                assert rows.to_pydict() == {"id": [key], "_change": ["insert"]}
        cursor.adbc_cancel()


def test_the_command_line_shows_changes_as_they_come(narrow: GatewayProcess) -> None:
    program = str(Path(sys.executable).with_name("lance-gateway"))
    text = "SELECT id, v FROM lance_changes('t', since => 1, follow => true) WHERE id > 600"
    command = [program, "sql", "--uri", narrow.uri, "--follow", text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        with open_connection(narrow.uri) as connection:
            for key in (601, 602):
                fetch(connection, f"INSERT INTO t VALUES ({key}, 5, 'x')")
                assert child.stdout is not None
                assert json.loads(child.stdout.readline()) == {"id": key, "v": 5}
        child.send_signal(signal.SIGINT)
        child.wait(30)


def test_a_follower_ends_at_once_when_the_gateway_stops(root: Path) -> None:
    gateway = GatewayProcess(root, "--http-port", "off", "--set", "server.drain=10m")
    try:
        with open_connection(gateway.uri) as connection:
            create_table(connection)
            fetch(connection, "INSERT INTO t VALUES (1, 1, 'x')")
        with following(gateway.uri) as reader:
            next(reader)
            stopping = threading.Thread(target=gateway.stop)
            stopping.start()
            with pytest.raises(flight.FlightUnavailableError, match="gateway is stopping: follow the table"):
                next(reader)
            stopping.join(60)
            assert not stopping.is_alive()
    finally:
        gateway.kill()


CALL = "lance_changes('t', since => 1, follow => true)"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT count(*) FROM {CALL}",
        f"SELECT max(id) AS m FROM {CALL} WHERE id > 1",
        f"SELECT id, count(*) FROM {CALL} GROUP BY id",
        f"SELECT DISTINCT id FROM {CALL}",
        f"SELECT id FROM {CALL} ORDER BY id",
        f"SELECT id FROM {CALL} LIMIT 3",
        f"SELECT c.id FROM {CALL} AS c JOIN t ON t.id = c.id",
        f"SELECT id FROM {CALL}, t",
        f"SELECT id FROM {CALL} WHERE id IN (SELECT id FROM t)",
        f"SELECT row_number() OVER () FROM {CALL}",
        f"SELECT id FROM {CALL} UNION ALL SELECT id FROM t",
        f"SELECT * FROM (SELECT id FROM {CALL})",
        f"WITH c AS (SELECT id FROM {CALL}) SELECT * FROM c",
        f"EXPLAIN SELECT id FROM {CALL}",
        f"SELECT id FROM {CALL} WHERE id = ?",
        f"INSERT INTO t SELECT id, 1, 'x' FROM {CALL}",
    ],
)
def test_what_needs_an_end_can_not_follow(narrow: GatewayProcess, text: str) -> None:
    with (
        flight.FlightClient(narrow.uri) as client,
        pytest.raises(
            pa.ArrowNotImplementedError, match="follow => true: a statement that follows a table has no end"
        ),
    ):
        rpc.info(client, sql.CommandStatementQuery(query=text))


def test_a_follower_has_no_second_state_and_no_transaction(narrow: GatewayProcess) -> None:
    text = "SELECT id FROM lance_changes('t', since => 1, until => 2, follow => true)"
    with flight.FlightClient(narrow.uri) as client:
        with pytest.raises(pa.ArrowInvalid, match="what follows a table has no until"):
            rpc.info(client, sql.CommandStatementQuery(query=text))
        with pytest.raises(pa.ArrowNotImplementedError, match="shows none"):
            rpc.info(
                client,
                sql.CommandStatementQuery(query=CALL.replace("'t'", "'plain'").join(("SELECT * FROM ", ""))),
            )
    with open_connection(narrow.uri) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        with pytest.raises(Exception, match="outside of the transaction"):
            cursor.execute(f"SELECT id FROM {CALL}")
        cursor.execute("ROLLBACK")
