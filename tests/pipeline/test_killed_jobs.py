"""A job that is killed at any of its calls changes no answer, and the next run finishes what it began."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memwal.errors import LanceGatewayError, UnavailableError
from pipeline.lake import LakeTable
from pipeline.merging import merge
from pipeline.runners import Threads
from pipeline.state import TableState
from tests.pipeline.scenario import Scenario, built, shown
from tests.support.interrupting import Call, KilledError, When, killed_at, watched
from tests.support.writer_process import WriterProcess


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


JOBS = {"merge": Job(_merge, _is_merged)}


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
    with watched() as calls:
        job.run(table)
    job.check(table)
    assert shown(table) == scenario.rows
    return calls.made


@pytest.mark.slow
def test_a_killed_job_changes_no_answer_and_the_next_run_finishes(
    tmp_path: Path, scenario: Scenario, job: Job
):
    """What a job leaves behind differs by the last thing that it wrote, and by nothing else."""
    for number, call in enumerate(_calls(scenario, job, tmp_path / "whole")):
        if call.writes:
            _is_finished_after(scenario, job, tmp_path / str(number), number, "after")


@pytest.mark.soak
def test_a_job_may_be_killed_at_every_call(tmp_path: Path, scenario: Scenario, job: Job):
    for number, _ in enumerate(_calls(scenario, job, tmp_path / "whole")):
        _is_finished_after(scenario, job, tmp_path / f"{number}-before", number, "before")
        _is_finished_after(scenario, job, tmp_path / f"{number}-after", number, "after")


def _is_finished_after(scenario: Scenario, job: Job, root: Path, number: int, when: When) -> None:
    table = scenario.copied(root)
    job.prepare(table)
    with watched(killed_at(number, when)) as calls, pytest.raises(KilledError):
        job.run(table)
    where = f"killed {when} call {number}, {calls.made[number].name}"
    assert shown(table) == scenario.rows, where
    job.run(table)
    job.check(table)
    assert shown(table) == scenario.rows, where


@pytest.mark.slow
def test_a_call_that_fails_is_told_clearly(tmp_path: Path, scenario: Scenario, job: Job):
    """Each call that writes and some that read; it may also be that the job can go on without."""
    for number, call in enumerate(_calls(scenario, job, tmp_path / "whole")):
        if call.writes or number % 10 == 3:
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
    with watched(fails) as calls:
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
