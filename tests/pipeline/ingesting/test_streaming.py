"""Streaming queries into a table: each batch once in effect, whatever ends them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
)
from lance_gateway.pipeline.ingesting import IngestOptions, IngestReport, stream
from lance_gateway.pipeline.ingesting.writing import BatchMarkers
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.jobs.runners import Advance, format_count
from tests.support.lake.written import make_notes, read_notes
from tests.support.processes.gateways import EngineGateway

NOW = {"availableNow": True}


@dataclass
class Feed:
    """A directory of JSON files that a query follows, one file a batch."""

    spark: SparkSession
    table: LakeTable
    folder: Path
    reports: list[IngestReport] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)

    def add(self, name: str, *rows: dict[str, object]) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        draft = self.folder / f"{name}.draft"
        draft.write_text("\n".join(map(json.dumps, rows)))
        draft.rename(self.folder / "in" / f"{name}.json")

    def run(self, checkpoint: str = "checkpoint") -> list[IngestReport]:
        """Run the query from where it is until all files are read; what became of each batch."""
        rows = self.spark.readStream.schema("id BIGINT, text STRING").option("maxFilesPerTrigger", 1)
        reports: list[IngestReport] = []
        query = stream(
            rows.json(str(self.folder / "in")),
            self.table,
            checkpoint=str(self.folder / checkpoint),
            trigger=NOW,
            options=IngestOptions(hold_ms=0, tasks=1),
            on_batch=reports.append,
            progress=self.show,
        )
        query.await_end()
        return reports

    @contextmanager
    def show(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        """Remember what a job shows of each part at its end."""
        counts: list[int] = []
        yield counts.append
        self.shown.append(f"{title}: {sum(counts)} of {format_count(total, unit)}")


@pytest.fixture
def feed(spark: SparkSession, root: Path, tmp_path: Path) -> Feed:
    make_notes(root, "notes", 2)
    folder = tmp_path / "feed"
    folder.mkdir()
    return Feed(spark, LakeTable.at(str(root / "notes.lance")), folder)


@pytest.mark.slow
def test_a_query_goes_on_where_it_was(feed: Feed, gateway: EngineGateway):
    feed.add("a", {"id": 1, "text": "a"}, {"id": 2, "text": "a"})
    assert [(one.batch, one.rows) for one in feed.run()] == [(0, 2)]
    feed.add("b", {"id": 2, "text": "b"}, {"id": 3, "text": "b"})
    assert [(one.batch, one.rows) for one in feed.run()] == [(1, 2)]
    assert feed.run() == []
    assert feed.shown == ["ingest notes, batch 0: 1 of 1 task", "ingest notes, batch 1: 1 of 1 task"]
    assert read_notes(gateway) == {1: "a", 2: "b", 3: "b"}


@pytest.mark.slow
@pytest.mark.parametrize("is_noted", [True, False], ids=["after the marker", "before the marker"])
@pytest.mark.soak
def test_a_driver_that_dies_between_rows_and_checkpoint(
    feed: Feed, gateway: EngineGateway, monkeypatch: pytest.MonkeyPatch, *, is_noted: bool
):
    complete = BatchMarkers.mark_complete

    def dying(markers: BatchMarkers, batch: int) -> None:
        if is_noted:
            complete(markers, batch)
        raise UnavailableError("the driver is gone")

    feed.add("a", {"id": 1, "text": "a"}, {"id": 2, "text": "a"})
    monkeypatch.setattr(BatchMarkers, "mark_complete", dying)
    with pytest.raises(UnavailableError, match=r"^the driver is gone$"):
        feed.run()
    monkeypatch.undo()
    assert read_notes(gateway) == {1: "a", 2: "a"}
    if is_noted:
        gateway.write("UPDATE notes SET text = 'newer' WHERE id = 1")
    (again,) = feed.run()
    assert (again.batch, again.is_skipped, again.rows) == (0, is_noted, 0 if is_noted else 2)
    assert read_notes(gateway) == {1: "newer" if is_noted else "a", 2: "a"}


@pytest.mark.slow
@pytest.mark.soak
def test_a_new_checkpoint_reads_everything_anew(feed: Feed, gateway: EngineGateway):
    feed.add("a", {"id": 1, "text": "a"})
    feed.run()
    gateway.write("UPDATE notes SET text = 'newer'")
    (again,) = feed.run("another checkpoint")
    assert (again.batch, again.is_skipped) == (0, False)
    assert read_notes(gateway) == {1: "a"}


@pytest.mark.slow
def test_what_fails_in_a_batch_ends_the_query_with_our_error(feed: Feed):
    feed.add("a", {"id": 1, "text": "a"})
    feed.table.dataset().drop_columns(["text"])
    with pytest.raises(InvalidInputError, match=r"^table 'notes' has no column 'text': it has id, score$"):
        feed.run()


def test_what_is_no_stream_is_refused(feed: Feed):
    frame = feed.spark.range(1).selectExpr("id", "'x' AS text")
    with pytest.raises(PreconditionError, match="the rows for table 'notes' are no stream: read them with"):
        stream(frame, feed.table, checkpoint=str(feed.folder / "c"))


def test_a_stream_needs_a_checkpoint_and_a_trigger_that_spark_knows(feed: Feed):
    (feed.folder / "in").mkdir()
    rows = feed.spark.readStream.schema("id BIGINT, text STRING").json(str(feed.folder / "in"))
    with pytest.raises(InvalidInputError, match="the stream into table 'notes' needs a checkpoint"):
        stream(rows, feed.table, checkpoint="")
    with pytest.raises(LanceGatewayError, match="stream into notes:"):
        stream(rows, feed.table, checkpoint=str(feed.folder / "c"), trigger={"processingTime": "often"})
