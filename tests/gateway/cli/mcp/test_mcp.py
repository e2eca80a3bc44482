"""`lance-gateway mcp`, started by a real MCP client as docs/clients.md says, against a gateway process."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from anyio.from_thread import start_blocking_portal
from argon2 import PasswordHasher
from mcp import Client, StdioServerParameters
from pyarrow import flight
from typer.testing import CliRunner

from lance_gateway.gateway.auth.users import User, write_user
from lance_gateway.gateway.cli import app
from lance_gateway.gateway.cli.client import GatewayClient, Login
from lance_gateway.gateway.cli.mcp.answers import AnswerLimits
from lance_gateway.gateway.cli.mcp.server import Gateway
from tests.gateway.attempts import NAMED, OTHER_DOORS, WRITES
from tests.gateway.conftest import serving
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess

# A gateway and servers in processes of their own.
pytestmark = pytest.mark.slow

CLIENTS = Path(__file__).parents[4] / "docs" / "clients.md"
ADDRESS = "grpc://127.0.0.1:31337"
POLICY = """
[roles.reader]
grants = [{ tables = ["docs"], write = true }, { tables = ["part"], rows = "id > 1", hidden = ["pay"] }]

[roles.owner]
grants = [{ tables = ["*"], write = true }]

[users]
rita = ["reader"]
olga = ["owner"]
"""
OLGA = Login("olga", "correct horse")

Call = Callable[..., tuple[bool, str]]
"""Calls a tool; returns whether it failed, and its text."""


def read_config() -> dict[str, Any]:
    """The configuration that docs/clients.md shows."""
    _, _, section = CLIENTS.read_text().partition("## Language models")
    example = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert example is not None
    config: dict[str, Any] = json.loads(example.group(1))["mcpServers"]["lance"]
    return config


@contextmanager
def started(uri: str, *options: str) -> Iterator[tuple[Any, Call]]:
    """A session with the command, started as in the documentation but for the address and further options."""
    config = read_config()
    assert ADDRESS in config["args"]
    parameters = StdioServerParameters(
        command=str(Path(sys.executable).with_name(config["command"])),
        args=[*(uri if part == ADDRESS else part for part in config["args"]), *options],
        env={**config["env"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(parameters)) as client:

        def call(tool: str, **arguments: Any) -> tuple[bool, str]:
            result = portal.call(client.call_tool, tool, arguments)
            (content,) = result.content
            assert "Traceback" not in content.text
            return bool(result.is_error), content.text

        tools = portal.call(client.list_tools).tools
        yield tools, call


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with three tables: rita may write one, sees a part of another, and nothing of the third."""
    folder = tmp_path_factory.mktemp("mcp")
    (folder / "lake").mkdir()
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    for name in ("rita", "olga"):
        write_user(folder / "users.toml", User(name, quick.hash("correct horse")))
    (folder / "policy.toml").write_text(POLICY)
    files = [f"auth.{name}_file={folder / name}.toml" for name in ("users", "policy")]
    options = [part for one in files for part in ("--set", one)]
    with GatewayProcess(folder / "lake", "--http-port", "off", *options) as process:
        with GatewayClient(process.uri, OLGA) as owner:
            for text in (
                "CREATE TABLE docs (id BIGINT PRIMARY KEY, body VARCHAR DEFAULT 'none', vec FLOAT[20])",
                "CREATE INDEX ON docs USING inverted (body)",
                "CREATE TABLE secret (id BIGINT PRIMARY KEY)",
                "CREATE TABLE part (id BIGINT PRIMARY KEY, pay BIGINT)",
                "INSERT INTO part VALUES (1, 10), (2, 20)",
            ):
                owner.execute(text)
            vectors = [[float(number == place) for place in range(20)] for number in range(3)]
            rows = ", ".join(f"({at}, 'lake{' storm' * at}', {vector})" for at, vector in enumerate(vectors))
            assert owner.execute(f"INSERT INTO docs VALUES {rows}") == 3
        yield process


@pytest.fixture(scope="module")
def session(server: GatewayProcess) -> Iterator[tuple[Any, Call]]:
    with started(server.uri) as session:
        yield session


@pytest.fixture
def call(session: tuple[Any, Call]) -> Call:
    return session[1]


def rows_of(answer: tuple[bool, str]) -> list[dict[str, Any]]:
    failed, text = answer
    assert not failed, text
    rows: list[dict[str, Any]] = json.loads(text)["rows"]
    return rows


def test_the_tools_say_that_they_read(session: tuple[Any, Call]) -> None:
    hints = {tool.name: tool.annotations.read_only_hint for tool in session[0]}
    assert hints == dict.fromkeys(("list_tables", "describe_table", "search", "query"), True)


def test_only_tables_of_the_user_are_there(call: Call) -> None:
    assert [row["table_name"] for row in rows_of(call("list_tables"))] == ["docs", "part"]
    for failed, text in (call("describe_table", table="secret"), call("query", sql="SELECT * FROM secret")):
        assert failed
        assert "does not exist" in text
        assert "docs" in text


def test_a_table_is_described_with_its_key_indexes_and_what_is_fresh(call: Call) -> None:
    failed, text = call("describe_table", table="docs")
    assert not failed
    told = json.loads(text)
    assert told["primary_key"] == ["id"]
    assert {"name": "body_idx", "type": "Inverted", "columns": ["body"]} in told["indexes"]
    assert told["base_table"]["rows"] == 0
    assert told["fresh"].keys() == {"unmerged_generations", "unflushed_rows"}
    assert {column["name"]: (column["type"], column["default"]) for column in told["columns"]} == {
        "id": ("int64", None),
        "body": ("string", "'none'"),
        "vec": ("fixed_size_list<item: float>[20]", None),
    }


def test_a_table_is_described_as_far_as_the_user_sees_it(call: Call) -> None:
    told = json.loads(call("describe_table", table="part")[1])
    assert [column["name"] for column in told["columns"]] == ["id"]
    assert told["base_table"]["rows"] is None
    assert "fresh" not in told
    assert rows_of(call("query", sql="SELECT * FROM part")) == [{"id": 2}]


def test_a_query_sees_what_was_written_a_moment_ago(server: GatewayProcess, call: Call) -> None:
    with GatewayClient(server.uri, OLGA) as owner:
        for body in ("first", "second"):
            owner.execute(f"INSERT INTO docs (id, body) VALUES (9, '{body}')")
            assert rows_of(call("query", sql="SELECT * FROM docs WHERE id = 9")) == [
                {"id": 9, "body": body, "vec": None}
            ]
        owner.execute("DELETE FROM docs WHERE id = 9")
    assert rows_of(call("query", sql="SELECT * FROM docs WHERE id = 9")) == []


def test_an_answer_ends_at_the_limit_and_says_so(call: Call) -> None:
    _, text = call("query", sql="SELECT * FROM generate_series(1, 100000000)", max_rows=3)
    answer = json.loads(text)
    assert len(answer["rows"]) == 3
    assert "there are more rows" in answer["note"]


def test_texts_and_vectors_are_searched(call: Call) -> None:
    by_text = call("search", table="docs", text="storm", text_column="body", columns=["id"], where="id < 2")
    assert [row["id"] for row in rows_of(by_text)] == [1]
    like_two = {"vector_of": "SELECT vec FROM docs WHERE id = 2", "vector_column": "vec"}
    (nearest,) = rows_of(call("search", table="docs", k=1, **like_two))
    assert (nearest["id"], nearest["_distance"]) == (2, 0)
    assert nearest["vec"] == [0, 0, 1, 0, "... 16 more"]
    given = {"vector": [1.0] + [0.0] * 19, "vector_column": "vec"}
    (nearest,) = rows_of(call("search", table="docs", k=1, **given))
    assert nearest["id"] == 0
    both = rows_of(call("search", table="docs", text="storm", text_column="body", columns=["id"], **like_two))
    assert both[0]["id"] == 2
    assert both[0].keys() == {"id", "_hybrid_score", "_distance", "_score"}
    assert call("search", table="docs") == (True, f"Error executing tool search: {NOTHING}")


NOTHING = "nothing is searched for: give a text or a vector, and its column"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM docs",
        "INSERT INTO docs (id) VALUES (7) RETURNING id",
        "WITH old AS (SELECT 1 AS id) DELETE FROM docs WHERE id IN (SELECT id FROM old)",
        "DROP TABLE docs",
        "OPTIMIZE docs",
        "KILL QUERY '0'",
    ],
)
def test_a_write_is_refused_though_the_user_may_write(call: Call, sql: str) -> None:
    failed, text = call("query", sql=sql)
    assert failed
    assert "was not executed, since this session only reads" in text
    assert rows_of(call("query", sql="SELECT count(*) AS n FROM docs")) == [{"n": 3}]


@pytest.mark.parametrize("sql", ["SELECT 1; DELETE FROM docs", "SET read_only = false", "SELECT nothing"])
def test_what_is_no_query_is_a_tool_error_with_the_words_of_the_gateway(call: Call, sql: str) -> None:
    failed, text = call("query", sql=sql)
    assert failed
    assert text.startswith("Error executing tool query: ")
    assert "Detail:" not in text
    assert "gRPC" not in text


def test_a_condition_smuggles_no_second_statement(call: Call) -> None:
    smuggled = "true); DELETE FROM docs --"
    assert call("search", table="docs", text="lake", text_column="body", where=smuggled)[0]
    assert rows_of(call("query", sql="SELECT count(*) AS n FROM docs")) == [{"n": 3}]


def test_writes_are_executed_where_they_are_allowed(server: GatewayProcess) -> None:
    with started(server.uri, "--allow-writes") as (tools, call):
        assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == ["query"]
        assert call("query", sql="INSERT INTO docs (id) VALUES (7), (8)") == (False, "rows changed: 2")
        assert rows_of(call("query", sql="DELETE FROM docs WHERE id > 6 RETURNING id")) == [
            {"id": 7},
            {"id": 8},
        ]
        failed, text = call("query", sql="INSERT INTO secret VALUES (1)")
        assert failed
        assert "does not exist" in text


def test_a_gateway_that_is_not_there_is_told_to_the_model() -> None:
    with started(f"grpc://127.0.0.1:{find_free_port()}") as (_, call):
        failed, text = call("list_tables")
        assert failed
        assert "check that a gateway listens there" in text


def test_a_wrong_password_is_told_when_the_command_starts(server: GatewayProcess) -> None:
    told = CliRunner().invoke(app, ["mcp", "--uri", server.uri, "--user", "rita", "--password", "wrong"])
    assert told.exit_code == 1
    assert told.output.startswith("error: ")
    assert "password" in told.output


def test_a_client_logs_in_again_when_its_login_has_ended(server: GatewayProcess) -> None:
    with GatewayClient(server.uri, OLGA) as client:
        client._options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer ended")])
        assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]
    unknown = Login(token="ended")
    with GatewayClient(server.uri, unknown) as client, pytest.raises(flight.FlightUnauthenticatedError):
        client.query("SELECT 1")


def test_without_the_package_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mcp", "mcp.server", "mcp.server.mcpserver"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "lance_gateway.gateway.cli.mcp.server", raising=False)
    told = CliRunner().invoke(app, ["mcp"])
    assert told.exit_code == 1
    assert "not installed: pip install 'lance-gateway[mcp]'" in told.output


def test_tables_of_schemas_are_told_by_their_whole_names(tmp_path: Path) -> None:
    for schema, rows in (("", [1]), ("sales", [1, 2])):
        lance.write_dataset(pa.table({f"c{len(rows)}": rows}), tmp_path / schema / "t.lance")
    with serving(tmp_path) as server, GatewayClient(f"grpc://127.0.0.1:{server.port}") as client:
        tools = Gateway(lambda: client, AnswerLimits(10, 10_000))
        assert [row["table_name"] for row in json.loads(tools.list_tables())["rows"]] == ["t", "sales.t"]
        for name, count in (("t", 1), ("sales.t", 2)):
            told = json.loads(tools.describe_table(name))
            assert (told["columns"][0]["name"], told["base_table"]["rows"]) == (f"c{count}", count)


def test_tools_open_no_other_door(server: GatewayProcess, call: Call) -> None:
    """What is refused to the user's own connection is refused to a model that uses it."""
    with GatewayClient(server.uri, OLGA) as owner:
        owner.execute("INSERT INTO secret VALUES (4711)")
        texts = [text.replace("{t}", "secret") for text in NAMED] + list(OTHER_DOORS)
        texts += [text.replace("{t}", "secret") for text in WRITES]
        texts += [
            "INSERT INTO docs (id) VALUES (77)",
            "DELETE FROM docs",
            "SELECT pay FROM part",
            "SELECT * FROM docs WHERE id IN (SELECT id FROM secret)",
            "SET read_only = false",
            "COMMIT",
        ]
        for text in texts:
            failed, answer = call("query", sql=text)
            assert failed, text
            assert "4711" not in answer
        for name in (
            "secret",
            "main.secret",
            '"secret"',
            "docs; DROP TABLE docs",
            "docs'--",
            "../secret",
            "",
        ):
            failed, answer = call("describe_table", table=name)
            assert failed, name
            assert "4711" not in answer
        for arguments in (
            {"table": "secret", "text": "x"},
            {"table": "docs'), (SELECT 1", "text": "lake"},
            {"table": "docs", "text": "lake", "where": "id IN (SELECT id FROM secret)"},
            {"table": "docs", "text": "lake", "where": "true) UNION SELECT id, 'x', NULL FROM secret --"},
            {"table": "docs", "text": "lake", "where": "true; DROP TABLE docs"},
            {"table": "docs", "text": "lake') , (SELECT id FROM secret", "where": "1 / 0 = 1"},
        ):
            _, answer = call("search", **arguments)
            assert "4711" not in answer, arguments
        assert [row["n"] for row in rows_of(call("query", sql="SELECT count(*) AS n FROM docs"))] == [3]
        assert owner.query("SELECT count(*) AS n FROM secret").read_all()["n"].to_pylist() == [1]
        owner.execute("DELETE FROM secret")
