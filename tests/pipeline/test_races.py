"""While a job runs, others do as they like: that changes no answer and loses no acknowledged row."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.indexing import IndexPolicy, maintain
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Advance, Threads, ignore_progress
from lance_gateway.pipeline.merging import merge
from lance_gateway.pipeline.snapshotting import SnapshotPolicy, snapshot
from tests.pipeline.scenario import Rows, Scenario, built, shown
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.interrupting import Call, When, watch_calls
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

Job = Callable[[LakeTable], object]
Change = Callable[[LakeTable, Rows], Rows]
"""What somebody else does meanwhile: to a table of these rows; those that it has then."""


def _merge(table: LakeTable) -> None:
    merge(table, runner=Threads(1))


def _write(table: LakeTable, rows: Rows) -> Rows:
    """Rows that were deleted are there again, others go, all in generations that nobody has seen."""
    gateway = EngineGateway(Path(table.uri).parent)
    try:
        gateway.write(
            "INSERT INTO t VALUES (1, 'again'), (4, 'again'), (5, 'again'), (8, 'again'), (2, 'other')"
        )
        gateway.write("DELETE FROM t WHERE id IN (3, 10, 6)")
        gateway.flush("t")
    finally:
        gateway.close()
    gone = {3, 6, 10}
    written = {**dict.fromkeys((1, 4, 5, 8), "again"), 2: "other"}
    return {key: value for key, value in (rows | written).items() if key not in gone}


def _merged(table: LakeTable, rows: Rows) -> Rows:
    _merge(table)
    return rows


def _write_and_merge(table: LakeTable, rows: Rows) -> Rows:
    return _merged(table, _write(table, rows))


def _index(table: LakeTable) -> None:
    maintain(table, IndexPolicy(target_rows=100, max_spare_fragments=0), runner=Threads(1))


def _clean(table: LakeTable) -> None:
    policy = CleanPolicy(grace_seconds=0, retain_versions=1)
    clean(table, policy, delete=True, runner=Threads(1), clock=lambda: time.time() + 2)


def _snapshot(table: LakeTable) -> None:
    snapshot(table, SnapshotPolicy(0))


def _unchanged(job: Job) -> Change:
    """A job that leaves rows as they are."""

    def run(table: LakeTable, rows: Rows) -> Rows:
        job(table)
        return rows

    return run


def _everything(table: LakeTable, rows: Rows) -> Rows:
    """Rows are written and merged, and all traces of how they got there are removed."""
    rows = _write_and_merge(table, rows)
    for job in (_index, _snapshot, _clean, _clean):
        job(table)
    return rows


def _compacted(table: LakeTable, rows: Rows) -> Rows:
    table.dataset().optimize.compact_files()
    return rows


def _column_added(table: LakeTable, rows: Rows) -> Rows:
    table.dataset().add_columns(pa.schema([pa.field("more", pa.int64())]))
    return rows


def _changed_in_base(table: LakeTable, rows: Rows) -> Rows:
    """By somebody who bypasses MemWAL: rows that nothing fresh supersedes."""
    table.dataset().update({"v": "'by hand'"}, where="id = 7")
    return {**rows, 7: "by hand"}


JOBS: dict[str, Job] = {"merge": _merge, "index": _index, "clean": _clean, "snapshot": _snapshot}
CHANGES: dict[str, Change] = {
    "a writer": _write,
    "another merger": _merged,
    "a writer and another merger": _write_and_merge,
    "compaction": _compacted,
    "another column": _column_added,
    "an update of the base table": _changed_in_base,
    "a cleaner": _unchanged(_clean),
    "a snapshot": _unchanged(_snapshot),
    "an indexer": _unchanged(_index),
    "a writer and all jobs": _everything,
}


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, shared_writers: WriterProcess) -> Scenario:
    return built(tmp_path_factory.mktemp("scenario"), shared_writers)


def _meanwhile(scenario: Scenario, root: Path, job: Job, change: Change, at: int) -> str:
    """Run a job, and the change before its call of that number; tells how the job failed, if it did."""
    table = scenario.copied(root)
    if job is not _merge:
        _merge(table)  # Others have something to do after that.
    rows = scenario.rows
    where = "after its last call"

    def happens(number: int, call: Call, when: When) -> None:
        nonlocal rows, where
        if (number, when) == (at, "before"):
            where = f"before call {at}, {call.name}"
            rows = change(table, rows)

    told = ""
    try:
        with watch_calls(happens) as calls:
            try:
                job(table)
            except LanceGatewayError as error:
                told = f"{type(error).__name__}: {error}"
        assert shown(table) == rows
        job(table)
        assert shown(table) == rows
        assert len(calls.made) > at, "there is no such call"
    except Exception as error:
        error.add_note(f"the change came {where}; {told or 'the job did not fail'}")
        raise
    return told


def _calls(scenario: Scenario, root: Path, job: Job) -> list[Call]:
    table = scenario.copied(root)
    if job is not _merge:
        _merge(table)
    with watch_calls() as calls:
        job(table)
    return calls.made


@pytest.mark.slow
@pytest.mark.parametrize("change", sample(CHANGES.values(), 4), ids=CHANGES)
def test_whatever_comes_between_looking_and_merging(tmp_path: Path, scenario: Scenario, change: Change):
    """A merger looks at the table, then reads generations, deletes, and writes."""
    table = scenario.copied(tmp_path)
    rows = scenario.rows

    def overtaken(title: str, total: int, unit: str) -> AbstractContextManager[Advance]:
        nonlocal rows
        rows = change(table, rows)
        return ignore_progress(title, total, unit)

    merge(table, runner=Threads(1), progress=overtaken)
    assert shown(table) == rows
    _merge(table)
    assert shown(table) == rows


@pytest.mark.slow
@pytest.mark.parametrize("change", sample(CHANGES.values(), 2), ids=CHANGES)
def test_somebody_comes_before_a_merger_writes(tmp_path: Path, scenario: Scenario, change: Change):
    calls = _calls(scenario, tmp_path / "whole", _merge)
    for number in (number for number, call in enumerate(calls) if call.is_lances and call.writes):
        _meanwhile(scenario, tmp_path / str(number), _merge, change, number)


@pytest.mark.slow
@pytest.mark.parametrize("job", sample([_index, _clean, _snapshot], 1))
def test_all_happens_before_another_job_writes(tmp_path: Path, scenario: Scenario, job: Job):
    calls = _calls(scenario, tmp_path / "whole", job)
    found = [number for number, call in enumerate(calls) if call.writes]
    for number in found[:: max(len(found) // 4, 1)]:
        _meanwhile(scenario, tmp_path / str(number), job, _everything, number)


@pytest.mark.slow
def test_another_cleaner_comes_while_a_cleaner_looks(tmp_path: Path, scenario: Scenario):
    """Between the list of versions and the versions; and while a region is looked at, by threads of both."""
    calls = _calls(scenario, tmp_path / "whole", _clean)
    log = next(
        at for at, one in enumerate(calls) if one.name.startswith("list") and one.name.endswith("/wal")
    )
    for number in (1, log):
        _meanwhile(scenario, tmp_path / str(number), _clean, _unchanged(_clean), number)


@pytest.mark.soak
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_somebody_comes_between_any_two_calls(tmp_path: Path, scenario: Scenario, job: Job, change: Change):
    for number, _ in enumerate(_calls(scenario, tmp_path / "whole", job)):
        _meanwhile(scenario, tmp_path / str(number), job, change, number)
