"""`system.queries`, `system.sessions`, `system.settings`, and KILL QUERY, over the wire."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.cli.client import GatewayClient
from lance_gateway.gateway.config import Flag, load
from lance_gateway.gateway.observability.system_tables import SystemSettings
from lance_gateway.gateway.statements.statements import parse_kill
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import FullAccess
from lance_gateway.planner.engine import SessionSettings, first_word
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.observability.conftest import Watched
from tests.gateway.observability.people import guarded
from tests.support.judging.results import rows_of
from tests.support.processes.servers import open_connection

ENDLESS = "SELECT value FROM generate_series(1, 100000000000)"


def running(client: flight.FlightClient) -> flight.FlightStreamReader:
    """A statement that goes on until it is stopped."""
    reader = rpc.stream(client, sql.CommandStatementQuery(query=ENDLESS))
    reader.read_chunk()
    return reader


def read_on(reader: flight.FlightStreamReader) -> None:
    """Reads to the end; `read_all` of a stream that is cancelled interrupts the whole process."""
    for _ in reader:
        pass


def id_of(client: flight.FlightClient, statement: str = ENDLESS) -> str:
    rows = rpc.query(client, "SELECT query_id, statement FROM system.queries WHERE state = 'running'")
    (found,) = (row["query_id"] for row in rows.to_pylist() if row["statement"] == statement)
    return str(found)


def test_finished_and_running_statements_are_shown(client: flight.FlightClient) -> None:
    rpc.query(client, "SELECT id FROM orders WHERE id < 5")
    with pytest.raises(Exception, match="zero"):
        rpc.query(client, "SELECT 1 / (id - id) FROM orders")
    done, failed, own = rpc.query(client, "SELECT * FROM system.queries").to_pylist()
    assert (done["state"], done["rows"], done["bytes"]) == ("finished", 5, 40)
    assert (done["user"], done["statement"]) == ("anonymous", "SELECT id FROM orders WHERE id < 5")
    assert (done["tables"], done["regions_kept"], done["regions_pruned"]) == (["orders"], 0, 0)
    assert done["created_at"] <= done["started_at"] <= done["first_batch_at"] <= done["finished_at"]
    assert done["peer"].startswith("ipv4:127.0.0.1:")
    assert failed["state"] == "failed"
    assert "zero" in failed["error"]
    assert (own["state"], own["finished_at"], own["error"]) == ("running", None, None)
    (listed,) = rpc.query(client, "SHOW PROCESSLIST").to_pylist()
    assert (listed["user"], listed["statement"]) == ("anonymous", "SHOW PROCESSLIST")


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT nothing FROM orders", "nothing"),
        ("SELECT * FROM nowhere", "'nowhere' does not exist"),
        ("SELECT 1 +", "an expression"),
        ("INSERT INTO orders (nothing) VALUES (1)", "has no MemWAL"),
        ("FLUSH TABLE nowhere", "'nowhere' does not exist"),
    ],
)
def test_statements_that_cannot_be_planned_are_shown_with_their_errors(
    client: flight.FlightClient, statement: str, error: str
) -> None:
    with pytest.raises(Exception, match=error):
        rpc.query(client, statement)
    shown = rpc.query(client, "SELECT * FROM system.queries WHERE state = 'failed'").to_pylist()
    assert [(row["statement"], row["phase"], row["rows"]) for row in shown] == [(statement, "planning", 0)]
    assert error in shown[0]["error"]
    assert shown[0]["created_at"] <= shown[0]["finished_at"]


def test_a_load_is_shown_while_its_rows_come(watched: Watched) -> None:
    seen: list[tuple[str, str, int]] = []
    with GatewayClient(watched.uri) as client, open_connection(watched.uri) as connection:

        def send() -> Iterator[pa.RecordBatch]:
            for number in range(3):
                yield pa.record_batch({"n": [number]})
            while not any(done for *_, done in seen):
                jobs = client.query("SELECT kind, table_name, done FROM system.jobs").read_all()
                seen.extend(rows_of(jobs))

        rows = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), send())
        with connection.cursor() as cursor:
            cursor.adbc_ingest("loaded", rows, mode="create")
        assert {(kind, table) for kind, table, _ in seen} == {("load", "loaded")}
        assert client.query("SELECT * FROM system.jobs").read_all().num_rows == 0
        client.execute("DROP TABLE loaded")


def test_sessions_are_shown_and_join_with_queries(watched: Watched) -> None:
    with GatewayClient(watched.uri) as client:
        client.set_options({"consistency": "flushed"})
        sql_text = """
            SELECT s.user, s.consistency, count(*) AS statements
            FROM system.sessions s JOIN system.queries q ON q.session = s.session GROUP BY 1, 2
        """
        assert client.query(sql_text).read_all().to_pylist() == [
            {"user": "anonymous", "consistency": "flushed", "statements": 1}
        ]
        (session,) = client.query("SELECT * FROM system.sessions").read_all().to_pylist()
    assert len(session["session"]) == 8
    assert session["created_at"] <= session["last_used_at"]


def test_a_session_is_shown_with_every_option_that_it_may_choose(watched: Watched) -> None:
    chosen = {
        "query_timeout_ms": "5000",
        "durable_writes": "false",
        "endpoints": "3",
        "shortcuts": "direct_scans,kept_columns",
    }
    with GatewayClient(watched.uri) as client:
        client.set_options(chosen)
        (session,) = client.query("SELECT * FROM system.sessions").read_all().to_pylist()
    # There is one catalog, with one schema.
    options = {one.name for one in dataclasses.fields(SessionSettings)} - {"catalog", "schema"}
    assert options <= session.keys()
    assert {name: str(session[name]).lower() for name in chosen} == chosen


def test_settings_are_shown_to_administrators(client: flight.FlightClient) -> None:
    rows = rpc.query(client, "SELECT value, source FROM system.settings WHERE name = 'server.port'")
    assert rows.to_pylist() == [{"value": "31337", "source": "default"}]


def test_settings_are_shown_to_nobody_else() -> None:
    loaded = load([Flag("--root", "root", "/tables")])
    somebody = FullAccess("somebody", is_admin=False)
    assert SystemSettings(loaded).read(somebody).num_rows == 0
    assert SystemSettings(loaded).read(FullAccess("root")).num_rows > 40


def test_kill_stops_a_statement(watched: Watched, client: flight.FlightClient) -> None:
    with flight.FlightClient(watched.uri) as victim:
        reader = running(victim)
        query_id = id_of(client)
        assert rpc.query(client, f"KILL QUERY '{query_id}'").to_pylist() == [
            {"query_id": query_id, "killed": True}
        ]
        with pytest.raises(flight.FlightCancelledError, match="was killed by user 'anonymous'"):
            read_on(reader)
    with pytest.raises(KeyError, match=f"no query '{query_id}' waits or runs"):
        rpc.query(client, f"KILL QUERY '{query_id}'")


def test_a_prepared_kill_does_nothing_until_it_is_executed(
    watched: Watched, client: flight.FlightClient
) -> None:
    with flight.FlightClient(watched.uri) as victim:
        reader = running(victim)
        prepared = rpc.prepare(client, f"/* stop */ kill query '{id_of(client)}';")
        assert rpc.schema_of(prepared.dataset_schema).names == ["query_id", "killed"]
        command = sql.CommandPreparedStatementQuery(
            prepared_statement_handle=prepared.prepared_statement_handle
        )
        info = rpc.info(client, command)
        assert reader.read_chunk().data.num_rows > 0
        ticket = info.endpoints[0].ticket
        assert client.do_get(ticket).read_all().num_rows == 1
        with pytest.raises(flight.FlightCancelledError):
            read_on(reader)
        with pytest.raises(KeyError, match="a ticket is good for one DoGet"):
            client.do_get(ticket).read_all()


def test_kill_is_an_update_too(watched: Watched, client: flight.FlightClient) -> None:
    with flight.FlightClient(watched.uri) as victim:
        reader = running(victim)
        assert rpc.update(client, f"KILL QUERY '{id_of(client)}'") == 1
        with pytest.raises(flight.FlightCancelledError):
            read_on(reader)


@pytest.mark.parametrize("text", ["KILL", "KILL QUERY 7", "KILL QUERY ?", "KILL QUERY 'a' 'b'", "KILL 'a'"])
def test_a_kill_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="KILL is written KILL QUERY '<query_id>'"):
        parse_kill(text, lambda *_: True)


@pytest.mark.parametrize(
    "text", ["SELECT 'KILL QUERY'", "SELECT kill FROM t", "-- KILL QUERY 'a'\nSELECT 1", ""]
)
def test_other_statements_are_no_kill(text: str) -> None:
    assert first_word(text) != "kill"


@pytest.mark.timeout(20)
def test_any_number_of_comments_may_precede_a_statement() -> None:
    assert first_word("/**/" * 10_000 + "SELECT 1") == "select"
    text = "/**/ -- first\n" * 1_000 + "KILL QUERY 'ab'" + " /**/" * 1_000
    assert first_word(text) == "kill"
    assert parse_kill(text, lambda *_: True).query_id == "ab"


def test_everybody_sees_and_stops_their_own(lake: Path, tmp_path: Path) -> None:
    with guarded(lake, tmp_path) as connect, connect("alice") as alice, connect("bob") as bob:
        reader = running(alice)
        query_id = id_of(alice)
        for name in ("queries", "sessions"):
            seen = rpc.query(bob, f"SELECT DISTINCT user FROM system.{name}").to_pylist()
            assert seen in ([], [{"user": "bob"}])
        with pytest.raises(KeyError, match=f"no query '{query_id}' of user 'bob' waits or runs"):
            rpc.query(bob, f"KILL QUERY '{query_id}'")
        assert reader.read_chunk().data.num_rows > 0
        with connect("root") as root:
            users = rpc.query(root, "SELECT DISTINCT user FROM system.queries ORDER BY 1").to_pylist()
            assert users == [{"user": "alice"}, {"user": "bob"}, {"user": "root"}]
            assert rpc.query(root, f"KILL QUERY '{query_id}'").num_rows == 1
        with pytest.raises(flight.FlightCancelledError, match="was killed by user 'root'"):
            read_on(reader)
