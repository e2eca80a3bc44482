"""Splits sorted rows into chunks, and claims the regions that they are written to.

An attempt of a task claims a region first and then looks for the batch's marker. A late attempt finds the
marker and writes nothing; one that claimed before the marker existed is fenced by writers of newer rows.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.writing import (
    Changes,
    ExclusiveRegions,
    FencedError,
    OutcomeUnknownError,
    PartlyWrittenError,
    TableWriter,
    WriteReceipt,
)

_log = logging.getLogger(__name__)
_TURNS = 4
"""Attempts to claim the regions of a chunk, since another writer may claim them too."""


class SupersededError(LanceGatewayError):
    """The batch is complete: another attempt wrote it, and newer rows may have been written since."""


@dataclass(eq=False)
class Holding:
    """Claims regions for a batch, and writes to them while they are held.

    Attributes:
        writer: writer of the table in this process.
        is_complete: returns whether the batch is complete; called after each claim.
        name: name of the table, for messages.
    """

    writer: TableWriter
    is_complete: Callable[[], bool]
    name: str
    _held: ExclusiveRegions | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def write(self, changes: Changes, regions: frozenset[str]) -> WriteReceipt:
        """Write rows durably.

        If another writer claimed a region, it is claimed again and the marker is looked for again. Rows may
        be written twice then, which is safe: a batch has one row per key.

        Args:
            changes: rows and keys of the regions.
            regions: ids of the regions.

        Raises:
            SupersededError: the batch is complete; nothing was written.
            UnavailableError: another writer claimed the regions in every attempt, or storage failed.
        """
        for turn in range(1, _TURNS + 1):
            try:
                return self._claim(regions).write(changes)
            except (FencedError, OutcomeUnknownError, PartlyWrittenError) as error:
                self.release()
                if turn == _TURNS:
                    raise
                _log.info("table %r: region taken away, is claimed again: %s", self.name, error)
        raise AssertionError  # pragma: no cover - the last turn returns or raises

    def epoch(self, region_id: str) -> int:
        """Return the epoch of the claim of a region; 0 if the region is not held."""
        return 0 if self._held is None else self._held.epoch(region_id)

    def release(self) -> None:
        """Release the held regions without flushing them."""
        self._held = None
        self._stack.close()

    def _claim(self, regions: frozenset[str]) -> ExclusiveRegions:
        held = self._held
        if held is not None and regions <= held.regions:
            return held
        wanted = regions if held is None else regions | held.regions
        self.release()
        if self.is_complete():  # Avoids a useless claim, which would fence writers of newer rows.
            raise self._superseded_error()
        held = self._stack.enter_context(self.writer.exclusive(wanted))
        if self.is_complete():
            raise self._superseded_error()
        self._held = held
        return held

    def _superseded_error(self) -> SupersededError:
        return SupersededError(f"table {self.name!r}: the batch is complete; nothing more was written")


@contextmanager
def hold_regions(writer: TableWriter, is_complete: Callable[[], bool], *, flush: bool) -> Iterator[Holding]:
    """Hold regions during a block, and release them at its end.

    Args:
        writer: writer of the table; closed at the end.
        is_complete: returns whether the batch is complete.
        flush: whether to flush written rows to generations.
    """
    held = Holding(writer, is_complete, writer.name)
    try:
        yield held
    except BaseException:
        held.release()
        writer.abandon()  # Written rows stay in the log.
        raise
    held.release()
    release_regions(writer, flush=flush)
    writer.abandon()


def release_regions(writer: TableWriter, *, flush: bool) -> None:
    """Release all regions of a writer, whose rows are durable.

    Args:
        writer: the writer; may be used again.
        flush: whether to flush rows to generations first; rows that can't be flushed stay in the log.
    """
    if not flush:
        writer.release_regions()
        return
    try:
        writer.flush()
    except UnavailableError as error:
        _log.warning("rows are durable, but were not flushed: %s", error)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one region.

    Attributes:
        number: number of the region.
        rows: the rows, with all columns.
    """

    number: int
    rows: pa.Table


def split_into_chunks(
    batches: Iterable[pa.RecordBatch], region: str, *, rows: int, nbytes: int
) -> Iterator[Chunk]:
    """Split rows into chunks of one region each.

    Args:
        batches: rows, sorted by region.
        region: column with the number of the region.
        rows: maximum number of rows of a chunk.
        nbytes: approximate size of a chunk.
    """
    number = 0
    parts: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        for value, part in _split_by_region(batch, region):
            if parts and value != number:
                yield Chunk(number, pa.Table.from_batches(parts))
                parts, count, size = [], 0, 0
            number, rest = value, part
            while rest.num_rows:
                # At least one row, and about as many as fit into the remaining bytes.
                fitting = max(int((nbytes - size) * rest.num_rows / max(rest.nbytes, 1)), 0 if parts else 1)
                taken = rest.slice(0, min(rows - count, fitting))
                if taken.num_rows:
                    parts.append(taken)
                    count, size = count + taken.num_rows, size + int(taken.nbytes)
                    rest = rest.slice(taken.num_rows)
                if rest.num_rows or count >= rows or size >= nbytes:
                    yield Chunk(number, pa.Table.from_batches(parts))
                    parts, count, size = [], 0, 0
    if parts:
        yield Chunk(number, pa.Table.from_batches(parts))


def keep_last_rows(
    batches: Iterable[pa.RecordBatch], region: str, key: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the last row of each key.

    Args:
        batches: rows, sorted by region and key, the oldest first.
        region: column with the number of the region.
        key: columns of the key.
    """
    names = [region, *key]
    held: pa.RecordBatch | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        if held is not None and any(held.column(name) != batch.column(name).slice(0, 1) for name in names):
            yield held
        is_last = np.zeros(batch.num_rows, np.bool_)
        for name in names:
            column = batch.column(name)
            is_last[:-1] |= pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(
                zero_copy_only=False
            )
        # The next batch decides whether the last row is the last of its key.
        held = batch.slice(batch.num_rows - 1)
        if is_last.any():
            yield (
                batch.slice(0, batch.num_rows - 1) if is_last[:-1].all() else batch.filter(pa.array(is_last))
            )
    if held is not None:
        yield held


def _split_by_region(batch: pa.RecordBatch, region: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    numbers = batch.column(region).to_numpy()
    ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    start = 0
    for end in ends:
        yield int(numbers[start]), batch.slice(start, end - start)
        start = end
