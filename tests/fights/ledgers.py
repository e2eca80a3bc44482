"""What writers were acknowledged of, by key: which values a reader may have seen."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Write:
    """A value of one key, None where it was deleted.

    Attributes:
        value: the value.
        began: when its statement was sent, in seconds.
        ended: when it was acknowledged.
    """

    value: int | None
    began: float
    ended: float = float("inf")


@dataclass
class Ledger:
    """All writes by key, each key's in order, since one writer at a time changes it."""

    writes: dict[int, list[Write]] = field(default_factory=lambda: defaultdict(list))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def changing(self, after: dict[int, int | None]) -> Iterator[None]:
        """Note what a statement changes, before it is sent and once it was acknowledged."""
        noted = {key: Write(value, time.perf_counter()) for key, value in after.items()}
        with self._lock:
            for key, write in noted.items():
                self.writes[key].append(write)
        yield
        ended = time.perf_counter()
        for write in noted.values():
            write.ended = ended

    def current(self) -> dict[int, int]:
        """The newest rows; only for who writes them."""
        with self._lock:
            newest = {key: writes[-1].value for key, writes in self.writes.items()}
        return {key: value for key, value in newest.items() if value is not None}

    def possible(self, began: float, ended: float) -> dict[int, set[int | None]]:
        """The values that each key had at some time between two moments."""
        with self._lock:
            copied = {key: tuple(writes) for key, writes in self.writes.items()}
        return {key: set(_find_possible(writes, began, ended)) for key, writes in copied.items()}

    def explain(self, rows: Iterable[tuple[int, int]], began: float, ended: float) -> str:
        """What is wrong with the rows of a table that were read between two moments; empty if nothing is."""
        possible = self.possible(began, ended)
        found: dict[int, int] = {}
        for key, value in rows:
            if key in found:
                return f"key {key} twice, {found[key]} and {value}"
            found[key] = value
        for key in {*found, *possible}:
            if found.get(key) not in possible.get(key, {None}):
                return f"key {key} is {found.get(key)}, may be {possible.get(key)}"
        return ""


def _find_possible(writes: tuple[Write, ...], began: float, ended: float) -> Iterator[int | None]:
    if writes[0].ended >= began:
        yield None
    for at, write in enumerate(writes):
        is_over = at + 1 < len(writes) and writes[at + 1].ended < began
        if write.began <= ended and not is_over:
            yield write.value
