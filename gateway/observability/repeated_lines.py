"""Repeated lines of the log are counted: a client that provokes one again and again does not fill a disk."""

import copy
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

_Line: TypeAlias = tuple[str, int, str, type[BaseException] | None, str | None]
_SECONDS: Final = 10.0
_MAX_LINES: Final = 1000
"""Different lines that are remembered; the oldest are forgotten."""


@dataclass(slots=True)
class _Repetition:
    record: logging.LogRecord
    since: float
    count: int = 0


class RepeatedLines(logging.Filter):
    """Lets a line through once in a time, and says behind it how often it was repeated.

    Lines are the same if logger, level, text, the class of the exception and the statement are, so each
    statement has its lines. What was left out is written with the next line of any kind, once the time has
    passed.

    Args:
        write: takes the lines that say so.
        seconds: the time.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        write: Callable[[logging.LogRecord], object],
        seconds: float = _SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._write = write
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        # In order of their first occurrence.
        self._lines: OrderedDict[_Line, _Repetition] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written now."""
        kind = record.exc_info[0] if record.exc_info else None
        statement: str | None = getattr(record, "query_id", None)
        line = record.name, record.levelno, record.getMessage(), kind, statement
        with self._lock:
            now, ended = self._clock(), []
            while self._lines and next(iter(self._lines.values())).since + self._seconds <= now:
                ended.append(self._lines.popitem(last=False)[1])
            known = self._lines.get(line)
            if known is None:
                self._lines[line] = _Repetition(record, now)
                if len(self._lines) > _MAX_LINES:
                    ended.append(self._lines.popitem(last=False)[1])
            else:
                known.count += 1
        for repetition in ended:
            if repetition.count:
                self._write(self._summarise(repetition))
        return known is None

    def _summarise(self, repetition: _Repetition) -> logging.LogRecord:
        record = copy.copy(repetition.record)
        record.msg = f"{record.getMessage()} [{repetition.count} more times within {self._seconds:g} s]"
        record.args, record.exc_info, record.exc_text = (), None, None
        return record
