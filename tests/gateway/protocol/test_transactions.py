"""Transactions on the wire: their actions, the messages that name them, and the bounds of the server."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.open_uploads import Peer, list_connected_peers
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.statements.open_transactions import OpenTransactions
from lance_gateway.memwal.errors import NotFoundError, PreconditionError, ResourcesExhaustedError
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.gateway.rpc import COMMIT, ROLLBACK, begin, end
from tests.support.lake.written import make_notes

LIMITS = LimitsSection(max_transaction_bytes=4000, max_open_transaction_bytes=6000)
UNKNOWN = b"\0" * 24
_NAMES = (f"notes{number}" for number in count(1))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("transactions")


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[GatewayServer]:
    with serving(root, limits=LIMITS) as server:
        yield server


@pytest.fixture
def client(server: GatewayServer) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        yield client


@pytest.fixture
def notes(root: Path) -> str:
    """A table with one row."""
    return make_notes(root, next(_NAMES))


def insert(client: flight.FlightClient, table: str, rows: str, transaction: bytes = b"") -> int:
    text = f"INSERT INTO {table} (id, text) {rows}"
    return rpc.put(client, sql.CommandStatementUpdate(query=text, transaction_id=transaction))


def ids(client: flight.FlightClient, table: str, transaction: bytes = b"") -> list[Any]:
    command = sql.CommandStatementQuery(
        query=f"SELECT id FROM {table} ORDER BY id", transaction_id=transaction
    )
    return rpc.fetch(client, command).column("id").to_pylist()


def test_every_message_that_runs_a_statement_joins_the_transaction_that_it_names(
    client: flight.FlightClient, notes: str
) -> None:
    one = begin(client)
    insert(client, notes, "VALUES (1, 'a')", one)
    rpc.info(
        client, sql.CommandStatementQuery(query=f"INSERT INTO {notes} (id) VALUES (2)", transaction_id=one)
    )
    request = sql.ActionCreatePreparedStatementRequest(
        query=f"INSERT INTO {notes} (id) VALUES ($1)", transaction_id=one
    )
    (body,) = rpc.act(client, "CreatePreparedStatement", rpc.packed(request))
    handle = rpc.unpacked(sql.ActionCreatePreparedStatementResult, body).prepared_statement_handle
    update = sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)
    assert rpc.put(client, update, pa.table({"$1": [3]})) == 1
    options = sql.CommandStatementIngest.TableDefinitionOptions(
        if_not_exist=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_NOT_EXIST_OPTION_FAIL,
        if_exists=sql.CommandStatementIngest.TableDefinitionOptions.TABLE_EXISTS_OPTION_APPEND,
    )
    ingest = sql.CommandStatementIngest(table=notes, table_definition_options=options, transaction_id=one)
    assert rpc.put(client, ingest, pa.table({"id": [4, 5]})) == 2
    assert ids(client, notes, one) == [1, 2, 3, 4, 5]
    assert ids(client, notes) == []
    end(client, one, COMMIT)
    assert ids(client, notes) == [1, 2, 3, 4, 5]


def test_a_ticket_is_redeemed_in_its_transaction_and_not_behind_it(
    client: flight.FlightClient, notes: str
) -> None:
    one = begin(client)
    insert(client, notes, "VALUES (1, 'a')", one)
    command = sql.CommandStatementQuery(query=f"SELECT id FROM {notes}", transaction_id=one)
    first, second = rpc.info(client, command), rpc.info(client, command)
    assert client.do_get(first.endpoints[0].ticket).read_all().num_rows == 1
    end(client, one, COMMIT)
    with pytest.raises(KeyError, match=r"transaction .* is not known"):
        client.do_get(second.endpoints[0].ticket).read_all()


def test_a_stream_goes_on_behind_its_transaction(client: flight.FlightClient, notes: str) -> None:
    insert(client, notes, "SELECT value, 'x' FROM generate_series(1, 20000)")
    one = begin(client)
    stream = rpc.stream(client, sql.CommandStatementQuery(query=f"SELECT * FROM {notes}", transaction_id=one))
    first = stream.read_chunk().data.num_rows
    end(client, one, ROLLBACK)
    assert first + stream.read_all().num_rows == 20_000


@pytest.mark.parametrize("transaction", [UNKNOWN, b"t"])
def test_an_unknown_transaction_can_be_rolled_back_and_nothing_else(
    client: flight.FlightClient, notes: str, transaction: bytes
) -> None:
    end(client, transaction, ROLLBACK)
    with pytest.raises(KeyError, match=r"is not known.*begin another one"):
        end(client, transaction, COMMIT)
    with pytest.raises(KeyError, match=r"is not known.*begin another one"):
        insert(client, notes, "VALUES (1, 'a')", transaction)
    with pytest.raises(KeyError, match=r"is not known.*begin another one"):
        ids(client, notes, transaction)
    assert ids(client, notes) == []


def test_a_transaction_is_committed_once(client: flight.FlightClient, notes: str) -> None:
    one = begin(client)
    insert(client, notes, "VALUES (1, 'a')", one)
    end(client, one, COMMIT)
    with pytest.raises(KeyError, match="is not known: it was committed"):
        end(client, one, COMMIT)


def test_an_end_says_which(client: flight.FlightClient) -> None:
    with pytest.raises(pa.ArrowInvalid, match="choose commit or rollback"):
        end(client, begin(client), 0)


@pytest.mark.parametrize("name", ["BeginSavepoint", "EndSavepoint"])
def test_there_are_no_savepoints(client: flight.FlightClient, name: str) -> None:
    request = (
        sql.ActionBeginSavepointRequest() if name.startswith("Begin") else sql.ActionEndSavepointRequest()
    )
    with pytest.raises(NotImplementedError, match="no savepoints"):
        rpc.act(client, name, rpc.packed(request))


def test_results_are_not_divided_in_a_transaction(client: flight.FlightClient, notes: str) -> None:
    insert(client, notes, "SELECT value, 'x' FROM generate_series(1, 5)")
    parts = flight.FlightCallOptions(headers=[(b"x-lance-gateway-endpoints", b"4")])
    command = sql.CommandStatementQuery(query=f"SELECT * FROM {notes}", transaction_id=begin(client))
    assert len(client.get_flight_info(rpc.descriptor(command), parts).endpoints) == 1


def test_the_server_says_what_it_has(client: flight.FlightClient) -> None:
    told = {
        sql.FLIGHT_SQL_SERVER_TRANSACTION: 1,
        sql.FLIGHT_SQL_SERVER_TRANSACTION_TIMEOUT: 600_000,
        sql.FLIGHT_SQL_SERVER_INGEST_TRANSACTIONS_SUPPORTED: True,
        sql.SQL_DEFAULT_TRANSACTION_ISOLATION: 3,
        sql.SQL_TRANSACTIONS_SUPPORTED: True,
        sql.SQL_SUPPORTED_TRANSACTIONS_ISOLATION_LEVELS: 0b1111,
        sql.SQL_DATA_DEFINITION_CAUSES_TRANSACTION_COMMIT: True,
        sql.SQL_SAVEPOINTS_SUPPORTED: False,
    }
    table = rpc.fetch(client, sql.CommandGetSqlInfo(info=list(told)))
    assert dict(zip(*table.to_pydict().values(), strict=True)) == told


def test_a_transaction_that_is_too_large_refuses_the_statement_and_keeps_the_others(
    client: flight.FlightClient, notes: str
) -> None:
    one, other = begin(client), begin(client)
    insert(client, notes, "VALUES (1, 'a')", one)
    with pytest.raises(pa.ArrowException, match=r"4000 are allowed.* max_transaction_bytes"):
        insert(client, notes, f"VALUES (2, '{'x' * 3000}'), (3, '{'x' * 3000}')", one)
    assert ids(client, notes, one) == [1]
    insert(client, notes, f"VALUES (2, '{'x' * 3500}')", one)
    with pytest.raises(pa.ArrowException, match=r"6000 are allowed.* max_open_transaction_bytes"):
        insert(client, notes, f"VALUES (4, '{'x' * 3500}')", other)
    end(client, one, COMMIT)
    insert(client, notes, f"VALUES (4, '{'x' * 3500}')", other)
    end(client, other, COMMIT)
    assert ids(client, notes) == [1, 2, 4]


def test_connections_are_listed_while_they_are_open(server: GatewayServer) -> None:
    before = list_connected_peers(server.port)
    assert before is not None
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        rpc.query(client, "SELECT 1")
        during = list_connected_peers(server.port)
    assert during is not None
    assert len(during - before) == 1


class TestOpenTransactions:
    """Those of a server with a clock of the test's own."""

    busy: tuple[Any, ...] = ()
    connected: tuple[Peer, ...] = (("127.0.0.1", 1), ("127.0.0.1", 2))

    @pytest.fixture
    def now(self) -> list[float]:
        return [0.0]

    @pytest.fixture
    def transactions(self, server: GatewayServer, now: list[float]) -> Iterator[OpenTransactions]:
        limits = LimitsSection(max_transactions=3, max_user_transactions=2, transaction_idle=60)
        opened = OpenTransactions(
            server.transactions._engine,
            limits,
            lambda one: one in self.busy,
            lambda: self.connected,
            lambda: now[0],
        )
        yield opened
        opened.close()

    def read(self, server: GatewayServer, transaction: Any, notes: str) -> None:
        transaction.table(server.transactions._engine.catalog.table(notes))

    def test_one_that_is_idle_for_too_long_ends_and_says_so(
        self, server: GatewayServer, transactions: OpenTransactions, now: list[float], notes: str
    ) -> None:
        _, used = transactions.begin("ann", "ipv4:127.0.0.1:1", session_id="s")
        fresh_id, fresh = transactions.begin("ann", "peer 2")
        self.read(server, used, notes)
        now[0] = 61.0
        transactions.end_idle()
        assert transactions.find(fresh_id, "ann", "peer 2") == (fresh_id, fresh)
        assert transactions.find_of_session("s", "ann", "ipv4:127.0.0.1:1") is used
        with pytest.raises(PreconditionError, match="idle for more than 60 s, and nothing of it was written"):
            self.read(server, used, notes)

    def test_one_whose_client_is_gone_ends_before(
        self, server: GatewayServer, transactions: OpenTransactions, now: list[float], notes: str
    ) -> None:
        gone_id, gone = transactions.begin("ann", "ipv4:127.0.0.1:3")
        back_id, back = transactions.begin("ann", "ipv4:127.0.0.1:4")
        for one in (gone, back):
            self.read(server, one, notes)
        transactions.find(back_id, "ann", "ipv4:127.0.0.1:2")
        now[0] = 31.0
        transactions.end_idle()
        self.read(server, back, notes)
        assert transactions.find(gone_id, "ann", "ipv4:127.0.0.1:1") == (gone_id, gone)
        with pytest.raises(PreconditionError, match="its client's connection ended"):
            self.read(server, gone, notes)

    def test_one_whose_statement_runs_is_not_idle(
        self, server: GatewayServer, transactions: OpenTransactions, now: list[float], notes: str
    ) -> None:
        _, used = transactions.begin("ann", "peer")
        self.read(server, used, notes)
        self.busy = (used,)
        now[0] = 61.0
        transactions.end_idle()
        self.read(server, used, notes)

    def test_they_are_bounded_but_those_that_did_nothing_make_room(
        self, server: GatewayServer, transactions: OpenTransactions, notes: str
    ) -> None:
        _, first = transactions.begin("ann", "1")
        spare, _ = transactions.begin("ann", "2")
        self.read(server, first, notes)
        _, third = transactions.begin("ann", "3")
        self.read(server, third, notes)
        with pytest.raises(NotFoundError):
            transactions.find(spare, "ann", "2")
        with pytest.raises(ResourcesExhaustedError, match=r"2 of them of user 'ann'.*max_user_transactions"):
            transactions.begin("ann", "4")
        _, other = transactions.begin("bob", "5")
        self.read(server, other, notes)
        with pytest.raises(ResourcesExhaustedError, match="3 transactions are open"):
            transactions.begin("cid", "6")

    def test_nobody_uses_that_of_another_user(self, transactions: OpenTransactions) -> None:
        one, _ = transactions.begin("ann", "peer", session_id="s")
        with pytest.raises(NotFoundError):
            transactions.find(one, "bob", "peer")
        assert transactions.find_of_session("s", "bob", "peer") is None

    def test_a_session_that_is_closed_rolls_its_transaction_back(
        self, server: GatewayServer, transactions: OpenTransactions, notes: str
    ) -> None:
        _, one = transactions.begin("ann", "peer", session_id="s")
        transactions.end_session("s")
        assert transactions.find_of_session("s", "ann", "peer") is None
        with pytest.raises(PreconditionError, match="its session was closed"):
            self.read(server, one, notes)

    def test_what_was_prepared_in_one_is_executed_in_the_next_of_its_connection(
        self, transactions: OpenTransactions
    ) -> None:
        first, _ = transactions.begin("ann", "peer")
        transactions.forget(first, "peer")
        other, _ = transactions.begin("ann", "another peer")
        with pytest.raises(NotFoundError):
            transactions.find(first, "ann", "peer", follows=True)
        second, transaction = transactions.begin("ann", "peer")
        assert transactions.find(first, "ann", "peer", follows=True) == (second, transaction)
        with pytest.raises(NotFoundError):
            transactions.find(first, "ann", "peer")
        assert other[:16] != second[:16]

    def test_clients_that_share_a_connection_get_no_transaction_of_one_another(
        self, transactions: OpenTransactions
    ) -> None:
        first, _ = transactions.begin("ann", "proxy")
        transactions.begin("ann", "proxy")
        transactions.forget(first, "proxy")
        transactions.begin("ann", "proxy")
        with pytest.raises(NotFoundError):
            transactions.find(first, "ann", "peer", follows=True)
