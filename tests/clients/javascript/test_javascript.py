"""A Flight SQL client for Node, against a gateway."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance
import pytest

from lance_gateway.gateway.auth.gateway_tokens import create_token
from lance_gateway.gateway.auth.users import User, hash_password, write_user
from tests.clients.programs import read_facts, require, run, skip
from tests.gateway.conftest import orders
from tests.jdbc.jvm import Facts
from tests.support.judging.documented import DOCS, read_block
from tests.support.processes.servers import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.soak]

SOURCES = Path(__file__).parent
PASSWORD = "correct horse"
# What Arrow for JavaScript makes of values; a decimal is its digits, without its point.
READ = {
    "TRUE": True,
    "CAST(-7 AS TINYINT)": -7,
    "CAST(200 AS SMALLINT UNSIGNED)": 200,
    "CAST(9007199254740991 AS BIGINT)": 2**53 - 1,
    "0.25": 0.25,
    "'grün'": "grün",
    "X'00ff'": [0, 255],
    "DATE '2024-01-02'": 1_704_153_600_000,
    "TIMESTAMP '2024-01-02 03:04:05.123456'": 1_704_164_645_123.456,
    "CAST(1.5 AS DECIMAL(10, 2))": '"150"',
    "[1, 2]": [1, 2],
    "{'a': 1}": {"a": 1},
    "NULL": None,
}


@dataclass(frozen=True)
class Node:
    """Runs modules in a folder that has the packages."""

    folder: Path

    def ask(
        self, port: str, *statements: str, headers: tuple[dict[str, str], ...] = (), **login: str
    ) -> Facts:
        """Say what the client gets for statements, and for the names of its listings."""
        return read_facts(run(*self.command(port, *statements, headers=headers, **login), folder=self.folder))

    def command(
        self, port: str, *statements: str, headers: tuple[dict[str, str], ...] = (), **login: str
    ) -> list[str]:
        options = {"host": "127.0.0.1", "port": int(port), "tls": False, "headers": headers, **login}
        return ["node", "ask.mjs", json.dumps(options), *statements]


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """Node with the locked packages; skips the test, loudly, where they cannot be had."""
    require("JavaScript", "node", "npm")
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "package-lock.json", "ask.mjs"):
        shutil.copy(SOURCES / name, folder)
    # Not `npm ci`, which asks for a package for FreeBSD that the client names and the registry lacks.
    command = ("npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund")
    installed = run(*command, folder=folder)
    if installed.returncode:
        skip("JavaScript", f"the packages could not be installed: {installed.stderr.strip()}")
    return Node(folder)


def test_the_documented_module_runs(node: Node, shop: str) -> None:
    example = read_block(DOCS / "clients.md", "## JavaScript", "js")
    (node.folder / "documented.mjs").write_text(example.text.replace("31337", shop))
    ran = run("node", "documented.mjs", folder=node.folder)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "42n 250\n44n 150\n", "")


def test_the_documentation_names_the_versions_that_are_tested() -> None:
    console = read_block(DOCS / "clients.md", "## JavaScript", "console")
    packages = json.loads((SOURCES / "package.json").read_text())["dependencies"]
    named = [f"{package}@{version}" for package, version in packages.items()]
    assert console.text == f"$ npm install {' '.join(named)}\n"


@pytest.fixture(scope="module")
def values(node: Node, shop: str) -> Facts:
    return node.ask(shop, *(f"SELECT {value} AS it" for value in READ))


@pytest.mark.parametrize("value", READ)
def test_a_value_is_read(values: Facts, value: str) -> None:
    assert values[f"SELECT {value} AS it"] == [[READ[value]]]


def test_results_of_any_length_and_in_parts_are_read_whole(node: Node, shop: str) -> None:
    header = {"key": "x-lance-gateway-endpoints", "value": "4"}
    statements = ("SELECT id FROM many", "SELECT id FROM many WHERE id < 0")
    facts = node.ask(shop, *statements, headers=(header,))
    assert sorted(facts[statements[0]]) == [[number] for number in range(1000)]
    assert facts[statements[1]] == []


def test_the_client_lists_catalogs_schemas_and_tables(node: Node, shop: str) -> None:
    facts = node.ask(shop, "getCatalogs", "getDbSchemas", "getTables")
    assert facts["getCatalogs"] == [["lance"]]
    assert ["lance", "main"] in facts["getDbSchemas"]
    assert ["lance", "main", "orders", "TABLE"] in facts["getTables"]


def test_the_client_writes(node: Node, shop: str) -> None:
    read = "SELECT id, note FROM js_notes ORDER BY id"
    created = "CREATE TABLE js_notes (id BIGINT PRIMARY KEY, note VARCHAR)"
    facts = node.ask(
        shop, created, "INSERT INTO js_notes VALUES (1, 'a'), (2, NULL)", read, "DROP TABLE js_notes"
    )
    assert facts[read] == [[1, "a"], [2, None]]
    assert facts["DROP TABLE js_notes"] == []


def test_headers_are_session_options(node: Node, shop: str) -> None:
    created = "CREATE TABLE js_refused (id BIGINT PRIMARY KEY)"
    read_only = node.ask(shop, created, headers=({"key": "x-lance-gateway-read_only", "value": "true"},))
    assert read_only.failure(created).text == "failed to prepare statement"
    quoted = "SELECT `status` FROM `orders` WHERE `id` = 43"
    mysql = node.ask(shop, quoted, headers=({"key": "x-lance-gateway-dialect", "value": "mysql"},))
    assert mysql[quoted] == [["open"]]


def test_an_error_does_not_say_why(node: Node, shop: str) -> None:
    failure = node.ask(shop, "SELECT * FROM ordres").failure("SELECT * FROM ordres")
    assert (failure.kind, failure.text) == ("GenericFailure", "failed to prepare statement")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The port of a gateway that asks for a password or a token, and a token."""
    folder = tmp_path_factory.mktemp("javascript-security")
    (folder / "policy.toml").write_text('[roles.reader]\ngrants = [{ tables = ["orders"] }]\n')
    write_user(folder / "users.toml", User("alice", hash_password(PASSWORD), (), frozenset({"reader"})))
    token = create_token(folder / "tokens.toml", "report", "report", frozenset({"reader"}), None)
    root = folder / "tables"
    lance.write_dataset(orders(), root / "orders.lance")
    settings = [f"auth.{name}_file={folder / name}.toml" for name in ("users", "tokens", "policy")]
    with GatewayProcess(root, "--http-port", "off", *(f"--set={setting}" for setting in settings)) as gateway:
        yield gateway.uri.rpartition(":")[2], token


def test_a_password_or_a_token_is_a_login(node: Node, secured: tuple[str, str]) -> None:
    port, token = secured
    asked = "SELECT current_user, count(*) FROM orders"
    assert node.ask(port, asked, username="alice", password=PASSWORD)[asked] == [["alice", 1000]]
    assert node.ask(port, asked, token=token)[asked] == [["report", 1000]]
    assert node.ask(port, asked, token="lgw_wrong").failure(asked).text == "failed to prepare statement"
    assert node.ask(port, asked).failure(asked).text == "failed to prepare statement"


def _read_panic(command: list[str], folder: Path) -> str:
    """Return what the client writes when it panics; it goes on waiting then, and is ended."""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            return next(line for line in process.stderr if "panicked" in line)
        finally:
            process.kill()


def test_the_client_panics_where_a_password_is_wrong_or_a_result_breaks_off(
    node: Node, shop: str, secured: tuple[str, str]
) -> None:
    wrong = node.command(secured[0], "SELECT 1", username="alice", password="wrong")
    assert "the user name or the password is wrong" in _read_panic(wrong, node.folder)
    breaks_off = node.command(shop, "SELECT 1 / (id - 42) FROM orders")
    assert "Divide by zero" in _read_panic(breaks_off, node.folder)
