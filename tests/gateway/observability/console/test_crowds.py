"""The HTTP port under load: who reads nothing, leaves, or guesses keeps nobody else from being served."""

import select
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.auth.credentials import Basic
from lance_gateway.gateway.observability.console import app, visits
from tests.gateway.observability.console.conftest import PASSWORD, wait_until, write_people
from tests.gateway.observability.console.in_process import Office, open_office, read_answer, read_status
from tests.support.lake.tables import key_field

pytestmark = pytest.mark.slow

_LARGE = "SELECT repeat('x', 1000) AS x FROM range(10000000)"
_LONG = "SELECT count(*) FROM range(10000000000) a CROSS JOIN range(100000) b"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crowds")
    schema = pa.schema([key_field("id", pa.int64())])
    (folder / "lake").mkdir()
    lance.write_dataset(pa.table([pa.array([1, 2, 3])], schema=schema), folder / "lake" / "orders.lance")
    write_people(folder)
    return folder


@pytest.fixture(scope="module")
def office(folder: Path) -> Iterator[Office]:
    flags = {f"auth.{name}_file": str(folder / f"{name}.toml") for name in ("users", "policy")}
    with open_office(folder / "lake", **flags) as office:
        with office.browse(user="olga", password=PASSWORD) as olga:
            create = {"sql": "CREATE TABLE written (n BIGINT PRIMARY KEY)"}
            assert olga.post("/api/query", json=create).status_code == 200
        yield office


@pytest.fixture
def rita(office: Office) -> Iterator[httpx.Client]:
    with office.browse(user="rita", password=PASSWORD) as browser:
        yield browser


@pytest.fixture
def olga(office: Office) -> Iterator[httpx.Client]:
    with office.browse(user="olga", password=PASSWORD) as browser:
        yield browser


def assert_serves(browser: httpx.Client) -> None:
    """Probes are answered, and so are other users."""
    for path in ("/livez", "/readyz", "/healthz", "/metrics"):
        assert browser.get(path).status_code == 200
    answer = browser.post("/api/query", json={"sql": "SELECT count(*) FROM orders"})
    assert '"done":true' in answer.text


@pytest.mark.soak
def test_a_user_who_reads_nothing_fills_no_more_than_their_own_places(
    office: Office, rita: httpx.Client, olga: httpx.Client
) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(office.send("/api/query", {"sql": _LARGE}, rita)) for _ in range(100)]
        wait_until(lambda: office.count_active("rita") == visits._MAX_RUNNING)
        assert_serves(olga)
        assert rita.get("/api/tables").status_code == 429
        answered, _, _ = select.select(clients, [], [], 0)
        statuses = Counter(read_status(client) for client in answered)
        assert statuses[429] == len(clients) - visits._MAX_RUNNING - visits._MAX_WAITING
    wait_until(lambda: office.count_active("rita") == 0)
    assert rita.get("/api/tables").status_code == 200


@pytest.mark.parametrize(
    ("path", "sql"),
    [
        ("/api/query", _LONG),
        ("/api/query", f"INSERT INTO written {_LONG}"),
        ("/api/plan", _LONG),
    ],
)
def test_a_client_that_leaves_frees_its_statement(
    office: Office, olga: httpx.Client, path: str, sql: str
) -> None:
    with office.send(path, {"sql": sql, **({"analyze": True} if "plan" in path else {})}, olga) as client:
        wait_until(lambda: office.count_active("olga"))
        # More of the next request than fits into one read hides no client that leaves.
        client.sendall(b"GET /livez HTTP/1.1\r\n")
    wait_until(lambda: office.count_active("olga") == 0)
    assert_serves(olga)


def test_bodies_that_do_not_come_are_given_up(
    office: Office, olga: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_LOGIN_SECONDS", 0.05)
    with office.connect() as client:
        client.sendall(b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{")
        assert read_status(client) == 408
    answer = olga.post("/api/login", json={"user": "x" * (1 << 20), "password": ""})
    assert answer.status_code == 400


def test_parameters_that_are_nested_deeply_are_refused(olga: httpx.Client) -> None:
    for depth in (30, 33, 150, 1_000, 100_000):
        deep = "[" * depth + "1" + "]" * depth
        content = f'{{"sql": "SELECT $1 IS NULL", "parameters": {deep}}}'
        answer = olga.post("/api/query", content=content)
        assert answer.status_code == 400 if depth > 32 else answer.status_code in {200, 400}, depth
        assert "Traceback" not in answer.text


def test_guesses_are_counted_by_address_and_capped(folder: Path) -> None:
    with ExitStack() as stack:
        office = stack.enter_context(
            open_office(folder / "lake", **{"auth.users_file": str(folder / "users.toml")})
        )
        browser = stack.enter_context(office.browse(user="olga", password=PASSWORD))
        clients = [
            stack.enter_context(office.send("/api/login", {"user": f"name{number}", "password": "a guess"}))
            for number in range(60)
        ]
        answers = [read_answer(client) for client in clients]
        statuses = Counter(status for status, _, _ in answers)
        assert set(statuses) == {401, 429}
        assert statuses[401] <= visits._MAX_LOGINS
        assert all("retry-after" in headers for status, headers, _ in answers if status == 429)
        # However many names are tried: the address has to wait, and who is in stays in.
        answer = browser.post("/api/login", json={"user": "olga", "password": PASSWORD})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        assert "by this address" in answer.json()["error"]
        assert_serves(browser)


def test_logins_of_clients_that_left_leave_the_queue(
    office: Office, olga: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified, is_open = Counter[str](), threading.Event()
    assert office.security.authenticator is not None
    verify = office.security.authenticator.login

    def wait(credentials: Basic, address: str | None = None) -> str:
        verified[credentials.name] += 1
        is_open.wait()
        return verify(credentials, address)

    monkeypatch.setattr(office.security.authenticator, "login", wait)
    with ExitStack() as stack:
        clients = [
            stack.enter_context(office.send("/api/login", {"user": f"left{number}", "password": "x"}))
            for number in range(visits._MAX_LOGINS)
        ]
        wait_until(lambda: sum(verified.values()) == 2)
        refused = stack.enter_context(office.send("/api/login", {"user": "late", "password": "x"}))
        assert read_status(refused) == 429
        assert_serves(olga)
        for client in clients:
            client.close()
        own = {"user": "olga", "password": PASSWORD}

        def log_in() -> bool:
            with office.send("/api/login", own) as client:
                return bool(select.select([client], [], [], 0.2)[0]) is False

        wait_until(log_in)
        is_open.set()
    wait_until(lambda: olga.post("/api/login", json=own).status_code == 200)
    assert verified["olga"] >= 1
    assert sum(count for name, count in verified.items() if name.startswith("left")) == 2


def test_followers_of_a_user_leave_probes_and_others_alone(
    office: Office, rita: httpx.Client, olga: httpx.Client
) -> None:
    follow = "SELECT * FROM lance_changes('written', since => now(), follow => true)"
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(office.send("/api/query", {"sql": follow}, olga))
        wait_until(lambda: office.count_active("olga") >= visits._MAX_RUNNING)
        assert_serves(rita)
    wait_until(lambda: office.count_active("olga") == 0)


def test_pages_of_another_scheme_are_refused(office: Office, olga: httpx.Client) -> None:
    url = f"127.0.0.1:{office.port}"
    for origin, status in ((f"http://{url}", 200), (f"https://{url}", 403), ("http://127.0.0.1:1", 403)):
        assert olga.get("/api/session", headers={"origin": origin}).status_code == status, origin
    # A proxy that encrypts says so; then pages that came without it are strange.
    proxied = {"x-forwarded-proto": "https", "host": "gateway.example"}
    own = {**proxied, "origin": "https://gateway.example"}
    answer = olga.post("/api/login", json={"user": "olga", "password": PASSWORD}, headers=own)
    assert "secure" in answer.headers["set-cookie"].lower()
    strange = {**proxied, "origin": "http://gateway.example"}
    assert olga.get("/api/session", headers=strange).status_code == 403


def test_users_see_totals_of_their_own(rita: httpx.Client, olga: httpx.Client) -> None:
    def read(browser: httpx.Client) -> float:
        samples = browser.get("/api/history").json()["samples"]
        assert {sample["memory_bytes"] for sample in samples} == {None}
        return sum(sample["sent_rows"] * sample["seconds"] for sample in samples)

    before = {browser: read(browser) for browser in (rita, olga)}
    assert rita.post("/api/query", json={"sql": "SELECT * FROM range(100000)"}).status_code == 200
    wait_until(lambda: read(rita) - before[rita] > 99_000)
    assert read(olga) - before[olga] < 10_000
