"""Attempts of a user with half of the rights to have the other half, on a server in a process of its own.

rita sees `orders` in part. `mirror` is an ordinary table that has just what she sees of it, and that she sees
in full: whatever she tries, the two must answer alike, errors included, over Flight SQL as through the HTTP
API. Hidden rows are poisoned: arithmetic on them overflows, their texts are no numbers, they are nearest to
every query vector, rare words are theirs.
"""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import httpx
import lance
import pyarrow as pa
import pytest
from argon2 import PasswordHasher
from pyarrow import flight

from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own
from tests.gateway import rpc
from tests.gateway.attempts import FOREIGN, NAMED, OTHER_DOORS, READS, WRITES
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

# A server of its own, and each attempt is made twice.
pytestmark = pytest.mark.slow

PASSWORD = "correct horse"
POLICY = """
[[roles.reader.grants]]
tables = ["orders"]
rows = "tenant = 'a' AND right(note, 1) <> 'x'"
masks = { email = "left(email, 1) || '***'", pay = "0" }
hidden = ["note", "margin"]

[[roles.reader.grants]]
tables = ["mirror", "window", "finder"]

[[roles.reader.grants]]
tables = ["mine_*"]
write = true

[roles.owner]
grants = [{ tables = ["*"], write = true }]

[users]
rita = ["reader"]
olga = ["owner"]
"""
CANARIES = re.compile(
    r"canary|(?<![\d.])4711(?!\d)|922337203685477580[0-9]|margin|right\(note|root:", re.IGNORECASE
)
"""What only hidden rows, hidden columns, masked values, the policy and other files hold."""
SEEN = pa.schema(
    [
        key_field("id", pa.int64()),
        pa.field("tenant", pa.string()),
        pa.field("amount", pa.int32()),
        pa.field("big", pa.int64()),
        pa.field("code", pa.string()),
        pa.field("email", pa.string()),
        pa.field("pay", pa.int32()),
        pa.field("body", pa.string()),
        pa.field("vec", pa.list_(pa.float32(), 2)),
    ]
)
ORDERS = SEEN.append(pa.field("note", pa.string())).append(pa.field("margin", pa.float64()))


def order(number: int, *, hidden: str = "") -> dict[str, Any]:
    """A row; `hidden` says by which half of the row filter."""
    return {
        "id": number,
        "tenant": "b" if hidden == "tenant" else "a",
        "amount": 5 if hidden else 10 + number,
        "big": 9223372036854775800 if hidden else number,
        "code": f"canary {number}" if hidden else "7",
        "email": f"{'canary' if hidden else 'user'}{number}@x.org",
        "pay": 4711,
        "body": "canary payroll lake" if hidden else "lake " + "storm " * (number + 1),
        "vec": [0.5, 0.5] if hidden else [1.0 + number, 2.0],
        "note": "x" if hidden == "note" else "ok",
        "margin": 4711.5,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Path:
    """The tables, the users and the policy."""
    folder = tmp_path_factory.mktemp("bypassed")
    lake = folder / "lake"
    lake.mkdir()
    base = [order(number) for number in range(8)]
    base += [order(number, hidden="tenant" if number % 2 else "note") for number in range(8, 16)]
    rows = pa.Table.from_pylist(base, schema=ORDERS)
    table = LsmTable.create(lake, "orders", rows, bucketed("id", 2, recorded=True), shared_writers)
    index(table.path)
    # In a generation and in the log: two rows go out of sight, two come into it, one goes altogether.
    table.put([order(0, hidden="tenant"), order(8)])
    table.close_writers()
    table.put([order(1, hidden="note"), order(9)])
    table.delete([{"id": 2}])
    seen = [{**order(number), "email": "u***", "pay": 0} for number in (3, 4, 5, 6, 7, 8, 9)]
    lance.write_dataset(pa.Table.from_pylist(seen, schema=SEEN), lake / "mirror.lance")
    index(lake / "mirror.lance")
    lance.write_dataset(rows, lake / "secret.lance").initialize_mem_wal()
    (lake / "window.view.sql").write_text("SELECT * FROM secret")
    (lake / "finder.view.sql").write_text("SELECT id, email FROM lance_fts('secret', 'body', 'lake', k => 9)")
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    for name in ("rita", "olga"):
        write_user(folder / "users.toml", User(name, quick.hash(PASSWORD)))
    (folder / "policy.toml").write_text(POLICY)
    return folder


def index(path: Path) -> None:
    lance.dataset(path).create_scalar_index("body", "INVERTED")
    lance.dataset(path).create_index("vec", "IVF_FLAT", num_partitions=1)


@pytest.fixture(scope="module")
def http_port() -> int:
    return find_free_port()


@pytest.fixture(scope="module")
def server(folder: Path, http_port: int) -> Iterator[GatewayProcess]:
    files = [f"auth.{name}_file={folder / name}.toml" for name in ("users", "policy")]
    options = [part for one in files for part in ("--set", one)]
    with GatewayProcess(folder / "lake", "--http-port", str(http_port), *options) as process:
        yield process


Connect = Callable[..., Any]


@pytest.fixture(scope="module")
def connect(server: GatewayProcess) -> Iterator[Connect]:
    """ADBC connections, one for each user and dialect."""
    with ExitStack() as stack:
        known: dict[tuple[str, str], Any] = {}

        def connected(user: str = "rita", dialect: str = "postgres") -> Any:
            if (user, dialect) not in known:
                options = {
                    "username": user,
                    "password": PASSWORD,
                    "adbc.flight.sql.rpc.call_header.x-lance-gateway-dialect": dialect,
                }
                connection = flightsql.connect(server.uri, db_kwargs=options, autocommit=True)
                known[user, dialect] = stack.enter_context(connection)
            return known[user, dialect]

        yield connected


Tried = Callable[..., str]


def ask_by_flight(connect: Connect, text: str, user: str, dialect: str) -> list[tuple[Any, ...]] | str:
    """Return the rows of a statement, or the words with which it is refused."""
    try:
        with connect(user, dialect).cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()  # type: ignore[no-any-return]
    except adbc_driver_manager.Error as error:
        return str(error)


def ask_by_http(browser: httpx.Client, text: str, dialect: str) -> list[tuple[Any, ...]] | str:
    """Return the rows of a statement, or the words with which it is refused."""
    answer = browser.post("/api/query", json={"sql": text, "options": {"dialect": dialect}})
    if answer.status_code != 200:
        assert answer.status_code < 500 or answer.status_code == 501, answer.text
        return str(answer.json()["error"])
    rows: list[tuple[Any, ...]] = []
    for line in map(json.loads, answer.text.splitlines()):
        if "error" in line:
            return str(line["error"])
        rows += map(tuple, line.get("rows", ()))
    return rows


@pytest.fixture(scope="module")
def browse(server: GatewayProcess, http_port: int) -> Iterator[Callable[[str], httpx.Client]]:
    """Clients of the HTTP API, one for each user."""
    assert server.uri
    with ExitStack() as stack:

        @cache
        def browser(user: str) -> httpx.Client:
            url = f"http://127.0.0.1:{http_port}"
            made = stack.enter_context(httpx.Client(base_url=url, timeout=120))
            answer = made.post("/api/login", json={"user": user, "password": PASSWORD})
            made.headers["x-csrf-token"] = answer.json()["csrf_token"]
            return made

        yield browser


@pytest.fixture(scope="module", params=["flight", "http"])
def tried(request: pytest.FixtureRequest, connect: Connect, browse: Callable[[str], httpx.Client]) -> Tried:
    """What comes of a statement, through either door."""

    def tried(text: str, user: str = "rita", dialect: str = "postgres") -> str:
        if request.param == "http":
            found = ask_by_http(browse(user), text, dialect)
        else:
            found = ask_by_flight(connect, text, user, dialect)
        if isinstance(found, str):
            answer = f"refused: {found}"
        else:
            rows = [tuple(map(rounded, row)) for row in found]
            answer = repr(rows if "ORDER BY" in text else sorted(rows, key=repr))
        assert "the gateway failed" not in answer
        return answer

    return tried


def rounded(value: object) -> object:
    return round(value, 5) if isinstance(value, float) else value


@pytest.fixture(scope="module", autouse=True)
def _unharmed(connect: Connect) -> Iterator[None]:
    """After all attempts, every row of every table is what it was before."""

    def read() -> list[Any]:
        texts = [f"SELECT * FROM {name}" for name in ("orders", "secret", "mirror")]
        return [sorted(ask_by_flight(connect, text, "olga", "postgres"), key=repr) for text in texts]

    before = read()
    assert all(before)
    yield
    assert read() == before


@pytest.mark.parametrize("text", sample(READS, 15))
def test_what_is_seen_in_part_answers_like_a_table_without_the_rest(tried: Tried, text: str) -> None:
    answer = tried(text.format(t="orders"))
    assert answer == tried(text.format(t="mirror")).replace("mirror", "orders")
    assert CANARIES.search(answer.replace("margin", "", text.count("margin"))) is None or "canary" in text


@pytest.mark.parametrize("options", ["", "VERBOSE", "ANALYZE", "ANALYZE VERBOSE", "FORMAT TREE"])
def test_no_plan_shows_how_it_is_read(tried: Tried, options: str) -> None:
    for text in (
        "SELECT * FROM orders WHERE 1 / (amount - 5) < 9 AND tenant = 'b'",
        "SELECT id FROM orders WHERE id = 0",
        "SELECT count(*) FROM orders",
        "SELECT id FROM lance_fts('orders', 'body', 'lake', k => 5)",
        "SELECT id FROM lance_vector_search('orders', 'vec', [0.5, 0.5], k => 3)",
        "SELECT id FROM orders ORDER BY vec <-> [0.5, 0.5] LIMIT 3",
        "SELECT id FROM orders FOR VERSION AS OF 1",
    ):
        plan = tried(f"EXPLAIN {options} {text}")
        assert CANARIES.search(plan) is None, plan
        assert not re.search(r"LanceScan|regions=|base v|left\(email|tenant = 'a'", plan), plan


@pytest.mark.parametrize("text", NAMED)
def test_a_table_without_a_grant_is_like_none(tried: Tried, text: str) -> None:
    answer = tried(text.format(t="secret"))
    assert answer.startswith("refused")
    assert answer.replace("secret", "?") == tried(text.format(t="terces")).replace("terces", "?")


@pytest.mark.parametrize(("dialect", "text"), FOREIGN)
def test_nor_is_it_found_in_another_dialect(tried: Tried, dialect: str, text: str) -> None:
    hidden, absent = (tried(text.format(t=name), dialect=dialect) for name in ("secret", "terces"))
    assert hidden.replace("secret", "?") == absent.replace("terces", "?")
    assert CANARIES.search(hidden) is None


@pytest.mark.parametrize("text", ["SELECT * FROM window", "SELECT * FROM finder", "DESCRIBE window"])
def test_a_view_lends_no_rights(tried: Tried, text: str) -> None:
    answer = tried(text)
    assert answer.startswith("refused")
    assert "does not exist" in answer


@pytest.mark.parametrize("text", OTHER_DOORS)
def test_there_is_no_other_door(tried: Tried, text: str) -> None:
    answer = tried(text)
    assert answer.startswith("refused")
    assert CANARIES.search(answer) is None


@pytest.mark.parametrize("text", sample(WRITES, 6))
def test_what_is_written_follows_from_what_is_seen(tried: Tried, text: str) -> None:
    def written(name: str) -> list[str]:
        steps = (
            "CREATE TABLE mine_t (id BIGINT PRIMARY KEY, text TEXT, number INT)",
            "INSERT INTO mine_t SELECT value, 'before', 0 FROM generate_series(0, 15)",
            text.format(t=name),
            "SELECT * FROM mine_t ORDER BY id",
            "DROP TABLE mine_t",
        )
        return [tried(step).replace("mirror", "orders") for step in steps]

    assert written("orders") == written("mirror")


def test_parameters_reach_no_further(connect: Connect) -> None:
    for text, parameters in (
        ("SELECT id, email FROM {t} WHERE id = ?", (0,)),
        ("SELECT id FROM {t} WHERE amount = ? OR id = 3", (5,)),
        ("SELECT id FROM {t} WHERE code LIKE ? AND 1 / (amount - 5) < 9", ("canary%",)),
        ("SELECT id, pay FROM {t} WHERE email = ? OR pay = ?", ("user3@x.org", 4711)),
        ("SELECT id FROM lance_vector_search('{t}', 'vec', ?, k => 2) ORDER BY id", ([0.5, 0.5],)),
        ("SELECT id FROM lance_fts('{t}', 'body', ?, k => 2) ORDER BY id", ("canary",)),
    ):
        answers = []
        for name in ("orders", "mirror"):
            with connect().cursor() as cursor:
                cursor.execute(text.format(t=name), parameters)
                answers.append(sorted(cursor.fetchall()))
        assert answers[0] == answers[1]


def options_of(uri: str, user: str, **headers: str) -> flight.FlightCallOptions:
    """What the calls of a user carry."""
    with flight.FlightClient(uri) as client:
        login = client.authenticate_basic_token(user, PASSWORD)
    more = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return flight.FlightCallOptions(headers=[login, *more])


def test_headers_make_nobody_somebody_else(server: GatewayProcess) -> None:
    users = dict.fromkeys(("x_forwarded_user", "x_remote_user", "x_user", "username"), "olga")
    roles = dict.fromkeys(("x_roles", "roles", "x_lance_gateway_roles", "x_lance_gateway_user"), "owner")
    spoofed = options_of(server.uri, "rita", **users, **roles)
    command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT * FROM secret"))
    with flight.FlightClient(server.uri) as client, pytest.raises(KeyError, match="'secret' does not exist"):
        client.get_flight_info(command, spoofed)


def test_rows_that_somebody_else_had_returned_are_not_handed_out(server: GatewayProcess) -> None:
    """Those that do not fit into the ticket are kept for the one who executed the statement."""
    owner, thief = options_of(server.uri, "olga"), options_of(server.uri, "rita")
    statements = (
        "CREATE TABLE large (id BIGINT PRIMARY KEY, text TEXT)",
        "INSERT INTO large SELECT value, repeat('canary', 100) FROM generate_series(1, 2000) RETURNING *",
        "DROP TABLE large",
    )
    with flight.FlightClient(server.uri) as client:
        infos = [
            client.get_flight_info(rpc.descriptor(sql.CommandStatementQuery(query=text)), owner)
            for text in statements
        ]
        ticket = infos[1].endpoints[0].ticket
        with pytest.raises(KeyError, match="not known here"):
            client.do_get(ticket, thief).read_all()
        assert client.do_get(ticket, owner).read_all().num_rows == 2000


def test_a_forged_ticket_gives_no_right_and_changes_nothing(server: GatewayProcess) -> None:
    rita = options_of(server.uri, "rita")
    good = rpc.descriptor(sql.CommandStatementQuery(query="SELECT id FROM orders"))
    for text in (
        "DELETE FROM orders",
        "DROP TABLE secret",
        "SELECT id FROM secret",
        "SELECT margin FROM orders",
    ):
        with flight.FlightClient(server.uri) as client:
            ticket = client.get_flight_info(good, rita).endpoints[0].ticket
            message = rpc.unpacked(sql.TicketStatementQuery, ticket.ticket)
            handle = own.StatementHandle.FromString(message.statement_handle)
            handle.query = text
            message.statement_handle = handle.SerializeToString()
            with pytest.raises((KeyError, pa.ArrowException)) as caught:
                client.do_get(flight.Ticket(rpc.packed(message)), rita).read_all()
        assert "the gateway failed" not in str(caught.value)


def test_the_second_port_tells_of_no_statement_user_or_row(http_port: int, tried: Tried) -> None:
    tried("SELECT id AS a_name_to_be_found FROM orders WHERE code = 'canary 10'")
    with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/metrics") as answer:
        metrics = answer.read().decode()
    assert "lance_gateway_queries_total" in metrics
    for word in ("a_name_to_be_found", "rita", "olga", "canary", PASSWORD):
        assert word not in metrics
    for path in ("/", "/queries", "/config", "/debug/pprof", "/metrics/../../etc/passwd", "//etc/passwd"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{http_port}{path}")


def test_nobody_learns_what_others_ask(tried: Tried) -> None:
    tried("SELECT id AS a_question FROM secret LIMIT 1", "olga")
    tried("SELECT 1")
    assert tried("SELECT DISTINCT user FROM system.queries") == "[('rita',)]"
    assert tried("SELECT count(*) FROM system.sessions WHERE user <> 'rita'") == "[(0,)]"
    assert tried("SELECT * FROM system.settings") == "[]"


@pytest.mark.parametrize("command", [["config", "check"], ["config", "show"]])
def test_the_configuration_is_shown_without_secrets(folder: Path, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "gateway.toml").write_text(
        f"""
        root = "{folder / "lake"}"
        storage_options = {{ aws_secret_access_key = "hunter2-storage" }}
        writes.peer_token = "hunter2-peers-are-many"
        observability.otlp_endpoint = "http://me:hunter2@127.0.0.1:4318"
        """
    )
    program = str(Path(sys.executable).with_name("lance-gateway"))
    run = subprocess.run(
        [program, *command, "--config", str(tmp_path / "gateway.toml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "hunter2" not in run.stdout + run.stderr


def test_the_log_holds_no_password_and_no_token(server: GatewayProcess, tried: Tried) -> None:
    tried("SELECT 1")
    assert "user 'rita' logged in" in server.log
    assert PASSWORD not in server.log
    assert "Bearer" not in server.log
