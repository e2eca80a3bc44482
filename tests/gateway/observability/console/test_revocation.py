"""What is taken away while sessions and followers are open, and what a restricted user sees of the past."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.auth.users import User, remove_user, write_user
from tests.gateway.auth.conftest import QUICK
from tests.gateway.observability.console.conftest import PASSWORD, wait_until
from tests.gateway.observability.console.in_process import Office, open_office, read_status
from tests.support.lake.tables import key_field

pytestmark = pytest.mark.slow

POLICY = """
[roles.reader]
grants = [{ tables = ["orders"], rows = "id < 3", hidden = ["pay"] }, { tables = ["news"] }]

[roles.owner]
grants = [{ tables = ["*"], write = true }]

[users]
rita = ["reader"]
olga = ["owner"]
"""
CLOSED = POLICY.replace('{ tables = ["news"] }', "").replace(", ]", "]")
CANARY = 4711


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    schema = pa.schema([key_field("id", pa.int64()), ("pay", pa.int64())])
    (tmp_path / "lake").mkdir()
    lance.write_dataset(
        pa.table([[1, 2, 3], [CANARY] * 3], schema=schema), tmp_path / "lake" / "orders.lance"
    )
    for name in ("rita", "olga"):
        write_user(tmp_path / "users.toml", User(name, QUICK.hash(PASSWORD)))
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


@pytest.fixture
def office(folder: Path) -> Iterator[Office]:
    flags = {f"auth.{name}_file": str(folder / f"{name}.toml") for name in ("users", "policy")}
    with open_office(folder / "lake", **flags) as office:
        yield office


@pytest.fixture
def browsers(office: Office) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    with (
        office.browse(user="rita", password=PASSWORD) as rita,
        office.browse(user="olga", password=PASSWORD) as olga,
    ):
        yield rita, olga


def ask(browser: httpx.Client, sql: str) -> Any:
    """The rows of a statement, or its failure as text."""
    answer = browser.post("/api/query", json={"sql": sql})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    failure = lines[-1].get("error")
    return failure or [row for line in lines for row in line.get("rows", ())]


def replace_file(path: Path, text: str) -> None:
    """Change a file so that its watcher sees it however coarse the clock of files is."""
    path.write_text(text)
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000_000))


@pytest.mark.soak
def test_a_removed_user_is_out(
    office: Office, folder: Path, browsers: tuple[httpx.Client, httpx.Client]
) -> None:
    rita, _ = browsers
    remove_user(folder / "users.toml", "rita")
    wait_until(lambda: rita.get("/api/tables").status_code == 401)
    for path in ("/api/query", "/api/plan", "/api/jobs", "/api/statements/kill"):
        assert rita.post(path, json={"sql": "SELECT 1"}).status_code == 401
    assert rita.get("/api/session").json()["user"] is None
    # A user of the same name who comes later is another one.
    write_user(folder / "users.toml", User("rita", QUICK.hash("another password")))
    own = {"user": "rita", "password": "another password"}
    with office.browse() as browser:
        wait_until(lambda: browser.post("/api/login", json=own).status_code == 200)
    assert rita.get("/api/tables").status_code == 401


def test_a_new_password_ends_sessions(folder: Path, browsers: tuple[httpx.Client, httpx.Client]) -> None:
    rita, olga = browsers
    write_user(folder / "users.toml", User("rita", QUICK.hash("a new password")), replace=True)
    wait_until(lambda: rita.get("/api/tables").status_code == 401)
    assert olga.get("/api/tables").status_code == 200


def test_a_follower_whose_grant_goes_gets_no_more_rows(
    office: Office, folder: Path, browsers: tuple[httpx.Client, httpx.Client]
) -> None:
    rita, olga = browsers
    ask(olga, "CREATE TABLE news (id BIGINT PRIMARY KEY, text VARCHAR)")
    follow = "SELECT text FROM lance_changes('news', since => now(), follow => true)"
    with ExitStack() as stack:
        client = stack.enter_context(office.send("/api/query", {"sql": follow}, rita))
        assert read_status(client) == 200
        ask(olga, "INSERT INTO news VALUES (1, 'first')")
        seen = b""
        while b"first" not in seen:
            part = client.recv(4096)
            assert part
            seen += part
        replace_file(folder / "policy.toml", CLOSED)
        wait_until(lambda: "does not exist" in str(ask(rita, "SELECT * FROM news")))
        ask(olga, f"INSERT INTO news VALUES (2, 'canary {CANARY}')")
        while part := client.recv(4096):
            seen += part
            if b"0\r\n\r\n" in part:
                break
    assert b"canary" not in seen
    assert b"error" in seen
    assert office.count_active("rita") == 0


def test_a_policy_that_is_broken_changes_nothing(
    folder: Path, browsers: tuple[httpx.Client, httpx.Client]
) -> None:
    rita, _ = browsers
    replace_file(folder / "policy.toml", POLICY + "\n[roles.reader")
    for _ in range(3):
        assert ask(rita, "SELECT id FROM orders ORDER BY id") == [[1], [2]]


def test_the_past_of_a_restricted_table_is_restricted(browsers: tuple[httpx.Client, httpx.Client]) -> None:
    rita, olga = browsers
    for sql in (
        "CREATE TAG release ON orders",
        "CREATE BRANCH trial ON orders",
        "ALTER TABLE orders SET (memwal = true, region_by = 'bucket(id, 1)')",
        f"INSERT INTO orders VALUES (0, {CANARY})",
    ):
        assert ask(olga, sql) == [], sql
    for state in ("1", "'release'", "'trial'"):
        assert ask(rita, f"SELECT id FROM orders FOR VERSION AS OF {state} ORDER BY id") == [[1], [2]]
        assert ask(rita, f"SELECT count(*) FROM orders VERSION AS OF {state}") == [[2]]
        assert "pay" in ask(rita, f"SELECT pay FROM orders FOR VERSION AS OF {state}")
    for view in ("system.tags", "system.branches", "system.versions"):
        assert str(CANARY) not in str(ask(rita, f"SELECT * FROM {view}"))
    assert ask(rita, "SELECT count(rows) FROM system.versions WHERE table_name = 'orders'") == [[0]]
    for sql in (
        "CREATE TAG mine ON orders",
        "DROP TAG release ON orders",
        "CREATE BRANCH mine ON orders",
        "DROP BRANCH trial ON orders",
        "RESTORE TABLE orders TO TAG 'release'",
        "CREATE TABLE mine CLONE orders VERSION AS OF 'release'",
        "FLUSH TABLE orders",
    ):
        answer = rita.post("/api/query", json={"sql": sql})
        assert answer.status_code in {400, 403, 501}, (sql, answer.text)
    assert ask(olga, "SELECT count(*) FROM orders FOR VERSION AS OF 'release'") == [[3]]
