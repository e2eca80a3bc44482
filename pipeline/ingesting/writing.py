"""On executors, after the shuffle: one writer per region, and markers of what is complete."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.storage.files import Storage
from memwal.writing import Changes, TableWriter, WriteOptions
from pipeline.ingesting.chunks import (
    Chunk,
    Holding,
    SupersededError,
    chunks,
    give_back,
    holding,
    last_of_keys,
)
from pipeline.ingesting.columns import REGION, Columns
from pipeline.ingesting.options import IngestOptions, RegionReport
from pipeline.jobs.lake import LakeTable
from pipeline.spark.runner import Versions, carrying

DIRECTORY = "_gateway/ingest"
_KEPT = 3
"""Markers of a stream that stay: one would do, the others tell whoever looks how it goes."""
_NAME = re.compile(r"(\d{1,19})\.done")
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class BatchMarkers:
    """Markers of one job; batches count upwards, so a later one that is complete vouches for all before.

    Attributes:
        storage: directory of the table.
        job: a name for the job that it keeps over restarts.
    """

    storage: Storage
    job: str

    def __post_init__(self) -> None:
        if not _JOB.fullmatch(self.job):
            raise InvalidInputError(
                f"{self.job!r} can't be the name of a job or stream: give up to 128 letters, digits, dots, "
                "'_' and '-'"
            )

    @staticmethod
    def one_shot(storage: Storage) -> BatchMarkers:
        """Markers of a job that nobody repeats under the same name."""
        return BatchMarkers(storage, f"once-{uuid.uuid4()}")

    @staticmethod
    def jobs(storage: Storage) -> tuple[str, ...]:
        """Names of all jobs that left markers in a table, sorted."""
        return tuple(sorted(storage.directories(DIRECTORY)))

    @property
    def directory(self) -> str:
        """Below the table's directory."""
        return f"{DIRECTORY}/{self.job}"

    def path(self, batch: int) -> str:
        """Of a batch's marker, below the table's directory."""
        return f"{self.directory}/{batch}.done"

    def batches(self) -> tuple[int, ...]:
        """Batches whose markers are there, ascending."""
        found = (_NAME.fullmatch(one.name) for one in self.storage.list(self.directory))
        return tuple(sorted(int(one[1]) for one in found if one is not None))

    def is_complete(self, batch: int) -> bool:
        """Whether a batch is complete, or one after it: markers of older ones may have been cleaned up."""
        return any(one >= batch for one in self.batches())

    def complete(self, batch: int) -> None:
        """Note that all rows of a batch are durable; may be repeated.

        Markers that later ones vouch for are removed, so that a long stream leaves few.
        """
        self.storage.put_if_absent(self.path(batch), b"")
        if batch >= _KEPT:
            self.storage.delete(self.path(batch - _KEPT))


WRITTEN = pa.schema(
    [
        pa.field("region_id", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("deleted", pa.int64()),
        pa.field("epoch", pa.int64()),
    ]
)
"""One row for each region that a task wrote."""
_CLAIM_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class RegionsWriter:
    """For `DataFrame.mapInArrow`: writes the rows of a partition to their regions.

    Attributes:
        table: where they go.
        columns: how rows fit it.
        job: whose batch this is.
        batch: its number.
        options: of the job.
        versions: of the driver.
    """

    table: LakeTable
    columns: Columns
    job: str
    batch: int
    options: IngestOptions
    versions: Versions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition, those of each region one after another.

        Raises:
            CarriedError: another writer took a region away, or storage failed.
        """
        with carrying():
            self.versions.check()
            rest = iter(batches)
            found = self.written(rest)
            for _ in rest:  # Spark wants all that it sends to be taken.
                pass
            rows = [(one.region_id, one.rows, one.deleted, one.epoch) for one in found]
            if rows:
                named = [dict(zip(WRITTEN.names, row, strict=True)) for row in rows]
                yield pa.RecordBatch.from_pylist(named, schema=WRITTEN)

    def written(self, batches: Iterator[pa.RecordBatch]) -> tuple[RegionReport, ...]:
        """What was written, by region; nothing where the batch is found to be complete."""
        first = next((one for one in batches if one.num_rows), None)
        if first is None:
            return ()
        markers = BatchMarkers(self.table.storage, self.job)
        options = WriteOptions(
            hold_ms=self.options.hold_ms,
            claim_timeout_ms=_CLAIM_TIMEOUT_MS,
            max_memtable_rows=self.options.memtable_rows,
            max_memtable_bytes=self.options.memtable_bytes,
            idle_close_seconds=0,
        )
        writer = TableWriter(self.table.name, self.table.storage, options)
        counts = _Counts()
        try:
            with holding(writer, lambda: markers.is_complete(self.batch), flush=self.options.flush) as held:
                self._write(held, writer, self._chunks(first, batches), counts)
        except SupersededError:
            return ()
        return counts.reports()

    def _chunks(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        def every() -> Iterator[pa.RecordBatch]:
            yield first
            yield from rest

        source = last_of_keys(every(), REGION, self.columns.key) if self.options.keeps_last else every()
        return chunks(source, REGION, rows=self.options.chunk_rows, nbytes=self.options.chunk_bytes)

    def _write(self, held: Holding, writer: TableWriter, pieces: Iterator[Chunk], counts: _Counts) -> None:
        number: int | None = None
        for piece in pieces:
            if number is not None and piece.number != number:
                # Rows of one region follow one another: the one before is done.
                held.release()
                give_back(writer, flush=self.options.flush)
            number = piece.number
            rows, dead = self.columns.split(piece.rows)
            if rows.num_rows:
                rows = self.columns.conformed(rows)
                regions = writer.find_regions(rows)
                receipt = held.write(Changes(upserts=rows), frozenset(regions))
                counts.rows.update(receipt.regions)
                counts.note(held, regions)
            if dead is not None and dead.num_rows:
                dead = self.columns.conformed(dead)
                regions = writer.find_regions(dead)
                receipt = held.write(Changes(deletes=dead), frozenset(regions))
                counts.deleted.update(receipt.regions)
                counts.note(held, regions)


@dataclass
class _Counts:
    """What a task has written so far, by region."""

    rows: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    epochs: dict[str, int] = field(default_factory=dict)

    def note(self, held: Holding, regions: Iterable[str]) -> None:
        self.epochs.update((one, held.epoch(one)) for one in regions)

    def reports(self) -> tuple[RegionReport, ...]:
        return tuple(
            RegionReport(one, self.rows[one], self.deleted[one], epoch)
            for one, epoch in sorted(self.epochs.items())
        )
