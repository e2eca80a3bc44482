"""Two gateways with a console: one for anybody on this machine, one with users and a policy."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import lance
import pyarrow as pa
import pytest
from argon2 import PasswordHasher
from selenium import webdriver

from lance_gateway.gateway.auth.users import User, write_user
from tests.gateway.observability.console.browsing import open_browser
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess
from tests.support.processes.writer_process import WriterProcess

PASSWORD = "correct horse"
_PATIENCE_SECONDS = 120
T = TypeVar("T")
_POLICY = """
[roles.reader]
grants = [{ tables = ["orders"], rows = "id < 3" }]

[roles.owner]
grants = [{ tables = ["*"], write = true }]

[users]
rita = ["reader"]
olga = ["owner"]
"""


def wait_until(ask: Callable[[], T]) -> T:
    """Ask again and again until something is answered that is true, and return it."""
    ends, pause = time.monotonic() + _PATIENCE_SECONDS, threading.Event()
    while not (answer := ask()):
        assert time.monotonic() < ends, "it does not come"
        pause.wait(0.05)
    return answer


@dataclass(frozen=True, slots=True)
class Site:
    """A console."""

    url: str
    process: GatewayProcess
    browsers: ExitStack

    def browse(self) -> httpx.Client:
        """A browser that keeps cookies; closed with the site."""
        return self.browsers.enter_context(httpx.Client(base_url=self.url, timeout=60))

    def log_in(self, user: str | None = None) -> httpx.Client:
        """A browser whose page repeats the token of its session."""
        browser = self.browse()
        body: dict[str, Any] = {} if user is None else {"user": user, "password": PASSWORD}
        answer = browser.post("/api/login", json=body)
        assert answer.status_code == 200, answer.text
        browser.headers["x-csrf-token"] = answer.json()["csrf_token"]
        return browser


def create_orders(lake: Path, writers: WriterProcess) -> LsmTable:
    """Make a table with rows in its base, in a generation and in the log."""
    schema = pa.schema(
        [key_field("id", pa.int64()), ("note", pa.string()), ("vec", pa.list_(pa.float32(), 64))]
    )
    rows = [
        {"id": number, "note": None if number == 1 else f"base {number}", "vec": [0.5] * 64}
        for number in range(6)
    ]
    table = LsmTable.create(
        lake,
        "orders",
        pa.Table.from_pylist(rows, schema=schema),
        bucketed("id", 1, recorded=True),
        writers,
    )
    table.put([{**rows[2], "note": "in a generation"}])
    table.close_writers()
    table.put([{**rows[0], "note": "in the log"}])
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Path:
    """A fresh table, and one that readers may not see."""
    folder = tmp_path_factory.mktemp("console")
    lake = folder / "lake"
    lake.mkdir()
    create_orders(lake, shared_writers)
    lance.write_dataset(pa.table({"canary": [4711]}), lake / "secret.lance")
    return folder


def write_people(folder: Path) -> list[str]:
    """Write files of users and a policy, and return the options of a gateway that name them."""
    quick = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    for name in ("rita", "olga"):
        write_user(folder / "users.toml", User(name, quick.hash(PASSWORD)), replace=True)
    (folder / "policy.toml").write_text(_POLICY)
    files = [f"auth.{name}_file={folder / name}.toml" for name in ("users", "policy")]
    return [part for one in files for part in ("--set", one)]


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Site]:
    with serve(folder, *write_people(folder)) as guarded:
        yield guarded


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    with serve(folder) as site:
        yield site


@contextmanager
def serve(folder: Path, *options: str) -> Iterator[Site]:
    """Serve the directory `lake` of a folder."""
    port = find_free_port()
    with (
        GatewayProcess(folder / "lake", "--http-port", str(port), *options) as process,
        ExitStack() as browsers,
    ):
        yield Site(f"http://127.0.0.1:{port}", process, browsers)


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def driver(downloads: Path) -> Iterator[webdriver.Chrome]:
    driver = open_browser(downloads)
    yield driver
    driver.quit()
