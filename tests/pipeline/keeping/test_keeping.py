"""A root kept healthy: what is due is done, what fails is left alone for a while, and a signal ends it."""

import http.client
import json
import logging
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from lance_gateway.memwal.errors import NotFoundError, UnavailableError
from lance_gateway.pipeline.cleaning import CleanPolicy
from lance_gateway.pipeline.cli import app
from lance_gateway.pipeline.jobs.lake import Lake, LakeTable, TableState
from lance_gateway.pipeline.jobs.runners import Progress, Runner
from lance_gateway.pipeline.keeping import Keeper, Policies, RunPolicy
from lance_gateway.pipeline.keeping.keeper import STEPS, StepResult
from lance_gateway.pipeline.keeping.metrics import HttpServer, KeeperMetrics
from lance_gateway.pipeline.keeping.running import run_until
from lance_gateway.pipeline.merging import MergePolicy
from lance_gateway.pipeline.snapshotting import SnapshotPolicy
from lance_gateway.pipeline.status import read_status
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
EAGER = Policies(snapshot=SnapshotPolicy(max_age_seconds=0))


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def new_table(root: Path, writers: WriterProcess) -> Callable[[str], LsmTable]:
    def make(name: str) -> LsmTable:
        base = pa.Table.from_pylist([{"id": one, "v": "base"} for one in range(10)], schema=SCHEMA)
        return LsmTable.create(root, name, base, bucketed("id", 2, recorded=True), writers)

    return make


def write(table: LsmTable, *ids: int, v: str = "new") -> None:
    table.put([{"id": one, "v": v} for one in ids])
    table.close_writers()


def newest(table: LsmTable) -> dict[int, str]:
    return {row["id"]: row["v"] for row in table.dataset().to_table().to_pylist()}


class TestWhatIsDue:
    def test_tables_become_healthy_and_then_are_left_alone(
        self, root: Path, new_table: Callable[[str], LsmTable]
    ):
        written = new_table("t")
        written.dataset().create_scalar_index("v", "BTREE")
        write(written, 1, 2, 3)
        lance.write_dataset(pa.table({"a": [1]}), root / "plain.lance")
        keeper = Keeper(Lake.open(str(root)), EAGER)

        first = keeper.round()

        assert (first.tables, first.failed, first.did) == (("plain", "t"), {}, 3)
        status = read_status(Lake.open(str(root)).table("t"))
        assert (status.pending_generations, status.indexes[0].generations_behind) == (0, 0)
        assert status.snapshot_age_seconds is not None
        assert newest(written) == dict.fromkeys(range(10), "base") | dict.fromkeys((1, 2, 3), "new")
        for _ in range(3):
            version = written.dataset().version
            assert keeper.round().did == 0
            assert written.dataset().version == version

    def test_nothing_is_removed_unless_it_is_allowed(self, root: Path, new_table: Callable[[str], LsmTable]):
        written = new_table("t")
        write(written, 1)
        lake = Lake.open(str(root))
        clock = Clock()
        clean = CleanPolicy(grace_seconds=0, retain_versions=1)
        Keeper(lake, Policies(clean=clean)).round()
        (region,) = TableState.read(lake.table("t")).regions.values()
        assert region.done

        keeper = Keeper(lake, Policies(clean=clean, run=RunPolicy(delete=True)), clock=clock)
        keeper.round()
        (region,) = TableState.read(lake.table("t")).regions.values()
        assert not region.done

    def test_cleaning_is_done_at_intervals(self, root: Path, new_table: Callable[[str], LsmTable]):
        new_table("t")
        clock, cleaned = Clock(), []

        def clean(*_: object) -> StepResult:
            cleaned.append(clock())
            return StepResult()

        policies = Policies(run=RunPolicy(delete=True, clean_interval_seconds=600))
        keeper = Keeper(Lake.open(str(root)), policies, steps={**STEPS, "clean": clean}, clock=clock)
        for clock.now in (0.0, 10.0, 599.0, 600.0, 610.0, 1200.0):
            keeper.round()
        assert cleaned == [0.0, 600.0, 1200.0]

    def test_what_a_policy_leaves_is_looked_at_again(self, root: Path, new_table: Callable[[str], LsmTable]):
        written = new_table("t")
        write(written, 1)
        keeper = Keeper(Lake.open(str(root)), Policies(merge=MergePolicy(min_generations=2)))
        keeper.round()
        keeper.round()
        assert newest(written)[1] == "base"
        write(written, 1, v="newer")
        keeper.round()
        assert newest(written)[1] == "newer"

    def test_tables_come_and_go(self, root: Path, new_table: Callable[[str], LsmTable]):
        metrics = KeeperMetrics()
        keeper = Keeper(Lake.open(str(root)), EAGER, observers=(metrics,))
        assert keeper.round().tables == ()
        write(new_table("one"), 1)
        assert keeper.round().tables == ("one",)
        write(new_table("two"), 1)
        assert keeper.round().tables == ("one", "two")
        shutil.rmtree(root / "one.lance")
        assert keeper.round().tables == ("two",)
        assert metrics.registry.get_sample_value("lance_pipeline_table_failures", {"table": "one"}) is None
        write(new_table("one"), 2)
        assert keeper.round().tables == ("two", "one")

    def test_only_the_tables_that_are_named(self, root: Path, new_table: Callable[[str], LsmTable]):
        new_table("one")
        new_table("two")
        assert Keeper(Lake.open(str(root)), EAGER, ["two", "three"]).round().tables == ("two",)

    @pytest.mark.slow
    def test_several_keepers_of_one_root_do_no_harm(self, root: Path, new_table: Callable[[str], LsmTable]):
        written = new_table("t")
        expected = dict.fromkeys(range(10), "base")
        for at in range(4):
            write(written, at, at + 1, v=f"at {at}")
            expected |= dict.fromkeys((at, at + 1), f"at {at}")
        failed: list[object] = []

        def keep() -> None:
            keeper = Keeper(Lake.open(str(root)), EAGER)
            failed.extend(keeper.round(patient=False).failed.values())

        threads = [threading.Thread(target=keep) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        Keeper(Lake.open(str(root)), EAGER).round()
        assert newest(written) == expected
        assert read_status(Lake.open(str(root)).table("t")).pending_generations == 0


class TestWhatFails:
    @pytest.fixture
    def steps(self) -> dict[str, Callable[[LakeTable, Policies, Runner, Progress], StepResult]]:
        def merge(table: LakeTable, *_: object) -> StepResult:
            if table.name == "bad":
                raise UnavailableError("storage is away")
            return StepResult("did it", {"generations": 2})

        return {"merge": merge}

    def test_one_table_does_not_stop_the_others(
        self,
        root: Path,
        new_table: Callable[[str], LsmTable],
        steps: dict[str, Callable[..., StepResult]],
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ):
        monkeypatch.setattr(random, "uniform", lambda _low, high: high)
        for name in ("bad", "good"):
            new_table(name)
        clock, metrics = Clock(), KeeperMetrics()
        policies = Policies(run=RunPolicy(first_pause_seconds=5, longest_pause_seconds=12))
        keeper = Keeper(Lake.open(str(root)), policies, steps=steps, clock=clock, observers=(metrics,))
        looked_at = []
        for clock.now in (0.0, 4.9, 5.0, 14.9, 15.0, 26.9, 27.0):
            found = keeper.round()
            looked_at.append("bad" in found.tables)
            assert "good" in found.tables
            assert found.paused == (() if "bad" in found.tables else ("bad",))
        # Pauses of 5, 10 and then 12 seconds.
        assert looked_at == [True, False, True, False, True, False, True]
        value = metrics.registry.get_sample_value
        assert value("lance_pipeline_table_failures", {"table": "bad"}) == 4
        assert value("lance_pipeline_table_failures", {"table": "good"}) == 0
        outcome = {"table": "bad", "step": "merge", "outcome": "failed"}
        assert value("lance_pipeline_steps_total", outcome) == 4
        work = {"table": "good", "step": "merge", "what": "generations"}
        assert value("lance_pipeline_work_total", work) == 14
        warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
        assert warnings[0].getMessage() == "table bad is left alone for 5 s: storage is away"
        assert (vars(warnings[1])["table"], vars(warnings[1])["failures"]) == ("bad", 2)
        assert warnings[0].exc_info is None

        steps.clear()
        clock.now = 1000.0
        keeper.round()
        assert value("lance_pipeline_table_failures", {"table": "bad"}) == 0

    def test_what_nobody_expected_is_logged_with_its_place(
        self, root: Path, new_table: Callable[[str], LsmTable], caplog: pytest.LogCaptureFixture
    ):
        new_table("t")

        def merge(*_: object) -> StepResult:
            raise RuntimeError("a bug")

        found = Keeper(Lake.open(str(root)), Policies(), steps={"merge": merge}).round()
        assert found.failed == {"t": "RuntimeError: a bug"}
        (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        assert record.exc_info is not None

    def test_a_table_that_is_dropped_meanwhile_is_no_failure(
        self, root: Path, new_table: Callable[[str], LsmTable]
    ):
        new_table("t")

        def merge(table: LakeTable, *_: object) -> StepResult:
            shutil.rmtree(table.uri)
            raise NotFoundError("it is gone")

        keeper = Keeper(Lake.open(str(root)), Policies(), steps={"merge": merge})
        assert keeper.round().failed == {}
        assert keeper.round().tables == ()

    def test_once_tells_by_its_status(self, root: Path, new_table: Callable[[str], LsmTable]):
        write(new_table("good"), 1)
        new_table("bad")
        assert CliRunner().invoke(app, ["run", "--once", "--root", str(root)]).exit_code == 0
        for manifest in (root / "bad.lance" / "_versions").glob("*.manifest"):
            manifest.write_bytes(b"garbage")
        assert CliRunner().invoke(app, ["run", "--once", "--root", str(root)]).exit_code == 1
        unknown = CliRunner().invoke(app, ["run", "goood", "--once", "--root", str(root)])
        assert (unknown.exit_code, "did you mean 'good'?" in unknown.stderr) == (1, True)


class TestEnding:
    def test_no_step_begins_once_it_is_to_end(self, root: Path, new_table: Callable[[str], LsmTable]):
        for name in ("one", "two"):
            new_table(name)
        stop, began = threading.Event(), []

        def merge(table: LakeTable, *_: object) -> StepResult:
            began.append(("merge", table.name))
            stop.set()
            return StepResult("did it")

        def index(table: LakeTable, *_: object) -> StepResult:
            began.append(("index", table.name))
            return StepResult()

        keeper = Keeper(Lake.open(str(root)), Policies(), steps={"merge": merge, "index": index}, stop=stop)
        run_until(keeper, stop, 3600.0)
        assert began == [("merge", "one")]

    def test_a_root_that_cannot_be_listed_is_listed_again(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ):
        stop, calls = threading.Event(), []

        def names(_lake: Lake) -> tuple[str, ...]:
            calls.append(1)
            if len(calls) == 1:
                raise UnavailableError("storage is away")
            stop.set()
            return ()

        monkeypatch.setattr(Lake, "table_names", names)
        run_until(Keeper(Lake.open(str(root)), Policies(), stop=stop), stop, 0.001)
        assert len(calls) == 2
        assert "tables can't be listed: storage is away" in caplog.text

    @pytest.mark.slow
    @pytest.mark.parametrize("number", sample([signal.SIGTERM, signal.SIGINT], 1))
    def test_a_signal_ends_the_process_cleanly(
        self, root: Path, new_table: Callable[[str], LsmTable], number: signal.Signals
    ):
        written = new_table("t")
        write(written, 1)
        program = str(Path(sys.executable).with_name("lance-gateway"))
        arguments = ["pipeline", "run", "--root", str(root), "--interval", "1h", "--http-port", "0"]
        with subprocess.Popen(
            [program, *arguments, "--log-format", "json"], stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stderr is not None
            lines: Iterator[str] = iter(child.stderr.readline, "")
            address = next(line for line in lines if "metrics at" in line).split("http://")[1].split("/")[0]
            done = next(found for line in lines if "merged" in (found := json.loads(line))["message"])
            assert (done["table"], done["step"], done["generations"], done["level"]) == (
                "t",
                "merge",
                1,
                "INFO",
            )
            host, port = address.split(":")
            connection = http.client.HTTPConnection(host, int(port))
            connection.request("GET", "/livez")
            assert connection.getresponse().read() == b"ok\n"
            connection.close()
            child.send_signal(number)
            assert child.wait(timeout=60) == 0
        assert newest(written)[1] == "new"


def test_metrics_are_served(root: Path, new_table: Callable[[str], LsmTable]):
    write(new_table("t"), 1, 2, 3)
    metrics = KeeperMetrics()
    lake = Lake.open(str(root))
    keeper = Keeper(lake, Policies(merge=MergePolicy(min_generations=9)), observers=(metrics,))
    metrics.watch(lambda: keeper.tables, 3600.0)
    keeper.round()
    server = HttpServer(metrics.registry, "127.0.0.1", 0)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        families = {one.name: one for one in text_string_to_metric_families(answer.read().decode())}
        connection.close()
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
        connection.close()
        with pytest.raises(UnavailableError, match=f"cannot listen on 127.0.0.1:{server.port}"):
            HttpServer(metrics.registry, "127.0.0.1", server.port)
    finally:
        server.close()
    assert all(name.startswith("lance_pipeline_") for name in families)
    (pending,) = families["lance_pipeline_table_pending_generations"].samples
    assert (pending.labels, pending.value) == ({"table": "t"}, 2)
    (kept,) = families["lance_pipeline_table_kept_timestamp_seconds"].samples
    assert kept.value > 0
    assert {one.name for one in families["lance_pipeline_steps"].samples} == {"lance_pipeline_steps_total"}
