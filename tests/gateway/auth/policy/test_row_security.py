"""Access policies over the wire: real users, a policy file, ADBC and bare Flight clients."""

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import pyarrow as pa
import pytest
from argon2 import PasswordHasher
from pyarrow import flight

from lance_gateway import gateway
from lance_gateway.gateway.auth.authenticator import Authenticator
from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.credentials import Throttle
from lance_gateway.gateway.auth.files import WatchedFile
from lance_gateway.gateway.auth.gateway_tokens import IssuedTokens
from lance_gateway.gateway.auth.policy import parse_policy
from lance_gateway.gateway.auth.users import Passwords, User, parse_users, write_user
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.protos import flight_pb2
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.conftest import serving
from tests.planner.access_lake import HIDDEN_WORDS, VISIBLE, write_lake
from tests.support.judging.principals import replace_policy
from tests.support.processes.writer_process import WriterProcess

PASSWORD = "correct horse"
QUICK = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
POLICY = """
[[roles.analyst.grants]]
tables = ["orders"]
rows = "tenant = 'a' AND right(note, 1) <> 'x'"
masks = { email = "left(email, 1) || '***'", code = "'0'" }
hidden = ["margin", "note"]

[[roles.analyst.grants]]
tables = ["items", "recent", "bonus"]

[roles.owner]
admin = true
grants = [{ tables = ["*"] }]
"""
ALL_ORDERS = 10

Connect = Callable[[str], Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Path:
    """A lake, users who may see all, some and none of it, and the policy that says so."""
    folder = tmp_path_factory.mktemp("secured")
    (folder / "lake").mkdir()
    write_lake(folder / "lake", shared_writers)
    for name, roles in (("olga", {"owner"}), ("anna", {"analyst"}), ("nils", set[str]())):
        write_user(folder / "users.toml", User(name, QUICK.hash(PASSWORD), (), frozenset(roles)))
    (folder / "policy.toml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[GatewayServer]:
    users = WatchedFile(folder / "users.toml", parse_users)
    authenticator = Authenticator(
        Throttle("address", 10, 60.0),
        passwords=Passwords(users, Throttle("user", 10, 60.0), hasher=QUICK),
        issued=IssuedTokens(users, 3600.0),
    )
    policy = WatchedFile(folder / "policy.toml", parse_policy, interval=0.0)
    security = Security(authenticator, lambda identity: policy().access(identity))
    with serving(folder / "lake", security=security) as server:
        yield server


@pytest.fixture(scope="module")
def connect(server: GatewayServer) -> Iterator[Connect]:
    """ADBC connections, one for each user."""
    with ExitStack() as stack:
        known: dict[str, Any] = {}

        def connected(user: str) -> Any:
            if user not in known:
                login = {"username": user, "password": PASSWORD}
                known[user] = stack.enter_context(
                    flightsql.connect(f"grpc://127.0.0.1:{server.port}", db_kwargs=login, autocommit=True)
                )
            return known[user]

        yield connected


@pytest.fixture
def ask(connect: Connect) -> Callable[..., list[tuple[Any, ...]]]:
    """Rows of a statement for a user, sorted."""

    def rows(user: str, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with connect(user).cursor() as cursor:
            cursor.execute(text, parameters or None)
            return sorted(cursor.fetchall(), key=repr)

    return rows


@pytest.fixture
def wire(server: GatewayServer) -> Iterator[Callable[[str], flight.FlightClient]]:
    """Bare Flight clients that send a user's token with each call."""
    with ExitStack() as stack:

        def client(user: str) -> flight.FlightClient:
            uri = f"grpc://127.0.0.1:{server.port}"
            with flight.FlightClient(uri) as anonymous:
                _, token = anonymous.authenticate_basic_token(user, PASSWORD)
            return stack.enter_context(flight.FlightClient(uri, middleware=[_Token(token.decode())]))

        yield client


class _Token(flight.ClientMiddlewareFactory):
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:
        return _SendsToken(self._token)


class _SendsToken(flight.ClientMiddleware):
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": self._token}


# A table is made after the caller's right to make it was checked, and followed after a step was prepared.
# Sessions have temporary tables of their own.
CHECKED_BEFORE = {
    ("ingest.py", "self._engine.catalog"),
    ("following.py", "self._engine.catalog"),
    ("server.py", "engine.catalog"),
}


@pytest.mark.slow
def test_no_module_forgets_for_whom_it_asks():
    """Who prepares without an access sees everything, and so does who asks the catalog itself."""
    for path in Path(gateway.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        # Whether tables are written at all is not a secret.
        no_secret = [one.value for one in nodes if isinstance(one, ast.Attribute) and one.attr == "writing"]
        for node in nodes:
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("engine"):
                if node in no_secret:
                    continue
                found = (path.name, ast.unparse(node))
                assert node.attr not in {"catalog", "execute"} or found in CHECKED_BEFORE, found
            if isinstance(node, ast.Call) and re.search(
                r"engine\.prepare(_plan|_statement)?$", ast.unparse(node.func)
            ):
                assert "access" in ast.unparse(node), (path.name, ast.unparse(node))


Ask = Callable[..., list[tuple[Any, ...]]]
Wire = Callable[[str], flight.FlightClient]
SEEN = [(number,) for number in VISIBLE]


@pytest.mark.slow
def test_each_user_sees_what_the_policy_says(ask: Ask):
    assert ask("anna", "SELECT id FROM orders") == SEEN
    assert ask("anna", "SELECT id, email, code FROM orders WHERE id = 9") == [(9, "u***", "0")]
    assert ask("anna", "SELECT count(*) FROM orders") == [(4,)]
    assert ask("anna", "SELECT id FROM recent") == SEEN
    assert ask("olga", "SELECT count(*), count(margin) FROM orders") == [(ALL_ORDERS, ALL_ORDERS)]
    assert ask("olga", "SELECT email FROM orders WHERE id = 7") == [("boss7@x.org",)]


@pytest.mark.slow
def test_parameters_reach_visible_rows_only(ask: Ask):
    for number in range(11):
        expected = [(number,)] if number in VISIBLE else []
        assert ask("anna", "SELECT id FROM orders WHERE id = ?", number) == expected
        assert ask("anna", "SELECT id FROM orders WHERE id = ? AND 1 / (amount - 5) < 9", number) == expected


@pytest.mark.parametrize("user", ["anna", "nils"])
def test_what_is_not_granted_is_not_found(connect: Connect, user: str):
    for text in ("SELECT * FROM payroll", "SELECT * FROM private", "DESCRIBE payroll"):
        with connect(user).cursor() as cursor, pytest.raises(adbc_driver_manager.Error) as raised:
            cursor.execute(text)
        assert raised.value.status_code == adbc_driver_manager.AdbcStatusCode.NOT_FOUND
        assert "wages" not in str(raised.value)


def test_a_user_without_grants_finds_nothing(connect: Connect, ask: Ask):
    assert ask("nils", "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'") == []
    assert ask("nils", "SELECT table_name FROM system.tables") == []
    assert ask("nils", "SELECT 1") == [(1,)]
    assert tables_of(connect("nils")) == {}


def test_metadata_shows_granted_tables_and_visible_columns(connect: Connect):
    assert tables_of(connect("anna")) == {
        "bonus": [],
        "items": ["order_id", "sku"],
        "orders": ["id", "tenant", "amount", "email", "code"],
        "recent": ["id", "tenant", "email", "amount"],
    }
    assert connect("anna").adbc_get_table_schema("orders").names == [
        "id",
        "tenant",
        "amount",
        "email",
        "code",
    ]
    assert "margin" in tables_of(connect("olga"))["orders"]
    assert "payroll" in tables_of(connect("olga"))


def tables_of(connection: Any) -> dict[str, list[str]]:
    """Tables and views of the schema `main`, with their columns."""
    (catalog,) = connection.adbc_get_objects(depth="all", db_schema_filter="main").read_all().to_pylist()
    return {
        table["table_name"]: [column["column_name"] for column in table["table_columns"] or ()]
        for schema in catalog["catalog_db_schemas"] or ()
        for table in schema["db_schema_tables"] or ()
    }


def test_primary_keys_are_those_of_visible_tables(wire: Wire):
    def keys(user: str, table: str) -> list[str]:
        found = rpc.fetch(wire(user), sql.CommandGetPrimaryKeys(table=table))
        return list(found.column("column_name").to_pylist())

    assert keys("anna", "orders") == ["id"]
    assert keys("nils", "orders") == []
    assert keys("anna", "payroll") == []


def test_a_ticket_is_no_right(wire: Wire):
    owner, analyst = wire("olga"), wire("anna")
    for text, seen in (("SELECT id FROM orders", VISIBLE), ("SELECT id FROM orders WHERE id = 7", [])):
        ticket = rpc.info(owner, sql.CommandStatementQuery(query=text)).endpoints[0].ticket
        assert sorted(analyst.do_get(ticket).read_all().column("id").to_pylist()) == seen
    for text in ("SELECT * FROM orders", "SELECT * FROM payroll", "SELECT margin FROM orders WHERE id = 9"):
        ticket = rpc.info(owner, sql.CommandStatementQuery(query=text)).endpoints[0].ticket
        with pytest.raises((flight.FlightError, pa.ArrowException, KeyError)) as raised:
            analyst.do_get(ticket).read_all()
        assert "wages" not in str(raised.value)


def test_a_prepared_statement_of_somebody_else_is_no_right(wire: Wire):
    owner, analyst = wire("olga"), wire("anna")
    prepared = rpc.prepare(owner, "SELECT id FROM orders WHERE id > $1")
    parameters = pa.table({"$1": pa.array([-1], pa.int64())})
    for handle in (
        rpc.bind(owner, prepared.prepared_statement_handle, parameters),
        rpc.bind(analyst, prepared.prepared_statement_handle, parameters),
    ):
        command = sql.CommandPreparedStatementQuery(prepared_statement_handle=handle)
        assert len(rpc.fetch(owner, command)) == ALL_ORDERS
        assert sorted(rpc.fetch(analyst, command).column("id").to_pylist()) == VISIBLE


def test_only_its_owner_and_administrators_stop_a_statement(wire: Wire):
    analyst, other, admin = wire("anna"), wire("nils"), wire("olga")
    endless = "SELECT a FROM generate_series(1, 1000000000000) AS t(a)"
    info = rpc.info(analyst, sql.CommandStatementQuery(query=endless))
    reader = analyst.do_get(info.endpoints[0].ticket)
    reader.read_chunk()
    request = flight_pb2.CancelFlightInfoRequest(info=flight_pb2.FlightInfo.FromString(info.serialize()))
    body = request.SerializeToString()
    with pytest.raises(KeyError, match="is not known"):
        rpc.act(other, "CancelFlightInfo", body)
    reader.read_chunk()
    (answer,) = rpc.act(admin, "CancelFlightInfo", body)
    status = flight_pb2.CancelFlightInfoResult.FromString(answer).status
    assert status == flight_pb2.CANCEL_STATUS_CANCELLING
    with pytest.raises(flight.FlightCancelledError, match="on request"):
        for _ in reader:
            pass


def test_a_restricted_table_is_not_read_in_parts(wire: Wire):
    """A part names its snapshot: whoever writes one could leave out the versions that hide a row."""
    owner, analyst = wire("olga"), wire("anna")
    in_parts = flight.FlightCallOptions(headers=[(b"x-lance-gateway-endpoints", b"4")])
    for text in ("SELECT id FROM orders", "SELECT id FROM recent"):
        command = rpc.descriptor(sql.CommandStatementQuery(query=text))
        (endpoint,) = analyst.get_flight_info(command, in_parts).endpoints
        assert sorted(analyst.do_get(endpoint.ticket).read_all().column("id").to_pylist()) == VISIBLE
        parts = [endpoint.ticket for endpoint in owner.get_flight_info(command, in_parts).endpoints]
        assert len(parts) > 1
        assert sum(owner.do_get(part).read_all().num_rows for part in parts) == ALL_ORDERS
        for part in parts:
            with pytest.raises((flight.FlightError, pa.ArrowException), match="is not read in parts"):
                analyst.do_get(part).read_all()


def test_a_changed_policy_holds_for_what_was_prepared_and_planned_before(folder: Path, wire: Wire):
    analyst = wire("anna")
    prepared = rpc.prepare(analyst, "SELECT id FROM orders")
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=prepared.prepared_statement_handle)
    ticket = rpc.info(analyst, sql.CommandStatementQuery(query="SELECT id FROM orders")).endpoints[0].ticket
    assert len(rpc.fetch(analyst, command)) == 4
    policy = folder / "policy.toml"
    try:
        replace_policy(policy, POLICY.replace("tenant = 'a'", "id = 9"))
        assert rpc.fetch(analyst, command).column("id").to_pylist() == [9]
        assert analyst.do_get(ticket).read_all().column("id").to_pylist() == [9]
        replace_policy(policy, POLICY.replace('["orders"]', '["absent"]'))
        with pytest.raises(KeyError, match="Table 'orders' does not exist"):
            rpc.fetch(analyst, command)
    finally:
        replace_policy(policy, POLICY)
    assert len(rpc.fetch(analyst, command)) == 4


@pytest.mark.parametrize(
    "text",
    [
        "EXPLAIN ANALYZE VERBOSE SELECT * FROM orders WHERE 1 / (amount - 5) < 9",
        "EXPLAIN ANALYZE FORMAT JSON SELECT * FROM orders WHERE 1 / (amount - 5) < 9",
        "SELECT * FROM system.tables",
        "SELECT * FROM system.regions",
        "SELECT * FROM system.generations",
        "SELECT * FROM information_schema.columns",
        "DESCRIBE orders",
    ],
)
def test_descriptions_say_nothing_of_what_is_hidden(ask: Ask, text: str):
    shown = repr(ask("anna", text)).lower()
    for word in (*HIDDEN_WORDS, "private"):
        assert word not in shown


@pytest.mark.slow
def test_system_tables_tell_users_of_themselves(ask: Ask):
    ask("olga", "SELECT email AS letters FROM orders WHERE id = 7")
    ask("anna", "SELECT id AS numbers FROM orders WHERE tenant = 'b'")
    texts = [text for (text,) in ask("anna", "SELECT statement FROM system.queries")]
    assert any("AS numbers" in text for text in texts)
    assert not any("AS letters" in text for text in texts)
    assert any("AS numbers" in text for (text,) in ask("olga", "SELECT statement FROM system.queries"))
    regions = "SELECT DISTINCT regions_kept + regions_pruned FROM system.queries WHERE tables[1] = 'orders'"
    assert ask("anna", f"{regions} AND statement LIKE '%AS numbers%'") == [(0,)]
    assert ask("anna", "SELECT base_rows, regions FROM system.tables WHERE table_name = 'orders'") == [
        (None, None)
    ]
    assert ask("olga", "SELECT regions FROM system.tables WHERE table_name = 'orders'") == [(2,)]
    assert ask("anna", "SELECT * FROM system.regions WHERE table_name = 'orders'") == []
    assert ask("anna", "SELECT * FROM system.generations WHERE table_name = 'orders'") == []


def test_a_transaction_shows_no_more_and_is_no_other_users(
    wire: Callable[[str], flight.FlightClient],
) -> None:
    anna, olga = wire("anna"), wire("olga")
    whole = rpc.query(anna, "SELECT * FROM orders ORDER BY 1")
    transaction = rpc.begin(anna)
    command = sql.CommandStatementQuery(query="SELECT * FROM orders ORDER BY 1", transaction_id=transaction)
    for _ in range(2):
        assert rpc.fetch(anna, command) == whole
    with pytest.raises(KeyError, match="is not known"):
        rpc.fetch(olga, command)
    with pytest.raises(KeyError, match="is not known"):
        rpc.end(olga, transaction, rpc.COMMIT)
    change = sql.CommandStatementUpdate(query="DELETE FROM orders", transaction_id=transaction)
    with pytest.raises(flight.FlightUnauthorizedError):
        rpc.put(anna, change)
    rpc.end(anna, transaction, rpc.ROLLBACK)
