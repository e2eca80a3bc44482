"""Find the outcome of a failed append in the log (ADR 18)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from enum import Enum

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.regions.wal import read_wal_entry_if_present
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing.changes import FencedError, OutcomeUnknownError

_log = logging.getLogger(__name__)
FENCE_SECONDS = 1.0
"""Within this time a writer that claimed a region has written its first entry, if it lives."""
CLAIM_SECONDS = 5.0
FIRST_PAUSE = 0.002


class Arrival(Enum):
    """The outcome of an append that failed."""

    WRITTEN = "written"
    NOT_WRITTEN = "not written"
    UNKNOWN = "unknown"


class InDoubtError(UnavailableError):
    """An append failed, and its outcome must be looked up.

    Attributes:
        position: at which they are if they arrived, or behind fences that begin there.
        epoch: with which they are there.
        by_peer: whether another writer's claim was the reason.
    """

    def __init__(self, message: str, position: int, epoch: int, *, by_peer: bool) -> None:
        super().__init__(message)
        self.position = position
        self.epoch = epoch
        self.by_peer = by_peer


def check_arrival(storage: Storage, region_id: str, position: int, epoch: int) -> Arrival | None:
    """Return the outcome of an append of the writer with this epoch; None while it is unknown.

    Whoever appends at a position takes it for good, so the entry of a writer that claimed the region later is
    an answer too. Fences of writers that claimed it earlier tell nothing: see `find_appended_position`.

    Args:
        storage: directory of the table.
        region_id: of the region.
        position: that follows the newest entry of the writer before.
        epoch: of the writer.

    Raises:
        LanceGatewayError: the log can't be read.
    """
    while (entry := read_wal_entry_if_present(storage, region_id, position)) is not None:
        if entry.writer_epoch > epoch:
            return Arrival.NOT_WRITTEN
        if entry.writer_epoch == epoch and not entry.is_fence:
            return Arrival.WRITTEN
        position += 1
    return None


def has_arrived(
    storage: Storage,
    region_id: str,
    doubt: InDoubtError,
    deadline: float,
    stopped: threading.Event,
    claim: Callable[[], object],
    *,
    is_once: bool,
) -> bool:
    """Return whether a failed append is in the log; if not, it may be retried.

    Args:
        storage: directory of the table.
        region_id: of the region.
        doubt: about the append.
        deadline: monotonic time.
        stopped: whoever waits is to give up.
        claim: claims the region again.
        is_once: whether it must not be tried again.

    Raises:
        FencedError: it is not, and must not be tried again.
        OutcomeUnknownError: nobody can tell.
    """
    found = _look_up(storage, region_id, doubt, deadline, stopped, claim)
    if found is Arrival.WRITTEN:
        return True
    if found is Arrival.UNKNOWN:
        raise OutcomeUnknownError(f"{doubt}: whether the rows were written can't be told") from doubt
    if is_once or time.monotonic() > deadline:
        raise FencedError(f"{doubt}: nothing was written, retry") from doubt
    return False


def _look_up(
    storage: Storage,
    region_id: str,
    doubt: InDoubtError,
    deadline: float,
    stopped: threading.Event,
    claim: Callable[[], object],
) -> Arrival:
    give_up = min(deadline, time.monotonic() + (FENCE_SECONDS if doubt.by_peer else 0.0))
    pause = FIRST_PAUSE
    try:
        while (found := check_arrival(storage, region_id, doubt.position, doubt.epoch)) is None:
            if time.monotonic() >= give_up:
                break
            stopped.wait(pause)
            pause = min(pause * 2, 0.1)
    except LanceGatewayError:
        found = None
    if found is not None:
        return found
    # Nobody took the position yet: our own claim does, and then what did not arrive never will.
    give_up, pause = min(deadline, time.monotonic() + CLAIM_SECONDS), FIRST_PAUSE
    while True:
        try:
            claim()
            found = check_arrival(storage, region_id, doubt.position, doubt.epoch)
        except LanceGatewayError as error:
            if time.monotonic() >= give_up:
                _log.warning("%s: after a failed write the log can't be read: %s", doubt, error)
                return Arrival.UNKNOWN
            stopped.wait(pause)
            pause = min(pause * 2, 0.5)
        else:
            return found or Arrival.UNKNOWN
