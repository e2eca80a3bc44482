"""Writes rows on executors after the shuffle, one writer per region, and marks complete batches."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing import Changes, TableWriter, WriteOptions
from lance_gateway.pipeline.ingesting.chunks import (
    Chunk,
    Holding,
    SupersededError,
    hold_regions,
    keep_last_rows,
    release_regions,
    split_into_chunks,
)
from lance_gateway.pipeline.ingesting.columns import REGION, Columns
from lance_gateway.pipeline.ingesting.options import IngestOptions, RegionReport
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.spark.runner import Versions, carry_errors

DIRECTORY = "_gateway/ingest"
_KEPT = 3
"""Markers of a stream that are kept; the newest one is needed, the others show its progress."""
_NAME = re.compile(r"(\d{1,19})\.done")
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class BatchMarkers:
    """The markers of a job. Numbers of batches ascend, so a complete batch implies that earlier ones are.

    Attributes:
        storage: directory of the table.
        job: name of the job, the same over restarts.
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
        """Return the markers of a job that is not repeated under the same name."""
        return BatchMarkers(storage, f"once-{uuid.uuid4()}")

    @staticmethod
    def jobs(storage: Storage) -> tuple[str, ...]:
        """Return the names of all jobs with markers in a table, sorted."""
        return tuple(sorted(storage.directories(DIRECTORY)))

    @property
    def directory(self) -> str:
        """Path of the markers, relative to the table's directory."""
        return f"{DIRECTORY}/{self.job}"

    def path(self, batch: int) -> str:
        """Return the path of a batch's marker, relative to the table's directory."""
        return f"{self.directory}/{batch}.done"

    def batches(self) -> tuple[int, ...]:
        """Return the batches that have markers, ascending."""
        matches = (_NAME.fullmatch(entry.name) for entry in self.storage.list(self.directory))
        return tuple(sorted(int(match[1]) for match in matches if match is not None))

    def is_complete(self, batch: int) -> bool:
        """Whether a batch or a later one is complete; markers of older ones may have been removed."""
        return any(complete >= batch for complete in self.batches())

    def mark_complete(self, batch: int) -> None:
        """Record that all rows of a batch are durable, and remove old markers; can be repeated."""
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
"""Schema of the result of a task: one row for each region that it wrote."""
_CLAIM_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class RegionsWriter:
    """Writes the rows of a partition to their regions, in `DataFrame.mapInArrow`.

    Attributes:
        table: table that is written.
        columns: mapping of the rows' columns to the table's.
        job: name of the job.
        batch: number of the batch.
        options: options of the job.
        versions: versions of the driver.
    """

    table: LakeTable
    columns: Columns
    job: str
    batch: int
    options: IngestOptions
    versions: Versions

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a partition, region by region.

        Raises:
            CarriedError: another writer claimed a region, or storage failed.
        """
        with carry_errors():
            self.versions.check()
            rest = iter(batches)
            reports = self.write(rest)
            for _ in rest:  # Spark requires that all its batches are consumed.
                pass
            rows = [(report.region_id, report.rows, report.deleted, report.epoch) for report in reports]
            if rows:
                named = [dict(zip(WRITTEN.names, row, strict=True)) for row in rows]
                yield pa.RecordBatch.from_pylist(named, schema=WRITTEN)

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[RegionReport, ...]:
        """Write rows, and return reports by region; writes nothing if the batch is complete."""
        first = next((batch for batch in batches if batch.num_rows), None)
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
            with hold_regions(
                writer, lambda: markers.is_complete(self.batch), flush=self.options.flush
            ) as held:
                self._write_chunks(held, writer, self._split(first, batches), counts)
        except SupersededError:
            return ()
        return counts.reports()

    def _split(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[Chunk]:
        def every() -> Iterator[pa.RecordBatch]:
            yield first
            yield from rest

        source = keep_last_rows(every(), REGION, self.columns.key) if self.options.keeps_last else every()
        return split_into_chunks(
            source, REGION, rows=self.options.chunk_rows, nbytes=self.options.chunk_bytes
        )

    def _write_chunks(
        self, held: Holding, writer: TableWriter, pieces: Iterator[Chunk], counts: _Counts
    ) -> None:
        number: int | None = None
        for piece in pieces:
            if number is not None and piece.number != number:
                # Rows are sorted by region, so the previous one is finished.
                held.release()
                release_regions(writer, flush=self.options.flush)
            number = piece.number
            rows, dead = self.columns.split(piece.rows)
            if rows.num_rows:
                rows = self.columns.conform(rows)
                regions = writer.find_regions(rows)
                receipt = held.write(Changes(upserts=rows), frozenset(regions))
                counts.rows.update(receipt.regions)
                counts.record(held, regions)
            if dead is not None and dead.num_rows:
                dead = self.columns.conform(dead)
                regions = writer.find_regions(dead)
                receipt = held.write(Changes(deletes=dead), frozenset(regions))
                counts.deleted.update(receipt.regions)
                counts.record(held, regions)


@dataclass
class _Counts:
    """Counts the rows that a task has written, by region."""

    rows: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    epochs: dict[str, int] = field(default_factory=dict)

    def record(self, held: Holding, regions: Iterable[str]) -> None:
        self.epochs.update((region, held.epoch(region)) for region in regions)

    def reports(self) -> tuple[RegionReport, ...]:
        return tuple(
            RegionReport(one, self.rows[one], self.deleted[one], epoch)
            for one, epoch in sorted(self.epochs.items())
        )
