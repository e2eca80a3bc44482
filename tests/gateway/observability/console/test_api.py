"""The HTTP API: what it answers, and whom it refuses."""

import io
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.gateway.observability.console.conftest import Site, wait_until
from tests.support.processes.ports import find_free_port
from tests.support.processes.servers import GatewayProcess

pytestmark = pytest.mark.slow

_ORDERS = "SELECT id, note FROM orders ORDER BY id"
_NEWEST = ["in the log", None, "in a generation", "base 3", "base 4", "base 5"]


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["inputs"]:
        yield from walk(child)


class TestAnswers:
    """Whoever reaches a gateway without authentication is let in, as over Flight SQL."""

    def test_rows_are_streamed_with_their_columns_and_an_end(self, site: Site) -> None:
        columns, rows, end = lines(site.log_in().post("/api/query", json={"sql": _ORDERS}))
        assert columns == {"columns": [{"name": "id", "type": "int64"}, {"name": "note", "type": "string"}]}
        assert rows["rows"] == [[number, note] for number, note in enumerate(_NEWEST)]
        assert (end["done"], end["row_count"], end["cut"], end["affected"]) == (True, 6, False, None)

    @pytest.mark.parametrize(
        ("accept", "read"),
        [
            ("application/vnd.apache.arrow.stream", lambda data: pa.ipc.open_stream(data).read_all()),
            ("application/vnd.apache.parquet", lambda data: pq.read_table(io.BytesIO(data))),
            ("text/csv", lambda data: pyarrow.csv.read_csv(io.BytesIO(data))),
        ],
    )
    def test_other_formats_have_the_same_rows(
        self, site: Site, accept: str, read: Callable[[bytes], pa.Table]
    ) -> None:
        answer = site.log_in().post(
            "/api/query", json={"sql": f"{_ORDERS} LIMIT 1"}, headers={"accept": accept}
        )
        assert answer.headers["content-type"].startswith(accept)
        assert read(answer.content).to_pylist() == [{"id": 0, "note": "in the log"}]

    def test_values_that_browsers_do_not_know_are_texts(self, site: Site) -> None:
        sql = "SELECT 9007199254740993 AS big, 'NaN'::double AS nan, vec FROM orders WHERE id = 5"
        (row,) = lines(site.log_in().post("/api/query", json={"sql": sql}))[1]["rows"]
        assert row == ["9007199254740993", "nan", [0.5, 0.5, 0.5, 0.5, "... 60 more"]]

    def test_a_limit_cuts_and_says_so(self, site: Site) -> None:
        *_, rows, end = lines(site.log_in().post("/api/query", json={"sql": _ORDERS, "max_rows": 2}))
        assert (len(rows["rows"]), end["row_count"], end["cut"]) == (2, 2, True)

    @pytest.mark.parametrize("body", [{}, {"analyze": True}])
    def test_whoever_goes_away_stops_the_statement(self, site: Site, body: dict[str, bool]) -> None:
        browser, name = site.log_in(), f"endless_{len(body)}"
        sql = f"SELECT count(*) AS {name} FROM range(10000000000) a CROSS JOIN range(100000) b"
        with pytest.raises(httpx.ReadTimeout):
            browser.post("/api/plan" if body else "/api/query", json={"sql": sql, **body}, timeout=1)
        ends = time.monotonic() + 60
        while True:
            found = browser.get("/api/statements").json()
            if not [query for query in found["under_way"] if name in query["statement"]]:
                break
            assert time.monotonic() < ends, "the statement runs on"
        (query,) = [query for query in found["latest"] if name in query["statement"]]
        assert query["state"] == "cancelled"

    def test_errors_have_the_words_and_the_status_of_the_gateway(self, site: Site) -> None:
        answer = site.log_in().post("/api/query", json={"sql": "SELECT * FROM nowhere"})
        assert answer.status_code == 404
        assert "nowhere" in answer.json()["error"]
        assert "Traceback" not in answer.text

    def test_tables_say_what_plain_lance_would_miss(self, site: Site) -> None:
        found = site.log_in().get("/api/tables").json()
        (region,) = [each for each in found["regions"] if each["table_name"] == "orders"]
        (waiting,) = found["generations"]
        assert (waiting["table_name"], waiting["waiting"], waiting["rows"]) == ("orders", 1, 1)
        assert (region["unflushed_entries"], region["unflushed_rows"]) == (1, 1)

    def test_a_plan_that_has_run_is_a_tree(self, site: Site) -> None:
        browser = site.log_in()
        asked = {"sql": "SELECT note FROM orders WHERE id < $1", "parameters": [2], "analyze": True}
        tree = browser.post("/api/plan", json=asked).json()["tree"]
        nodes = list(walk(tree["plan"]))
        assert {"DatasetExec", "DeduplicateExec"} <= {node["name"] for node in nodes}
        (scan,) = [node["scan"] for node in nodes if node["scan"]]
        assert (scan["table"], scan["regions"], scan["regions_read"]) == ("orders", 1, 1)
        assert [node["rows"] for node in nodes if node["name"] == "DeduplicateExec"] == [2]
        told = browser.post("/api/plan", json={**asked, "analyze": False}).json()["plan"]
        assert "DeduplicateExec" in told[-1]["plan"]

    def test_parameters_are_bound_and_never_text(self, site: Site) -> None:
        browser = site.log_in()

        def ask(sql: str, *parameters: object) -> list[Any]:
            answer = lines(browser.post("/api/query", json={"sql": sql, "parameters": parameters}))
            return answer[1]["rows"]  # type: ignore[no-any-return]

        assert ask("SELECT note FROM orders WHERE id = $1 AND note <> $2", 3, "' OR 1 = 1 --") == [["base 3"]]
        assert ask("SELECT ? AS a, ? AS b, ? AS c", "1", 2.5, None) == [["1", 2.5, None]]
        assert ask("SELECT DATE '2020-01-01' < $1 AS later", "2020-01-02") == [[True]]
        assert ask("SELECT $1 + 0 AS big FROM orders WHERE id = $1", 4) == [[4]]
        vector = [0.5] * 64
        found = ask("SELECT count(*) FROM lance_vector_search('orders', 'vec', $1, k => 4)", vector)
        assert found == [[4]]
        large = "x" * 200_000
        assert ask("SELECT length($1) AS long, id FROM orders WHERE id < $2", large, 1) == [[len(large), 0]]
        for parameters, told in (
            ([1, 2], "1 parameters, and 2 were given"),
            (["x"], "int64"),
            ([{"a": 1}], ""),
        ):
            body = {"sql": "SELECT note FROM orders WHERE id = $1", "parameters": parameters}
            answer = browser.post("/api/query", json=body)
            assert (answer.status_code, told in answer.json()["error"]) == (400, True), answer.text
        kept = re.search(
            r"^lance_gateway_prepared_statements (\S+)$", browser.get("/metrics").text, re.MULTILINE
        )
        assert kept is not None
        assert float(kept[1]) == 0

    def test_options_are_those_of_one_statement(self, site: Site) -> None:
        browser = site.log_in()

        def ask(sql: str, **options: object) -> httpx.Response:
            return browser.post("/api/query", json={"sql": sql, "options": options})

        unflushed = "SELECT note FROM orders WHERE id = 0"
        assert lines(ask(unflushed, consistency="flushed"))[1]["rows"] == [["base 0"]]
        assert lines(ask(unflushed))[1]["rows"] == [["in the log"]]
        assert lines(ask("SELECT `id` FROM orders WHERE `id` = 1", dialect="mysql"))[1]["rows"] == [[1]]
        assert ask("DELETE FROM orders WHERE id = 77", read_only=True).status_code == 403
        for options in ({"dialect": "x\r\ncookie: y"}, {"dialect": "klingon"}, {"authorization": "Bearer x"}):
            assert ask("SELECT 1", **options).status_code == 400

    def test_what_the_pages_ask_is_not_among_the_statements(self, site: Site) -> None:
        browser = site.log_in()
        lines(browser.post("/api/query", json={"sql": "SELECT 1 AS asked_by_somebody"}))
        for path in ("/api/tables", "/api/jobs", "/api/functions", "/api/statements", "/api/statements"):
            assert browser.get(path).status_code == 200
        found = browser.get("/api/statements").json()
        texts = [one["statement"] for name in ("latest", "slowest") for one in found[name]]
        assert any("asked_by_somebody" in text for text in texts)
        assert not any("system.jobs" in text or "SHOW FUNCTIONS" in text for text in texts)

    def test_functions_are_listed_once_with_all_signatures(self, site: Site) -> None:
        functions = site.log_in().get("/api/functions").json()["functions"]
        (found,) = [each for each in functions if each["name"] == "repeat"]
        assert found["syntax"] == "repeat(str, n)"
        assert "repeat(String, Int64) -> String" in found["signatures"]

    def test_history_counts_statements(self, site: Site) -> None:
        browser = site.log_in()
        browser.get("/api/history")
        lines(browser.post("/api/query", json={"sql": "SELECT * FROM range(1000)"}))

        def find_sample() -> dict[str, Any] | None:
            """Return the sample that counts the statement, which may end after its last row was read."""
            samples = browser.get("/api/history").json()["samples"]
            return next((one for one in samples if one["sent_rows"] * one["seconds"] > 999), None)

        sample = wait_until(find_sample)
        assert sample is not None
        assert sample["statements"] > 0
        assert 0 < sample["p50_seconds"] <= sample["p99_seconds"]
        assert sample["memory_bytes"] > 1 << 20

    def test_tables_tell_who_may_write(self, guarded: Site) -> None:
        for user, may in (("olga", True), ("rita", False)):
            tables = guarded.log_in(user).get("/api/tables").json()["tables"]
            (orders,) = [each for each in tables if each["table_name"] == "orders"]
            assert orders["is_writable"] is may

    def test_every_path_is_described(self, site: Site) -> None:
        described = site.browse().get("/api/openapi.json").json()["paths"]
        browser = site.log_in()
        for path, methods in described.items():
            for method in methods:
                assert browser.request(method, path, content=b"{").status_code in {200, 400}, path

    @pytest.mark.parametrize("body", [b"", b"[]", b'{"sql": 1}', b'{"sql": "SELECT 1", "other": 1}'])
    def test_bad_bodies_are_named(self, site: Site, body: bytes) -> None:
        answer = site.log_in().post("/api/query", content=body)
        assert answer.status_code == 400
        assert "the body of /api/query is wrong" in answer.json()["error"]


class TestAttacks:
    """Whoever has no session, or makes others use theirs, gets nothing."""

    @pytest.mark.parametrize(
        "path", ["/api/tables", "/api/statements", "/api/functions", "/api/history", "/api/jobs"]
    )
    def test_without_a_session_nothing_is_told(self, guarded: Site, path: str) -> None:
        assert guarded.browse().get(path).status_code == 401
        forged = {"cookie": "lance_gateway_console=forged"}
        assert guarded.browse().get(path, headers=forged).status_code == 401
        bearer = {"authorization": "Bearer forged"}
        assert guarded.browse().get(path, headers=bearer).status_code == 401

    def test_wrong_passwords_are_refused_and_not_repeated(self, guarded: Site) -> None:
        answer = guarded.browse().post("/api/login", json={"user": "rita", "password": "a guess"})
        assert answer.status_code == 401
        assert "a guess" not in answer.text
        assert guarded.browse().post("/api/login", json={}).status_code == 400

    @pytest.mark.parametrize(
        "path",
        ["/api/query", "/api/plan", "/api/statements/kill", "/api/logout", "/api/jobs", "/api/jobs/cancel"],
    )
    def test_a_cookie_alone_changes_nothing(self, guarded: Site, path: str) -> None:
        browser = guarded.log_in("olga")
        for token in ("", "forged", "\xe9"):
            headers = {"x-csrf-token": token.encode("latin-1")}
            assert browser.post(path, json={"sql": "DROP TABLE secret"}, headers=headers).status_code == 403

    def test_pages_of_other_sites_are_refused(self, guarded: Site, site: Site) -> None:
        for browser in (guarded.log_in("olga"), site.log_in()):
            for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
                answer = browser.post("/api/query", json={"sql": "SELECT 1"}, headers={"origin": origin})
                assert answer.status_code == 403

    def test_a_name_that_was_bent_to_this_machine_is_refused_where_nobody_logs_in(self, site: Site) -> None:
        bent = {"host": "evil.example", "origin": "http://evil.example"}
        assert site.browse().post("/api/login", json={}, headers=bent).status_code == 403
        assert site.browse().get("/api/session", headers=bent).status_code == 403

    def test_the_cookie_is_out_of_reach_of_scripts_and_sites(self, guarded: Site) -> None:
        browser = guarded.log_in("rita")
        cookie = browser.post("/api/login", json={"user": "rita", "password": "correct horse"}).headers[
            "set-cookie"
        ]
        assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}

    def test_pages_run_no_scripts_but_their_own(self, guarded: Site) -> None:
        page = guarded.browse().get("/console/")
        assert page.status_code == 200
        assert "script-src 'self';" in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=|https?://", page.text)

    @pytest.mark.parametrize(
        "path", ["../app.py", "%2e%2e/app.py", "..%2fapp.py", "%2fetc%2fpasswd", "//etc/passwd"]
    )
    def test_no_path_leads_out_of_the_pages(self, guarded: Site, path: str) -> None:
        url = httpx.URL(guarded.url).copy_with(raw_path=f"/console/{path}".encode())
        assert httpx.get(url).status_code == 404

    def test_policies_hold(self, guarded: Site) -> None:
        browser = guarded.log_in("rita")
        assert lines(browser.post("/api/query", json={"sql": "SELECT count(*) FROM orders"}))[1]["rows"] == [
            [3]
        ]
        for sql in ("SELECT * FROM secret", "DELETE FROM orders"):
            answer = browser.post("/api/query", json={"sql": sql})
            assert answer.status_code in {403, 404}, answer.text
        for path in ("/api/tables", "/api/statements", "/api/history"):
            assert "canary" not in browser.get(path).text
        (scan,) = [
            node["scan"]
            for node in walk(
                browser.post("/api/plan", json={"sql": _ORDERS, "analyze": True}).json()["tree"]["plan"]
            )
            if node["scan"]
        ]
        assert (scan["is_restricted"], scan["version"], scan["regions"]) == (True, None, None)
        guarded.log_in("olga").post("/api/query", json={"sql": "SELECT canary FROM secret"})
        assert "canary" not in browser.get("/api/statements").text

    def test_nobody_kills_the_statements_of_others_or_writes_sql_into_an_id(self, guarded: Site) -> None:
        browser = guarded.log_in("rita")
        answer = browser.post("/api/statements/kill", json={"query_id": "nobody's"})
        assert answer.status_code == 400
        assert browser.post("/api/statements/kill", json={"query_id": "x"}).status_code == 404

    def test_a_session_that_was_left_is_over(self, guarded: Site) -> None:
        browser = guarded.log_in("rita")
        left = guarded.browse()
        left.cookies.update(browser.cookies)
        assert left.get("/api/tables").status_code == 200
        assert browser.post("/api/logout", json={}).status_code == 200
        assert left.get("/api/tables").status_code == 401


def test_it_is_off_where_a_setting_says_so(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    port = find_free_port()
    off = ("--set", "observability.console=false")
    with GatewayProcess(tmp_path / "lake", "--http-port", str(port), *off):
        for path in ("/console/", "/api/session"):
            assert httpx.get(f"http://127.0.0.1:{port}{path}").status_code == 404
        assert httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
