"""Attempts of one task that write at the same time, and those that wake up when all is over.

Spark runs a task again when it hears nothing of it, and runs slow ones twice. What matters is what the table
holds in the end: the rows of the batch, each once, and never in the place of newer ones.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.manifest import RegionManifest, list_regions, read_latest_manifests
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.pipeline.ingesting.options import IngestOptions
from lance_gateway.pipeline.ingesting.writing import BatchMarkers
from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.pipeline.attempts import JOB, routed, task, write, write_in_steps
from tests.support.lake.written import NOTES, make_notes, read_notes
from tests.support.processes.gateways import EngineGateway
from tests.support.sampling import sample

ROWS = 6
BATCH = pa.Table.from_pylist([{"id": one, "text": "batch"} for one in range(ROWS)], schema=NOTES)
SOURCE = dict.fromkeys(range(ROWS), "batch")
NEWER = {one: "newer" for one in range(ROWS) if one != 2}


@pytest.fixture(
    params=[pytest.param(1, id="one region", marks=pytest.mark.slow), pytest.param(2, id="two regions")]
)
def table(root: Path, request: pytest.FixtureRequest) -> LakeTable:
    make_notes(root, "notes", request.param)
    return LakeTable.at(str(root / "notes.lance"))


def manifests(table: LakeTable) -> list[RegionManifest]:
    found = read_latest_manifests(table.storage, list_regions(table.storage), cached={})
    return [one for one in found if one is not None]


class Others:
    """What happens while the attempt under test rests."""

    def __init__(self, table: LakeTable, gateway: EngineGateway) -> None:
        self.table, self.gateway = table, gateway

    def write(self) -> None:
        """Another attempt writes all rows."""
        write(self.table, BATCH)

    def complete(self) -> None:
        """And the driver notes that the batch is complete."""
        self.write()
        BatchMarkers(self.table.storage, JOB).mark_complete(0)

    def go_on(self) -> None:
        """And users change the rows."""
        self.complete()
        self.gateway.write("UPDATE notes SET text = 'newer'")
        self.gateway.write("DELETE FROM notes WHERE id = 2")

    def go_on_by_spark(self) -> None:
        """And the next batch changes the rows; the marker of this one was cleaned up."""
        self.complete()
        rows = BATCH.set_column(1, "text", pa.array(["newer"] * ROWS)).append_column(
            "gone", pa.array([one == 2 for one in range(ROWS)])
        )
        write(self.table, rows, IngestOptions(deleted_column="gone", hold_ms=0), batch=1)
        markers = BatchMarkers(self.table.storage, JOB)
        markers.mark_complete(1)
        self.table.storage.delete(markers.path(0))


EXPECTED: dict[str, dict[int, str]] = {
    "write": SOURCE,
    "complete": SOURCE,
    "go_on": NEWER,
    "go_on_by_spark": NEWER,
}


@pytest.mark.slow
@pytest.mark.parametrize("what", sample(EXPECTED, 1))
@pytest.mark.parametrize("at", [0, 1, 3, ROWS - 1, ROWS])
def test_an_attempt_that_rests_between_appends(table: LakeTable, gateway: EngineGateway, what: str, at: int):
    others = Others(table, gateway)

    def steps() -> Iterator[None]:
        for step in range(ROWS + 1):
            if step == at:
                getattr(others, what)()
            yield

    write_in_steps(table, BATCH, steps())
    assert read_notes(gateway) == EXPECTED[what]


@pytest.mark.slow
@pytest.mark.parametrize("what", sample(EXPECTED, 1))
@pytest.mark.parametrize("before", [True, False], ids=["before it looks", "after it looked"])
@pytest.mark.parametrize("look", [1, 2], ids=["ahead of its claim", "with its claim"])
def test_an_attempt_that_rests_when_it_looks_for_the_marker(
    table: LakeTable,
    gateway: EngineGateway,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    look: int,
    *,
    before: bool,
):
    others, is_complete = Others(table, gateway), BatchMarkers.is_complete
    looks: list[Any] = []

    def resting(markers: BatchMarkers, batch: int) -> bool:
        looks.append(None)
        rests = len(looks) == look
        if rests and before:
            getattr(others, what)()
        found = is_complete(markers, batch)
        if rests and not before:
            getattr(others, what)()
        return found

    monkeypatch.setattr(BatchMarkers, "is_complete", resting)
    write(table, BATCH)
    assert read_notes(gateway) == EXPECTED[what]


def test_an_attempt_that_is_late_leaves_the_region_to_others(table: LakeTable, gateway: EngineGateway):
    Others(table, gateway).go_on()
    epochs = {one.region_id: one.writer_epoch for one in manifests(table)}
    assert write(table, BATCH) == ()
    assert {one.region_id: one.writer_epoch for one in manifests(table)} == epochs


def test_an_attempt_that_dies_halfway_after_another_won_leaves_each_keys_last_row(
    table: LakeTable, gateway: EngineGateway
):
    options = IngestOptions(order_by=("score",), hold_ms=0)
    rows = pa.Table.from_pylist(
        [{"id": one, "text": f"{turn}", "score": turn} for turn in range(3) for one in range(ROWS)],
        schema=NOTES,
    )
    write(table, rows, options)

    def steps() -> Iterator[None]:
        for _ in range(5):
            yield
        raise ConnectionError  # Spark ends it.

    with pytest.raises(ConnectionError):
        write_in_steps(table, rows, steps(), options)
    assert read_notes(gateway) == dict.fromkeys(range(ROWS), "2")


@pytest.mark.slow
@pytest.mark.parametrize("flush", [True, False])
def test_attempts_that_race(table: LakeTable, gateway: EngineGateway, *, flush: bool):
    options = IngestOptions(chunk_rows=1, hold_ms=0, flush=flush)
    columns, rows = routed(table, BATCH)
    start = threading.Barrier(3)
    failures: list[UnavailableError] = []

    def attempt() -> None:
        start.wait()
        try:
            task(table, columns, options).write(iter(rows.to_batches()))
        except UnavailableError as error:
            failures.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if len(failures) == len(threads):
        write(table, BATCH)  # Spark would try again.
    assert read_notes(gateway) == SOURCE


def test_users_and_an_attempt_take_turns(table: LakeTable, gateway: EngineGateway):
    def steps() -> Iterator[None]:
        for step in range(ROWS):
            gateway.write(f"INSERT INTO notes (id, text) VALUES ({100 + step}, 'user')")
            yield

    written = write_in_steps(table, BATCH, steps())
    assert sum(one.rows for one in written) == ROWS
    assert read_notes(gateway) == SOURCE | {100 + step: "user" for step in range(ROWS)}


def test_without_a_flush_the_rows_stay_in_the_log_and_nobody_waits_for_the_region(
    table: LakeTable, gateway: EngineGateway
):
    write(table, BATCH, IngestOptions(flush=False))
    assert read_notes(gateway) == SOURCE
    assert gateway.read("SELECT id FROM notes", "flushed").num_rows == 0
    # A user's writer grants others their time, unless they say that they are done.
    other = EngineGateway(Path(table.uri).parent, WriteOptions(hold_ms=3_600_000))
    assert other.write("UPDATE notes SET text = 'newer' WHERE id = 1") == 1
    other.close()
