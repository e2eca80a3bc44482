"""A job that is killed at any of its calls changes no answer, and the next run finishes what it began."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.regions.region_snapshots import read_region_snapshots
from lance_gateway.pipeline.cleaning import CleanPolicy, clean, find
from lance_gateway.pipeline.indexing import IndexPolicy, maintain, needs
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.jobs.runners import Threads
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, snapshot
from tests.pipeline.scenario import Scenario, built, shown
from tests.support.processes.interrupting import Call, KilledError, When, kill_at, watch_calls
from tests.support.processes.writer_process import WriterProcess


@dataclass(frozen=True)
class Job:
    """A job under test.

    Attributes:
        run: all of it.
        check: that nothing is left to do.
        prepare: what must have happened before.
    """

    run: Callable[[LakeTable], object]
    check: Callable[[LakeTable], object]
    prepare: Callable[[LakeTable], object] = lambda _: None


def _merge(table: LakeTable) -> None:
    merge(table, runner=Threads(1))


def _is_merged(table: LakeTable) -> None:
    assert not any(region.pending for region in TableState.read(table).regions.values())


def _index(table: LakeTable) -> None:
    maintain(table, INDEXES, runner=Threads(1))


def _is_indexed(table: LakeTable) -> None:
    assert not needs(table, INDEXES)


def _clean(table: LakeTable) -> None:
    for _ in range(2):  # Files go after what was listed is not any more.
        clean(table, EVERYTHING, delete=True, runner=Threads(1), clock=_later)


def _is_clean(table: LakeTable) -> None:
    assert not find(table, EVERYTHING, clock=_later)
    listed = {
        f"{region.region_id}/{one.path}"
        for region in TableState.read(table).regions.values()
        for one in region.manifest.flushed_generations
    }
    found = {f"{path.parent.name}/{path.name}" for path in Path(table.uri).glob("_mem_wal/*/*_gen_*")}
    assert found == listed, "files of generations are left that nobody lists"


def _snapshot(table: LakeTable) -> None:
    snapshot(table, SnapshotPolicy(0))


def _is_remembered(table: LakeTable) -> None:
    state = TableState.read(table)
    remembered = read_region_snapshots(table.storage, state.version, state.details)
    newest = {one.region_id: one.manifest.version for one in state.regions.values()}
    assert {one.region_id: one.manifest.version for one in remembered if one.manifest} == newest


def _later() -> float:
    return time.time() + 2


MOST_CALLS = 5
INDEXES = IndexPolicy(target_rows=100, max_spare_fragments=0)
EVERYTHING = CleanPolicy(grace_seconds=0, retain_versions=1)
JOBS = {
    "merge": Job(_merge, _is_merged),
    "index": Job(_index, _is_indexed, prepare=_merge),
    "clean": Job(_clean, _is_clean, prepare=_merge),
    "snapshot": Job(_snapshot, _is_remembered),
}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Scenario:
    return built(tmp_path_factory.mktemp("scenario"), shared_writers)


@pytest.fixture(params=JOBS.values(), ids=JOBS)
def job(request: pytest.FixtureRequest) -> Job:
    found: Job = request.param
    return found


def _calls(scenario: Scenario, job: Job, root: Path) -> list[Call]:
    table = scenario.copied(root)
    job.prepare(table)
    with watch_calls() as calls:
        job.run(table)
    job.check(table)
    assert shown(table) == scenario.rows
    return calls.made


@pytest.mark.slow
def test_a_killed_job_changes_no_answer_and_the_next_run_finishes(
    tmp_path: Path, scenario: Scenario, job: Job
):
    """What a job leaves behind differs by the last thing that it wrote, and by nothing else."""
    for number in _some_that_write(_calls(scenario, job, tmp_path / "whole")):
        _is_finished_after(scenario, job, tmp_path / str(number), number, "after")


@pytest.mark.soak
def test_a_job_may_be_killed_at_every_call(tmp_path: Path, scenario: Scenario, job: Job):
    for number, _ in enumerate(_calls(scenario, job, tmp_path / "whole")):
        _is_finished_after(scenario, job, tmp_path / f"{number}-before", number, "before")
        _is_finished_after(scenario, job, tmp_path / f"{number}-after", number, "after")


def _some_that_write(calls: list[Call]) -> list[int]:
    """Calls by number: all of a few, or some of many that are much alike."""
    found = [number for number, call in enumerate(calls) if call.writes]
    return found[:: max(len(found) // MOST_CALLS, 1)]


def _is_finished_after(scenario: Scenario, job: Job, root: Path, number: int, when: When) -> None:
    table = scenario.copied(root)
    job.prepare(table)
    with watch_calls(kill_at(number, when)) as calls:
        try:
            job.run(table)
        except KilledError:
            pass
        else:
            # How often a job looks whether its table is still the same follows from how long it takes.
            assert len(calls.made) <= number
            assert shown(table) == scenario.rows
            return
    where = f"killed {when} call {number}, {calls.made[number].name}"
    assert shown(table) == scenario.rows, where
    job.run(table)
    job.check(table)
    assert shown(table) == scenario.rows, where


@pytest.mark.slow
@pytest.mark.soak
def test_a_call_that_fails_is_told_clearly(tmp_path: Path, scenario: Scenario, job: Job):
    """Calls that write and some that read; it may also be that the job can go on without."""
    calls = _calls(scenario, job, tmp_path / "whole")
    reads = range(1, len(calls), max(len(calls) // 4, 1))
    for number in sorted({*_some_that_write(calls), *reads}):
        _fails_clearly_at(scenario, job, tmp_path / str(number), number)


@pytest.mark.soak
def test_every_call_may_fail(tmp_path: Path, scenario: Scenario, job: Job):
    for number, _ in enumerate(_calls(scenario, job, tmp_path / "whole")):
        _fails_clearly_at(scenario, job, tmp_path / str(number), number)


def _fails_clearly_at(scenario: Scenario, job: Job, root: Path, number: int) -> None:
    def fails(called: int, call: Call, when: When) -> None:
        if (called, when) == (number, "before"):
            raise (OSError if call.is_lances else UnavailableError)(f"injected into {call.name}")

    table = scenario.copied(root)
    job.prepare(table)
    with watch_calls(fails) as calls:
        try:
            job.run(table)
        except LanceGatewayError:
            pass
        except Exception as error:
            raise AssertionError(f"not told clearly: call {number}, {calls.made[number].name}") from error
    assert shown(table) == scenario.rows, calls.made[number].name
    job.run(table)
    job.check(table)
    assert shown(table) == scenario.rows, calls.made[number].name
