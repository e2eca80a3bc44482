"""Limits of a server, and the cache of state that clients leave between calls."""

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server, which `gateway.config.schema` explains; 0 is no limit where it is allowed."""

    max_concurrent_queries: int = 64
    max_queued_queries: int = 1024
    queue_timeout_seconds: float = 30.0
    query_timeout_seconds: float = 0.0
    max_result_rows: int = 0
    max_result_bytes: int = 0
    # A gRPC message of 4 MiB, where some clients stop, also holds the header of the batch.
    max_batch_bytes: int = (4 << 20) - (64 << 10)
    # The text of a statement comes back in its ticket and its handle, and clients limit what they receive.
    max_message_bytes: int = 4 << 20
    max_bound_rows: int = 1_000_000
    max_bound_bytes: int = 64 << 20
    max_sessions: int = 10_000
    session_idle_seconds: float = 12 * 3600.0
    max_prepared_statements: int = 4096
    max_transactions: int = 10_000
    max_user_transactions: int = 5_000
    max_transaction_bytes: int = 64 << 20
    max_open_transaction_bytes: int = 512 << 20
    transaction_idle_seconds: float = 600.0
    max_waiting_uploads: int = 512
    max_user_waiting_uploads: int = 256
    upload_timeout_seconds: float = 300.0
    query_history: int = 1000
    max_followers: int = 64
    follow_heartbeat_seconds: float = 5.0

    def __post_init__(self) -> None:
        zero_allowed = {
            "max_queued_queries",
            "queue_timeout_seconds",
            "query_timeout_seconds",
            "max_result_rows",
            "max_result_bytes",
            "upload_timeout_seconds",
            "query_history",
        }
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            least = "0 or more" if field.name in zero_allowed else "more than 0"
            if value < 0 or (value == 0 and field.name not in zero_allowed):
                raise InvalidInputError(f"the limit {field.name} is {value}: choose {least}")
