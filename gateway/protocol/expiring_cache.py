"""The cache of state that clients leave between calls."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from lance_gateway.memwal.errors import InvalidInputError

Key = TypeVar("Key")
Value = TypeVar("Value")


class ExpiringCache(Generic[Key, Value]):
    """Keeps up to `capacity` values; the one unused longest leaves first, idle ones after a time.

    Safe for use by several threads.

    Args:
        capacity: the largest number of values.
        idle_seconds: a value that was not used for this time is removed.
        clock: seconds, never going back.

    Attributes:
        on_left: is told of each key whose value has left by itself, soon after.
    """

    def __init__(
        self, capacity: int, idle_seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if capacity < 1 or idle_seconds <= 0:
            raise InvalidInputError(
                f"capacity {capacity} and idle time {idle_seconds} s: both must be positive"
            )
        self._capacity = capacity
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lock = threading.Lock()
        # Ordered by time of last use, oldest first.
        self._entries: OrderedDict[Key, tuple[float, Value]] = OrderedDict()
        self._left: list[Key] = []
        self.on_left: Callable[[Key], None] = lambda _: None

    def __len__(self) -> int:
        with self._hold():
            self._expire(self._clock())
            return len(self._entries)

    def put(self, key: Key, value: Value) -> None:
        """Store `value`, replacing what the key had."""
        with self._hold():
            now = self._clock()
            self._entries[key] = (now, value)
            self._entries.move_to_end(key)
            self._expire(now)
            while len(self._entries) > self._capacity:
                self._left.append(self._entries.popitem(last=False)[0])

    def replace(self, key: Key, value: Value) -> bool:
        """Store `value` if the key still has one, which counts as a use; return whether it had."""
        with self._hold():
            now = self._clock()
            self._expire(now)
            if key not in self._entries:
                return False
            self._entries[key] = (now, value)
            self._entries.move_to_end(key)
            return True

    def get(self, key: Key) -> Value | None:
        """Return the value, which counts as a use; None if it is not (or no longer) kept."""
        with self._hold():
            now = self._clock()
            self._expire(now)
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries[key] = (now, entry[1])
            self._entries.move_to_end(key)
            return entry[1]

    def pop(self, key: Key) -> Value | None:
        """Forget the value and return it, or None when it was not kept."""
        with self._hold():
            self._expire(self._clock())
            entry = self._entries.pop(key, None)
            return None if entry is None else entry[1]

    def entries(self) -> list[tuple[Key, float, Value]]:
        """Return each key, the seconds since its last use, and the value; this is no use."""
        with self._hold():
            now = self._clock()
            self._expire(now)
            return [(key, now - used, value) for key, (used, value) in self._entries.items()]

    @contextmanager
    def _hold(self) -> Iterator[None]:
        with self._lock:
            yield
            left, self._left = self._left, []
        for key in left:
            self.on_left(key)

    def _expire(self, now: float) -> None:
        while self._entries:
            used, _ = next(iter(self._entries.values()))
            if now - used <= self._idle_seconds:
                return
            self._left.append(self._entries.popitem(last=False)[0])
