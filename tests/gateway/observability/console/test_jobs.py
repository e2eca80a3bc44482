"""Jobs that users start through the HTTP API: what they do, who may start them, and how they end."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest

from tests.gateway.observability.console.conftest import Site, create_orders, serve, wait_until, write_people
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

pytestmark = pytest.mark.slow

_GENERATIONS = 96
# A commit looks for its rows among all of these.
_ROWS = 100_000
_SCHEMA = pa.schema([key_field("id", pa.int64()), ("note", pa.string())])
# Each row is a commit of its own, so that a merge of many takes a while.
_CONFIG = '[pipeline.merge]\nbatch_rows = 1\n\n[pipeline.clean]\ngrace = "0s"\nolder_than = "0s"\n'
_KINDS = ("merge", "snapshot", "clean")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Path:
    """A table with a little to do, one with much, and one that readers may not see."""
    folder = tmp_path_factory.mktemp("jobs")
    lake = folder / "lake"
    lake.mkdir()
    create_orders(lake, shared_writers)
    rows = pa.table([pa.array(range(_ROWS)), pa.array(["base"] * _ROWS)], schema=_SCHEMA)
    long = LsmTable.create(lake, "long", rows, unpartitioned(("id",), 1), shared_writers)
    for number in range(_GENERATIONS):
        long.put([{"id": number, "note": f"generation {number}"}])
        long.close_writers()
    lance.write_dataset(pa.table({"canary": [4711]}), lake / "secret.lance")
    (folder / "gateway.toml").write_text(_CONFIG)
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "folder"))


@pytest.fixture(scope="module")
def shared_folder(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(template, tmp_path_factory.mktemp("shared") / "folder"))


@pytest.fixture(scope="module")
def site(shared_folder: Path) -> Iterator[Site]:
    """A gateway that tests share: of its tables they know only that all rows are there."""
    with _serve(shared_folder) as site:
        yield site


def _serve(folder: Path, *options: str) -> AbstractContextManager[Site]:
    return serve(folder, "--config", str(folder / "gateway.toml"), *write_people(folder), *options)


def start(browser: httpx.Client, kind: str, table: str = "orders", **asked: str) -> dict[str, Any]:
    answer = browser.post("/api/jobs", json={"kind": kind, "table_name": table, **asked})
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def look(browser: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    answer = browser.get("/api/jobs", params={"job_id": job["job_id"]})
    assert answer.status_code == 200, answer.text
    (found,) = answer.json()["started"]
    return found  # type: ignore[no-any-return]


def finish(browser: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    def has_ended() -> dict[str, Any] | None:
        found = look(browser, job)
        return None if found["state"] == "running" else found

    return wait_until(has_ended)


def run(browser: httpx.Client, kind: str, table: str = "orders", **asked: str) -> dict[str, Any]:
    """Run a job that succeeds, and return what it reports."""
    ended = finish(browser, start(browser, kind, table, **asked))
    assert ended["state"] == "done", ended
    return ended


def list_versions(job: dict[str, Any]) -> set[int]:
    """The versions of the base table that a clean-up has found, or removed."""
    return {one["first"] for one in job["report"]["garbage"] if one["kind"] == "versions"}


def read(browser: httpx.Client, table: str) -> dict[int, str | None]:
    answer = browser.post(
        "/api/query",
        json={"sql": f"SELECT id, note FROM {table}"},
        headers={"accept": "application/vnd.apache.arrow.stream"},
    )
    assert answer.status_code == 200, answer.text
    rows = pa.ipc.open_stream(answer.content).read_all()
    assert rows.num_rows == len(set(rows["id"].to_pylist()))
    return dict(zip(rows["id"].to_pylist(), rows["note"].to_pylist(), strict=True))


def count_waiting(browser: httpx.Client, table: str) -> int:
    generations = browser.get("/api/tables").json()["generations"]
    return sum(one["waiting"] for one in generations if one["table_name"] == table)


def list_children(site: Site) -> set[int]:
    """Numbers of the processes of jobs that the gateway has started."""
    found = set()
    for tasks in Path(f"/proc/{site.process.pid}/task").iterdir():
        with suppress(OSError):
            for pid in (tasks / "children").read_text().split():
                if "lance_gateway.gateway.cli.supervised" in Path(f"/proc/{pid}/cmdline").read_text():
                    found.add(int(pid))
    return found


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return "lance_gateway.gateway.cli.supervised" in Path(f"/proc/{pid}/cmdline").read_text()
    return False


_ORDERS = {0: "in the log", 1: None, 2: "in a generation", 3: "base 3", 4: "base 4", 5: "base 5"}
_LONG = {number: f"generation {number}" if number < _GENERATIONS else "base" for number in range(_ROWS)}


class TestWhatTheyDo:
    """Each kind does what its command does, and answers stay what they were."""

    @pytest.mark.soak
    def test_a_merge_a_snapshot_and_a_clean_up_follow_each_other(
        self, site: Site, shared_folder: Path
    ) -> None:
        browser = site.log_in("olga")
        merged = run(browser, "merge")
        assert (merged["report"]["generations"], merged["user"]) == (1, "olga")
        assert count_waiting(browser, "orders") == 0
        assert run(browser, "snapshot")["report"]["regions"] == 1
        found = run(browser, "clean")
        assert (found["may_be_confirmed"], found["report"]["removed"]) == (True, False)
        versions = shared_folder / "lake/orders.lance/_versions"
        before = {path.name for path in versions.iterdir()}
        # What becomes garbage later was not shown, and stays.
        shown = list_versions(found)
        run(browser, "snapshot")
        optimized = browser.post("/api/query", json={"sql": "OPTIMIZE orders"})
        assert '"done":true' in optimized.text
        again = run(browser, "clean")
        more = list_versions(again)
        assert more > shown
        removed = run(browser, "clean", confirms=found["job_id"])
        assert list_versions(removed) == shown
        assert removed["report"]["removed"]
        assert len(before - {path.name for path in versions.iterdir()}) == len(shown)
        assert list_versions(run(browser, "clean")) == more - shown
        assert read(browser, "orders") == _ORDERS

    @pytest.mark.soak
    def test_progress_is_told_and_whoever_started_a_job_cancels_it(self, site: Site) -> None:
        olga, rita = site.log_in("olga"), site.log_in("rita")
        job = start(olga, "merge", "long")

        def is_under_way() -> bool:
            progress = look(olga, job)["progress"]
            return progress is not None and progress["total"] is not None

        wait_until(is_under_way)
        (record,) = [one for one in olga.get("/api/jobs").json()["running"] if one["table_name"] == "long"]
        assert (record["kind"], record["user"]) == ("merge", "olga")
        sql = "SELECT user, kind, unit FROM system.jobs"
        assert '[["olga","merge",' in olga.post("/api/query", json={"sql": sql}).text
        # rita may not see the table.
        told = rita.get("/api/jobs").json()
        assert told["running"] == told["started"] == []
        assert rita.get("/api/jobs", params={"job_id": job["job_id"]}).status_code == 404
        assert rita.post("/api/jobs/cancel", json={"job_id": job["job_id"]}).status_code == 404
        assert olga.post("/api/jobs/cancel", json={"job_id": job["job_id"]}).status_code == 200
        ended = finish(olga, job)
        assert (ended["state"], ended["progress"]) == ("cancelled", None)
        assert read(olga, "long") == _LONG
        run(olga, "merge", "long")
        assert count_waiting(olga, "long") == 0
        assert read(olga, "long") == _LONG

    @pytest.mark.soak
    def test_what_fails_says_why(self, site: Site) -> None:
        browser = site.log_in("olga")
        ended = finish(browser, start(browser, "merge", "secret"))
        assert (ended["state"], ended["report"]) == ("failed", None)
        assert "report" not in browser.get("/api/jobs").json()["started"][-1]
        assert "'secret' has no MemWAL" in ended["lines"][-1]
        assert "Traceback" not in "".join(ended["lines"])


class TestAttacks:
    """Whoever may not run OPTIMIZE of a table starts no job of it, whatever they write."""

    def test_neither_readers_nor_bad_names_start_anything(self, site: Site) -> None:
        olga, rita = site.log_in("olga"), site.log_in("rita")
        before = olga.get("/api/jobs").json()["started"]

        def ask(browser: httpx.Client, **body: object) -> httpx.Response:
            return browser.post("/api/jobs", json=body)

        for kind in _KINDS:
            # She sees some rows of one, and nothing of the others.
            assert ask(rita, kind=kind, table_name="orders").status_code == 403
            hidden = ask(rita, kind=kind, table_name="secret")
            assert hidden.status_code == 404
            assert hidden.text.replace("secret", "nowhere") == ask(rita, kind=kind, table_name="nowhere").text
        for name in (
            *("../orders", "../../etc", "/etc/passwd", "orders.lance", "main.orders", "a/../orders", "."),
            *("-x", "--help", "--all", "orders --delete", "orders\n--delete", "orders\0", "$(id)", "*", "%"),
            *('orders"; DROP TABLE orders; --', "orders'; DROP TABLE orders; --", '"orders"', "_gateway"),
        ):
            answer = ask(olga, kind="clean", table_name=name)
            assert answer.status_code in {400, 404}, f"{name!r}: {answer.text}"
        for schema in ("..", "../lake", "system", "information_schema", "pg_temp_1", "--", "orders.lance"):
            answer = ask(olga, kind="clean", table_name="orders", table_schema=schema)
            assert answer.status_code in {400, 404, 501}, f"{schema!r}: {answer.text}"
        for body in (
            {"kind": "index", "table_name": "orders"},
            {"kind": "clean --delete", "table_name": "orders"},
            {"kind": "clean", "table_name": ""},
            {"kind": "clean", "table_name": "x" * 2000},
            {"kind": "clean", "table_name": ["orders"]},
            {"kind": "clean", "table_name": "orders", "delete": True},
            {"kind": "clean", "table_name": "orders", "report": {"garbage": []}},
        ):
            assert ask(olga, **body).status_code == 400, body
        assert list_children(site) == set()
        assert olga.get("/api/jobs").json()["started"] == before
        assert rita.post("/api/jobs/cancel", json={"job_id": "x"}).status_code == 404

    @pytest.mark.soak
    def test_only_what_somebody_was_shown_is_confirmed(self, site: Site) -> None:
        olga, rita = site.log_in("olga"), site.log_in("rita")
        run(olga, "merge")
        nothing = run(olga, "snapshot")
        found = run(olga, "clean")
        for browser, kind, table, confirms, status in (
            (rita, "clean", "orders", found["job_id"], 403),
            (olga, "clean", "orders", "forged", 404),
            (olga, "clean", "orders", nothing["job_id"], 409),
            (olga, "clean", "long", found["job_id"], 409),
            (olga, "merge", "orders", found["job_id"], 409),
        ):
            body = {"kind": kind, "table_name": table, "confirms": confirms}
            answer = browser.post("/api/jobs", json=body)
            assert answer.status_code == status, answer.text
        assert list_versions(run(olga, "clean")) >= list_versions(found) != set()

    @pytest.mark.soak
    def test_jobs_are_few(self, site: Site) -> None:
        olga = site.log_in("olga")
        job = start(olga, "merge", "long")
        same = olga.post("/api/jobs", json={"kind": "clean", "table_name": "long"})
        assert (same.status_code, "merge of table 'long' runs" in same.text) == (409, True)
        other = olga.post("/api/jobs", json={"kind": "clean", "table_name": "orders"})
        assert (other.status_code, "jobs.max_running" in other.text) == (429, True)
        assert len(list_children(site)) == 1
        olga.post("/api/jobs/cancel", json={"job_id": job["job_id"]})
        finish(olga, job)
        run(olga, "clean")

    @pytest.mark.parametrize(
        "off", ["jobs.max_running=0", pytest.param("writes.enabled=false", marks=pytest.mark.soak)]
    )
    def test_a_gateway_may_run_none(self, folder: Path, off: str) -> None:
        with _serve(folder, "--set", off) as site:
            olga = site.log_in("olga")
            assert olga.get("/api/jobs").json()["max_running"] == 0
            answer = olga.post("/api/jobs", json={"kind": "merge", "table_name": "orders"})
            assert answer.status_code in {400, 409}, answer.text
            assert "read-only" in answer.json()["error"]
            assert list_children(site) == set()


# Each starts two gateways and their jobs, which takes minutes on a machine that has much else to do.
@pytest.mark.timeout(900)
class TestTheirEnd:
    """A job ends with its gateway, and at its time; the table is right, and the next run goes on."""

    def _end_during_merge(self, folder: Path, end: Callable[[Site], object]) -> int:
        """End a gateway that merges; return how many generations waited then, which are merged now."""
        with _serve(folder) as site:
            olga = site.log_in("olga")
            version = lance.dataset(str(folder / "lake/long.lance")).version
            start(olga, "merge", "long")
            (child,) = wait_until(lambda: list_children(site))
            wait_until(lambda: lance.dataset(str(folder / "lake/long.lance")).version > version)
            end(site)
            wait_until(lambda: not is_alive(child))
        with _serve(folder) as site:
            olga = site.log_in("olga")
            waiting = count_waiting(olga, "long")
            assert read(olga, "long") == _LONG
            assert run(olga, "merge", "long")["report"]["generations"] == waiting
            assert count_waiting(olga, "long") == 0
            assert read(olga, "long") == _LONG
        return waiting

    @pytest.mark.soak
    def test_a_gateway_that_stops_ends_its_job(self, folder: Path) -> None:
        # It may have got to the end while the gateway stopped.
        assert self._end_during_merge(folder, lambda site: site.process.stop()) < _GENERATIONS

    @pytest.mark.soak
    def test_a_gateway_that_is_killed_takes_its_job_along(self, folder: Path) -> None:
        assert 0 < self._end_during_merge(folder, lambda site: site.process.kill()) < _GENERATIONS

    @pytest.mark.soak
    def test_a_job_that_takes_too_long_is_stopped(self, folder: Path) -> None:
        with _serve(folder, "--set", "jobs.timeout=1s") as site:
            olga = site.log_in("olga")
            assert finish(olga, start(olga, "merge", "long"))["state"] == "timed out"
            assert list_children(site) == set()
            assert read(olga, "long") == _LONG
