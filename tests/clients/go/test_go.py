"""Arrow's Flight SQL client for Go and its driver for database/sql, against a gateway."""

import base64
import fcntl
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pytest
import trustme

from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.auth.users import User, hash_password, write_user
from tests.adbc.values import VALUES, typed_table
from tests.clients.programs import read_facts, require, run, skip
from tests.gateway.conftest import orders, serving
from tests.jdbc.jvm import Facts
from tests.support.judging.documented import DOCS, read_block
from tests.support.processes.servers import GatewayProcess

# Compiling Arrow and gRPC for the first time takes minutes.
pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(1200)]

SOURCES = Path(__file__).parent
PASSWORD = "correct horse"

# Listings, by the number of their rows; the program compares their schemas with the client's own.
LISTINGS = {
    "GetCatalogs": 1,
    "GetDbSchemas": 3,
    "GetTables": 3,
    "GetTables with schemas": 1,
    "GetTableTypes": 3,
    "GetPrimaryKeys": 1,
    "GetExportedKeys": 0,
    "GetImportedKeys": 0,
    "GetCrossReference": 0,
}
# What the driver reads; floats are what it makes of decimals.
READ = {
    "bool_": True,
    "int8_": -128,
    "int16_": -16,
    "int32_": -32,
    "int64_": VALUES["int64_"][1],
    "float32_": 0.25,
    "float64_": 1e300,
    "decimal128_": 1234567890.0123458,
    "string_": VALUES["string_"][1],
    "binary_": base64.b64encode(VALUES["binary_"][1]).decode(),
    "date32_": "2026-02-28T00:00:00Z",
    "date64_": "2026-02-28T00:00:00Z",
    "time32_s": "1970-01-01T23:59:58Z",
    "time64_ns": "1970-01-01T23:59:58.123456Z",
    "timestamp_s": "2026-02-28T23:59:58Z",
    "timestamp_us": "2026-02-28T23:59:58.123456Z",
    "instant_utc": "2026-02-28T23:59:58.123456Z",
    "instant_berlin": "2026-02-28T23:59:58.123456Z",
    "duration_s": -86_400 * 10**9,
}
# What it refuses to read, with the types of Arrow.
UNREAD = (
    "uint8_",
    "uint16_",
    "uint32_",
    "uint64_",
    "large_string_",
    "large_binary_",
    "fixed_binary",
    "list_",
    "fixed_list",
    "struct_",
)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Builds the program of a folder; skips the test, loudly, without Go or its modules."""
    require("Go", "go")
    if (fetched := run("go", "mod", "download", folder=SOURCES)).returncode:
        skip("Go", f"its modules could not be fetched: {fetched.stderr.strip()}")

    def build_program(folder: Path) -> Path:
        path = tmp_path_factory.mktemp("go") / "program"
        with (tmp_path_factory.getbasetemp().parent / "go.lock").open("w") as lock:
            # Processes of one test run compile one after the other; all but the first find it done.
            fcntl.flock(lock, fcntl.LOCK_EX)
            built = run("go", "build", "-o", path, ".", folder=folder)
        assert built.returncode == 0, built.stderr
        return path

    return build_program


@pytest.fixture(scope="session")
def program(build: Callable[[Path], Path]) -> Callable[..., Facts]:
    """Runs the program, and says what it told."""
    path = build(SOURCES)

    def tell(*arguments: str, **environment: str) -> Facts:
        return read_facts(run(path, *arguments, folder=SOURCES, **environment))

    return tell


def test_the_documented_program_runs(build: Callable[[Path], Path], shop: str, tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(SOURCES / name, tmp_path)
    example = read_block(DOCS / "clients.md", "## Go", "go")
    (tmp_path / "main.go").write_text(example.text.replace("31337", shop))
    ran = run(build(tmp_path), folder=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "42 250\n44 150\n", "")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("go-lake")
    lance.write_dataset(orders(), root / "orders.lance", max_rows_per_file=250)
    lance.write_dataset(typed_table(), root / "typed.lance")
    (root / "big_orders.view.sql").write_text("SELECT id, amount FROM orders WHERE amount >= 400")
    return root


@pytest.fixture(scope="module")
def address(lake: Path) -> Iterator[str]:
    with serving(lake) as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def client(program: Callable[..., Facts], address: str) -> Facts:
    return program("client", address)


@pytest.fixture(scope="module")
def database(program: Callable[..., Facts], address: str) -> Facts:
    return program("database", f"flightsql://{address}")


def test_listings_have_the_schemas_and_rows_that_the_client_expects(client: Facts) -> None:
    assert {name: client[name] for name in LISTINGS} == LISTINGS
    assert client["GetXdbcTypeInfo"] > 20
    assert client["GetSqlInfo"] > 80


def test_statements_and_prepared_statements(client: Facts) -> None:
    assert client["statement"] == 2
    assert client["schema of a statement"] == "id amount"
    assert client["prepared statement"] == 10


def test_an_error_in_the_middle_of_a_result_reaches_the_client(client: Facts) -> None:
    failure = client.failure("statement that fails while it is read")
    assert failure.kind == "InvalidArgument"
    assert "Divide by zero" in failure.text


def test_statements_are_cancelled(client: Facts) -> None:
    assert client["CancelFlightInfo"] == "CANCEL_STATUS_CANCELLED"
    assert client.failure("a ticket that was cancelled").kind == "NotFound"


def test_options_of_a_session_hold_for_its_statements(client: Facts) -> None:
    assert client["SetSessionOptions"] == {"colour": "INVALID_NAME", "consistency": "INVALID_VALUE"}
    assert client["GetSessionOptions"] == 4
    assert client["a scan in parts"] == [4, 1000]
    assert client["RenewFlightEndpoint"] is True
    assert client["CloseSession"] == "CLOSED"


def test_rows_are_ingested_and_updates_executed(client: Facts) -> None:
    assert (client["ingestion"], client["update"]) == (6, 0)
    assert client.failure("update that is refused").kind == "NotFound"


def test_a_table_is_followed_while_it_is_written(client: Facts) -> None:
    assert client["changes as they come"] == [0, 1, 2]


@pytest.mark.parametrize("name", ["PollFlightInfo", "BeginSavepoint"])
def test_what_there_is_not_is_unimplemented(client: Facts, name: str) -> None:
    assert client.failure(name).kind == "Unimplemented"


def test_the_database_answers_queries(database: Facts) -> None:
    assert database["ping"] is True
    assert database["query"] == [[0, "customer 0", 0.0], [1, "customer 1", 0.5]]
    assert database["no rows"] == []
    assert database["rows one by one"] == 200_000
    assert database["a pool of connections"] is True


def test_the_database_binds_parameters(database: Facts) -> None:
    assert database["bound"] == [[7]]
    assert database["bound by number"] == [[8]]
    assert database["bound bool"] == [[1]]
    assert database["bound timestamp as text"] == [[1]]


@pytest.mark.parametrize(
    ("name", "said"),
    [("bound timestamp", "unknown builder type"), ("bound NULL", "invalid value type <nil>")],
)
def test_the_driver_binds_no_times_and_no_null(database: Facts, name: str, said: str) -> None:
    assert said in database.failure(name).text


@pytest.mark.parametrize("column", READ)
def test_a_column_is_read(database: Facts, column: str) -> None:
    [[value], [null]] = database[f"column {column}"]
    assert null is None
    if isinstance(value, float):
        assert math.isclose(value, READ[column])
    else:
        assert value == READ[column]


@pytest.mark.parametrize("column", UNREAD)
def test_types_that_the_driver_does_not_know_are_its_errors(database: Facts, column: str) -> None:
    assert "not supported" in database.failure(f"column {column}").text


def test_unsigned_numbers_are_read_as_those_that_jdbc_gets(
    program: Callable[..., Facts], address: str
) -> None:
    facts = program("query", f"flightsql://{address}?types=jdbc", "SELECT uint8_, uint32_ FROM typed LIMIT 1")
    assert facts["rows"] == [[255, 2**32 - 1]]


def test_parameters_of_the_address_are_session_options(program: Callable[..., Facts], address: str) -> None:
    statement = "SELECT `customer` FROM `orders` WHERE `id` = 3"
    assert program("query", f"flightsql://{address}?dialect=mysql", statement)["rows"] == [["customer 3"]]
    refused = program("query", f"flightsql://{address}?consistency=eventual", "SELECT 1").failure("rows")
    assert "consistency 'eventual' is unknown" in refused.text


def test_the_database_has_transactions(database: Facts) -> None:
    assert database["a transaction that is rolled back"] == []
    assert database["a transaction that is committed"] == [[9]]


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("too few", "InvalidArgument", "1 parameter(s), but 0 were bound"),
        ("syntax", "Unimplemented", "'SELEC' is not supported"),
        ("unknown table", "NotFound", "did you mean 'orders'"),
        ("fails while it is read", "InvalidArgument", "Divide by zero"),
        ("out of time", "DeadlineExceeded", "deadline exceeded"),
        ("INSERT of NULL as key", "InvalidArgument", "column 'id' of row 1 is NULL"),
    ],
)
def test_an_error_has_a_status_and_says_why(database: Facts, name: str, status: str, said: str) -> None:
    failure = database.failure(name)
    assert failure.kind == status
    # The gateway and the driver write the end of a deadline with other capitals, and either may be first.
    assert said.casefold() in failure.text.casefold()
    assert "Traceback" not in failure.text


def test_the_database_writes(database: Facts) -> None:
    counts = [database[name] for name in ("CREATE TABLE", "INSERT", "bound INSERT", "UPDATE", "DELETE")]
    assert counts == [0, 2, 1, 2, 1]
    assert database["what they left"] == [[2, "b", 3.0], [3, "c", 3.5]]
    assert database["RETURNING"] == [[4]]
    assert database["DROP TABLE"] == 0


@pytest.fixture(scope="module")
def secured(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A gateway with a certificate that asks for a password or a token."""
    folder = tmp_path_factory.mktemp("go-security")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    server = folder / "server.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(server)
    (folder / "policy.toml").write_text('[roles.reader]\ngrants = [{ tables = ["orders"] }]\n')
    write_user(folder / "users.toml", User("alice", hash_password(PASSWORD), (), frozenset({"reader"})))
    token = create_token(folder / "tokens.toml", "report", "report", frozenset({"reader"}), None)
    settings = [f"tls.certificate_file={server}", f"tls.key_file={server}"]
    settings += [f"auth.{name}_file={folder / name}.toml" for name in ("users", "tokens", "policy")]
    with GatewayProcess(lake, *(f"--set={setting}" for setting in settings)) as gateway:
        yield {
            "address": f"localhost:{gateway.uri.rpartition(':')[2]}",
            "token": token,
            "authority": str(folder / "ca.pem"),
        }


def _login(program: Callable[..., Facts], secured: dict[str, Any], user: str, more: str = "") -> Facts:
    dsn = f"flightsql://{user}{secured['address']}?tls=authority{more}"
    statement = "SELECT count(*) FROM orders"
    return program("query", dsn, statement, LANCE_GATEWAY_CA=secured["authority"])


def test_a_password_or_a_token_is_a_login(program: Callable[..., Facts], secured: dict[str, Any]) -> None:
    assert _login(program, secured, "alice:correct%20horse@")["rows"] == [[1000]]
    assert _login(program, secured, "", f"&token={secured['token']}")["rows"] == [[1000]]


@pytest.mark.parametrize(
    ("user", "said"), [("alice:wrong@", "the user name or the password is wrong"), ("", "authentication")]
)
def test_who_has_neither_is_unauthenticated(
    program: Callable[..., Facts], secured: dict[str, Any], user: str, said: str
) -> None:
    failure = _login(program, secured, user).failure("rows")
    assert failure.kind == "Unauthenticated"
    assert said in failure.text
