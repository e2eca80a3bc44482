"""Regions as one attempt of a task holds them, for one batch.

An attempt claims a region first and looks for the batch's marker then. What wakes up late finds the marker
and writes nothing; what claimed before the marker was there is fenced by whoever writes newer rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

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
            LanceGatewayError: as `TableWriter.write`.
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
        writer.let_go()
        return
    try:
        writer.flush()
    except UnavailableError as error:
        _log.warning("rows are durable, but were not flushed: %s", error)
