"""Statements under way: how many run, how long, how much they return, and how they are stopped."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.execution.query import Query, QueryState
from lance_gateway.gateway.protocol.errors import QueryCancelledError
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving

# Aggregates over more rows than a machine counts in a test's time: no batch comes before they are stopped.
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(a) WHERE a % 7 = 3"
ENDLESS_IN_TWO_STEPS = """SELECT sum(n) FROM (
    SELECT a % 1000 AS k, count(DISTINCT a) AS n FROM generate_series(1, 1000000000000) AS t(a) GROUP BY 1
)"""
WORK = pytest.mark.parametrize("text", [ENDLESS, pytest.param(ENDLESS_IN_TWO_STEPS, marks=pytest.mark.slow)])
# Has a first batch at once, and never a last one.
TRICKLE = "SELECT a FROM generate_series(1, 1000000000000) AS t(a)"


class Observer:
    """Tells when statements start and end."""

    def __init__(self) -> None:
        self.started = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self.list_finished: list[Query] = []

    def on_started(self, query: Query) -> None:
        self.started.release()

    def on_finished(self, query: Query) -> None:
        self.list_finished.append(query)
        self.ended.release()

    def await_start(self) -> None:
        assert self.started.acquire(timeout=120)

    def await_end(self) -> Query:
        assert self.ended.acquire(timeout=120)
        return self.list_finished[-1]


@contextmanager
def observed(root: Path, **limits: Any) -> Iterator[tuple[GatewayServer, flight.FlightClient, Observer]]:
    observer = Observer()
    with (
        serving(root, limits=LimitsSection(**limits), observers=(observer,)) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        yield server, client, observer


class Background:
    """A query that is read in a thread, and how it ended."""

    def __init__(self, client: flight.FlightClient, text: str) -> None:
        self._client = client
        self.info = rpc.info(client, sql.CommandStatementQuery(query=text))
        self.error: Exception | None = None
        self.rows = -1
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            # Chunk by chunk: pyarrow's read_all turns CANCELLED into an interrupt of the main thread.
            reader = self._client.do_get(self.info.endpoints[0].ticket)
            self.rows = sum(chunk.data.num_rows for chunk in reader)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.error = error

    def ended(self) -> Exception | None:
        self._thread.join(120)
        assert not self._thread.is_alive()
        return self.error


def test_a_statement_is_remembered_with_what_it_did(lake: Path) -> None:
    before = datetime.now(UTC)
    with observed(lake) as (server, client, observer):
        rpc.query(client, "SELECT id, amount FROM orders WHERE id < 10")
        query = observer.await_end()
        assert server.queries.list_finished() == (query,)
        assert server.queries.list_active() == ()
    assert query.sql == "SELECT id, amount FROM orders WHERE id < 10"
    assert (query.state, query.error, query.user) == (QueryState.FINISHED, None, "anonymous")
    assert (query.rows, query.bytes > 0) == (10, True)
    times = [before, query.created_at, query.started_at, query.first_batch_at, query.finished_at]
    assert times == sorted(one for one in times if one is not None)
    assert [read.table for read in query.reads] == ["orders"]


def test_of_a_long_statement_the_beginning_is_remembered(lake: Path) -> None:
    text = f"SELECT count(*) FROM orders -- {'x' * 100_000}"
    with observed(lake) as (_, client, observer):
        rpc.query(client, text)
        assert observer.await_end().sql == text[:65_536]


def test_a_statement_that_fails_is_remembered_with_its_error(lake: Path) -> None:
    with observed(lake) as (_, client, observer):
        with pytest.raises(ValueError, match="Divide by zero"):
            rpc.query(client, "SELECT 1 / (id - id) FROM orders")
        query = observer.await_end()
    assert query.state is QueryState.FAILED
    assert query.error is not None
    assert "Divide by zero" in query.error


@WORK
def test_a_statement_that_is_cancelled_ends(lake: Path, text: str) -> None:
    with observed(lake) as (server, client, observer):
        running = Background(client, text)
        observer.await_start()
        (query,) = server.queries.list_active()
        assert server.queries.cancel(query.statement_id, QueryCancelledError("the operator stopped it"))
        error = running.ended()
        assert isinstance(error, flight.FlightCancelledError)
        assert "the operator stopped it" in str(error)
        assert observer.await_end().state is QueryState.CANCELLED
        assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


@pytest.mark.slow
@WORK
def test_a_statement_ends_when_its_client_goes_away_before_the_first_batch(lake: Path, text: str) -> None:
    with observed(lake) as (_, client, observer):
        info = rpc.info(client, sql.CommandStatementQuery(query=text))
        reader = client.do_get(info.endpoints[0].ticket)
        observer.await_start()
        reader.cancel()
        query = observer.await_end()
        assert query.state is QueryState.CANCELLED
        assert "went away" in str(query.error)


def test_a_statement_ends_when_its_client_leaves_in_the_middle_of_the_result(lake: Path) -> None:
    with observed(lake) as (_, client, observer):
        reader = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        assert reader.read_chunk().data.num_rows > 0
        reader.cancel()
        assert observer.await_end().state is QueryState.CANCELLED


@pytest.mark.slow
@pytest.mark.parametrize("text", [ENDLESS, TRICKLE])
def test_a_statement_ends_when_its_time_is_up(lake: Path, text: str) -> None:
    with observed(lake, query_timeout=0.5) as (_, client, observer):
        with pytest.raises(flight.FlightTimedOutError, match="ran longer than it may"):
            rpc.query(client, text)
        assert observer.await_end().state is QueryState.FAILED


@pytest.mark.slow
def test_a_session_may_want_less_time_than_the_server_allows(lake: Path) -> None:
    option = flight_pb2.SessionOptionValue(int64_value=200)
    request = flight_pb2.SetSessionOptionsRequest(session_options={"query_timeout_ms": option})
    with observed(lake, query_timeout=1000) as (server, client, _):
        rpc.act(client, "SetSessionOptions", request.SerializeToString())
        ((session_id, _, _),) = server.sessions.list_all()
        call = flight.FlightCallOptions(
            headers=[(b"cookie", f"arrow_flight_session_id={session_id}".encode())]
        )
        command = rpc.descriptor(sql.CommandStatementQuery(query=ENDLESS))
        ticket = client.get_flight_info(command, call).endpoints[0].ticket
        with pytest.raises(flight.FlightTimedOutError, match="ran longer than it may"):
            client.do_get(ticket, call).read_all()


def test_statements_beyond_the_number_that_may_run_wait_for_their_turn(lake: Path) -> None:
    with observed(lake, max_concurrent_queries=1) as (server, client, observer):
        first = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        first.read_chunk()
        observer.await_start()
        second = Background(client, "SELECT 1")
        while len(server.queries.list_active()) < 2:
            threading.Event().wait(0.01)
        assert [query.state for query in server.queries.list_active()] == [
            QueryState.RUNNING,
            QueryState.QUEUED,
        ]
        first.cancel()
        assert second.ended() is None
        assert second.rows == 1


def test_a_statement_that_waits_too_long_is_refused(lake: Path) -> None:
    limits = {"max_concurrent_queries": 1, "queue_timeout": 0.2}
    with observed(lake, **limits) as (_, client, _):
        first = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        first.read_chunk()
        with pytest.raises(flight.FlightUnavailableError, match=r"waited 0\.2 s.*try again"):
            rpc.query(client, "SELECT 1")
        first.cancel()


def test_a_statement_that_finds_the_queue_full_is_refused_at_once(lake: Path) -> None:
    with observed(lake, max_concurrent_queries=1, max_queued_queries=0) as (_, client, _):
        first = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        first.read_chunk()
        with pytest.raises(flight.FlightUnavailableError, match=r"1 statements run and 0 wait.*try again"):
            rpc.query(client, "SELECT 1")
        first.cancel()


def test_a_statement_that_is_cancelled_while_it_waits_never_runs(lake: Path) -> None:
    with observed(lake, max_concurrent_queries=1) as (server, client, observer):
        first = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        first.read_chunk()
        observer.await_start()
        second = Background(client, "SELECT 1")
        while len(server.queries.list_active()) < 2:
            threading.Event().wait(0.01)
        waiting = server.queries.list_active()[1]
        server.queries.cancel(waiting.id, QueryCancelledError("changed my mind"))
        assert isinstance(second.ended(), flight.FlightCancelledError)
        assert waiting.started_at is None
        first.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{"query_timeout": 0.5}, {}])
def test_a_client_that_does_not_read_holds_no_slot(
    lake: Path, limits: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "lance_gateway.gateway.execution.running_queries._STALL_SECONDS", 0.5 if not limits else 1000.0
    )
    with observed(lake, max_concurrent_queries=1, **limits) as (server, client, _):
        stalled = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        stalled.read_chunk()
        assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]
        assert len(server.queries.list_active()) == 1
        stalled.cancel()


def test_what_the_others_do_is_seen_without_waiting_for_them(lake: Path) -> None:
    with observed(lake, max_concurrent_queries=1, max_queued_queries=0) as (_, client, _observer):
        first = rpc.stream(client, sql.CommandStatementQuery(query=TRICKLE))
        first.read_chunk()
        found = rpc.query(client, "SELECT statement FROM system.queries WHERE state = 'running'")
        assert TRICKLE in found.column("statement").to_pylist()
        first.cancel()


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"max_result_rows": 99}, "more than 99 rows"), ({"max_result_bytes": 799}, "more than 799 bytes")],
)
def test_a_result_larger_than_it_may_be_is_refused(lake: Path, limits: dict[str, int], message: str) -> None:
    with observed(lake, **limits) as (_, client, observer):
        assert rpc.query(client, "SELECT id FROM orders WHERE id < 99").num_rows == 99
        observer.await_end()
        with pytest.raises(flight.FlightInternalError, match=message):
            rpc.query(client, "SELECT id FROM orders WHERE id < 100")
        assert observer.await_end().state is QueryState.FAILED


@pytest.mark.slow
def test_a_sort_larger_than_its_memory_spills_to_disk(lake: Path) -> None:
    text = "SELECT a FROM generate_series(1, 2000000) AS t(a) ORDER BY a * 7919 % 1000003, a"
    engine_options = {"memory_bytes": 16 << 20}
    with (
        serving(lake, engine_options) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        assert rpc.query(client, text).num_rows == 2_000_000


@pytest.mark.parametrize(
    "text",
    [
        "SELECT array_agg(repeat('x', 100) || a) FROM generate_series(1, 1000000) AS t(a)",
        """SELECT max(a) FROM generate_series(1, 2000000) AS t(a)
        JOIN generate_series(1, 2000000) AS u(a) USING (a)""",
        # DataFusion advises an option of its own here, which neither clients nor operators have.
        """SELECT a, lag(s) OVER (PARTITION BY a % 7 ORDER BY s)
        FROM (SELECT a, repeat('x', 100) || a AS s FROM generate_series(1, 1000000) AS t(a))""",
    ],
)
def test_a_statement_that_needs_more_memory_than_it_may_have_is_told_which(lake: Path, text: str) -> None:
    with (
        serving(lake, {"memory_bytes": 16 << 20}) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        said = (
            r"needs more than the 16\.0 MB of memory that one statement may hold .* raise query_memory_bytes"
        )
        with pytest.raises(flight.FlightInternalError, match=said) as caught:
            rpc.query(client, text)
        assert "datafusion" not in str(caught.value)
        assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_batch_is_counted_as_it_is_sent(lake: Path) -> None:
    with observed(lake, max_batch_bytes=1024) as (_, client, observer):
        found = rpc.query(client, "SELECT id FROM orders")
        assert found.num_rows == 1000
        assert max(batch.nbytes for batch in found.to_batches()) <= 1024
        assert observer.await_end().bytes == pa.table({"id": range(1000)}).nbytes
