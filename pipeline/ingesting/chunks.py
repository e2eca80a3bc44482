"""Sorted rows in pieces that are written at once, and the claims of the regions that they go to.

An attempt of a task claims a region first and looks for the batch's marker then. What wakes up late finds the
marker and writes nothing; what claimed before the marker was there is fenced by whoever writes newer rows.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import LanceGatewayError, UnavailableError
from memwal.writing import (
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
"""How often regions are claimed for one chunk: another writer may take turns with this one."""


class SupersededError(LanceGatewayError):
    """The batch is complete: another attempt wrote it, and newer rows may have come since."""


@dataclass(eq=False)
class Holding:
    """Claims regions for a batch, and writes to them while they are held.

    Attributes:
        writer: of the table, in this process.
        is_complete: whether the batch is complete; asked after each claim.
        name: of the table, for messages.
    """

    writer: TableWriter
    is_complete: Callable[[], bool]
    name: str
    _held: ExclusiveRegions | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def write(self, changes: Changes, regions: frozenset[str]) -> WriteReceipt:
        """Write rows durably.

        Where another writer took a region away, it is claimed again: that is a new attempt in all but name,
        the marker is looked for once more, and every key has one row in a batch, so that it does not matter
        which of them are written twice.

        Args:
            changes: of these regions.
            regions: where they belong.

        Raises:
            SupersededError: the batch is complete; nothing was written.
            UnavailableError: others keep taking the region away, or storage failed.
        """
        for turn in range(1, _TURNS + 1):
            try:
                return self._holding(regions).write(changes)
            except (FencedError, OutcomeUnknownError, PartlyWrittenError) as error:
                self.release()
                if turn == _TURNS:
                    raise
                _log.info("table %r: region taken away, is claimed again: %s", self.name, error)
        raise AssertionError  # pragma: no cover - the last turn returns or raises

    def epoch(self, region_id: str) -> int:
        """Of the newest claim of a region that is held; 0 where it is not."""
        return 0 if self._held is None else self._held.epoch(region_id)

    def release(self) -> None:
        """Let go of what is held, as it is."""
        self._held = None
        self._stack.close()

    def _holding(self, regions: frozenset[str]) -> ExclusiveRegions:
        held = self._held
        if held is not None and regions <= held.regions:
            return held
        wanted = regions if held is None else regions | held.regions
        self.release()
        if self.is_complete():  # Spares who writes newer rows a claim that leads to nothing.
            raise self._superseded()
        held = self._stack.enter_context(self.writer.exclusive(wanted))
        if self.is_complete():
            raise self._superseded()
        self._held = held
        return held

    def _superseded(self) -> SupersededError:
        return SupersededError(f"table {self.name!r}: the batch is complete; nothing more was written")


@contextmanager
def holding(writer: TableWriter, is_complete: Callable[[], bool], *, flush: bool) -> Iterator[Holding]:
    """Regions that are held by the block; its end gives them back.

    Args:
        writer: is closed at the end.
        is_complete: as `Holding.is_complete`.
        flush: make generations of what was written.
    """
    held = Holding(writer, is_complete, writer.name)
    try:
        yield held
    except BaseException:
        held.release()
        writer.abandon()  # Whoever comes next finds in the log what was written.
        raise
    held.release()
    give_back(writer, flush=flush)
    writer.abandon()


def give_back(writer: TableWriter, *, flush: bool) -> None:
    """Let go of all regions of a writer, whose rows are durable.

    Args:
        writer: may be used again.
        flush: make generations first; what can't be flushed stays in the log.
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
        number: of the region.
        rows: all columns that came in.
    """

    number: int
    rows: pa.Table


def chunks(batches: Iterable[pa.RecordBatch], region: str, *, rows: int, nbytes: int) -> Iterator[Chunk]:
    """Rows in pieces.

    Args:
        batches: in which rows of one region follow one another.
        region: column with its number.
        rows: of one piece at most.
        nbytes: of one piece, about.
    """
    number = 0
    parts: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        for value, part in _runs(batch, region):
            if parts and value != number:
                yield Chunk(number, pa.Table.from_batches(parts))
                parts, count, size = [], 0, 0
            number, rest = value, part
            while rest.num_rows:
                # At least a row, and about as many as there are bytes left for.
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


def last_of_keys(
    batches: Iterable[pa.RecordBatch], region: str, key: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The last row of each key.

    Args:
        batches: in which rows of one region and key follow one another, the oldest first.
        region: column with the number of a row's region.
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
        # Whether the very last row is the last of its key, only the next batch tells.
        held = batch.slice(batch.num_rows - 1)
        if is_last.any():
            yield (
                batch.slice(0, batch.num_rows - 1) if is_last[:-1].all() else batch.filter(pa.array(is_last))
            )
    if held is not None:
        yield held


def _runs(batch: pa.RecordBatch, region: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    numbers = batch.column(region).to_numpy()
    ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
    start = 0
    for end in ends:
        yield int(numbers[start]), batch.slice(start, end - start)
        start = end
