"""Statements that were running when a worker died, and what becomes of them."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import TTLCache

from memwal.errors import InvalidInputError

_MAX_SUSPECTS = 1024
_SUSPECT_SECONDS = 3600.0
_REFUSED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Record:
    deaths: int
    died_at: float
    why: str


class Suspects:
    """The statements of the last hour under which a worker died; safe to share between threads.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._has_any = False
        self._records: TTLCache[bytes, _Record] = TTLCache(_MAX_SUSPECTS, _SUSPECT_SECONDS, clock)

    def accuse(self, statement: bytes, why: str, *, was_alone: bool) -> None:
        """Record that a worker died under a statement.

        Args:
            statement: its name.
            why: how the worker ended.
            was_alone: whether the worker had no other statement, so that this one is to blame.
        """
        with self._lock:
            before = self._records.get(statement)
            deaths = before.deaths if before is not None else 0
            # Who was one of several is only suspected, however often that happens.
            deaths = deaths + 1 if was_alone else max(deaths, 1)
            self._records[statement] = _Record(deaths, self._clock(), why)
            self._has_any = True

    def must_be_alone(self, statement: bytes) -> bool:
        """Return whether a statement must run in a process of its own.

        Raises:
            InvalidInputError: it has ended two processes, and is refused for a while.
        """
        if not self._has_any:
            return False
        with self._lock:
            record = self._records.get(statement)
        if record is None:
            return False
        left = record.died_at + _REFUSED_SECONDS - self._clock()
        if record.deaths >= 2 and left > 0:
            raise InvalidInputError(
                f"the statement has ended {record.deaths} processes of the gateway, the last one with "
                f"{record.why}: it is refused for another {left:.0f} s; change it, or ask for less at once"
            )
        return True

    def acquit(self, statement: bytes) -> None:
        """Forget a statement that has run alone and did no harm."""
        with self._lock:
            self._records.pop(statement, None)
