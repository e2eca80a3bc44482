"""Tasks on Spark's executors that fail once, at a chosen place, and tell how often they were tried."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.pipeline.ingesting.columns import Columns
from lance_gateway.pipeline.ingesting.options import RegionReport
from lance_gateway.pipeline.ingesting.writing import RegionsWriter


@dataclass(frozen=True)
class DyingWriter(RegionsWriter):
    """Its process is killed in the middle of the first attempt of each partition, rows being written."""

    notes: Path = Path()

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[RegionReport, ...]:
        attempt = note(self.notes)
        columns = Dying(**plain(self.columns), chunks=1 if attempt == 0 else 1 << 30)
        return RegionsWriter(**{**plain(self), "columns": columns}).write(batches)


@dataclass(frozen=True)
class FailingWriter(RegionsWriter):
    """Its first attempt fails after all rows were written and flushed."""

    notes: Path = Path()

    def write(self, batches: Iterator[pa.RecordBatch]) -> tuple[RegionReport, ...]:
        attempt = note(self.notes)
        found = RegionsWriter(**plain(self)).write(batches)
        if attempt == 0:
            raise UnavailableError("the answer was lost")
        return found


@dataclass(frozen=True)
class Dying(Columns):
    """Kills its process after a number of chunks."""

    chunks: int = 0

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        object.__setattr__(self, "chunks", self.chunks - 1)
        if self.chunks < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().split(rows)


def note(notes: Path) -> int:
    """Note an attempt of the task that runs here; its number."""
    context = TaskContext.get()
    assert context is not None
    attempt = context.attemptNumber()
    (notes / f"{context.partitionId()}-{attempt}").touch()
    return int(attempt)


def plain(found: Any) -> dict[str, Any]:
    """Fields of what a class of the pipeline is made of."""
    kind = RegionsWriter if isinstance(found, RegionsWriter) else Columns
    return {one.name: getattr(found, one.name) for one in fields(kind)}
