"""On executors, after the shuffle: one writer per region."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from memwal.writing import Changes, TableWriter, WriteOptions
from pipeline.ingesting.chunks import Chunk, chunks, last_of_keys
from pipeline.ingesting.columns import Columns
from pipeline.ingesting.holding import Holding, SupersededError, give_back, holding
from pipeline.ingesting.markers import BatchMarkers
from pipeline.ingesting.options import IngestOptions
from pipeline.ingesting.report import RegionReport
from pipeline.ingesting.routing import REGION
from pipeline.jobs.lake import LakeTable
from pipeline.spark.carrying import carrying
from pipeline.spark.versions import Versions

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
        uri: of the table.
        storage_options: of its storage.
        columns: how rows fit it.
        job: whose batch this is.
        batch: its number.
        options: of the job.
        versions: of the driver.
    """

    uri: str
    storage_options: Mapping[str, str]
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
        """What was written, by region; nothing where the batch is found to be complete.

        Raises:
            LanceGatewayError: as `Holding.write`.
        """
        first = next((one for one in batches if one.num_rows), None)
        if first is None:
            return ()
        at = LakeTable.at(self.uri, self.storage_options)
        markers = BatchMarkers(at.storage, self.job)
        options = WriteOptions(
            hold_ms=self.options.hold_ms,
            claim_timeout_ms=_CLAIM_TIMEOUT_MS,
            max_memtable_rows=self.options.memtable_rows,
            max_memtable_bytes=self.options.memtable_bytes,
            idle_close_seconds=0,
        )
        writer = TableWriter(at.name, at.storage, options)
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
                regions = writer.regions_of(rows)
                receipt = held.write(Changes(upserts=rows), frozenset(regions))
                counts.rows.update(receipt.regions)
                counts.note(held, regions)
            if dead is not None and dead.num_rows:
                dead = self.columns.conformed(dead)
                regions = writer.regions_of(dead)
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
