"""A least-recently-used cache bounded in bytes, for things that never change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from cachetools import LRUCache

Value = TypeVar("Value")


class ByteCache:
    """Computes each value once, however many threads ask at the same time.

    Keys name immutable things (a dataset path and version, a WAL position), so nothing is ever invalidated;
    what no longer is asked for leaves when room is needed.

    Attributes:
        hits: lookups that found something.
        misses: lookups that found nothing.

    Args:
        max_bytes: upper bound for the sum of all values; a larger value is handed out but not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes <= 0:
            msg = f"a cache needs room: {max_bytes} bytes given"
            raise ValueError(msg)
        self._lock = threading.Lock()
        self._entries: LRUCache[Hashable, tuple[Any, int]] = LRUCache(
            max_bytes, getsizeof=lambda entry: entry[1]
        )
        self._under_way: dict[Hashable, Future[Any]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def max_bytes(self) -> int:
        """The budget."""
        return int(self._entries.maxsize)

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        with self._lock:
            return int(self._entries.currsize)

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 (values of many types share one budget)
        """The value, or None."""
        with self._lock:
            entry = self._entry(key)
            return None if entry is None else entry[0]

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Keep a value that was computed elsewhere."""
        with self._lock:
            if nbytes <= self._entries.maxsize:
                self._entries[key] = (value, nbytes)

    def compute(self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The cached value, or what `make` returns, which is then kept.

        Raises:
            Exception: whatever `make` raises; nothing is kept then.
        """
        with self._lock:
            entry = self._entry(key)
            if entry is not None:
                found: Value = entry[0]
                return found
            future = self._under_way.get(key)
            mine = future is None
            if future is None:
                future = self._under_way[key] = Future()
        if not mine:
            shared: Value = future.result()
            return shared
        try:
            value = make()
            self.put(key, value, size(value))
        except BaseException as error:
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._under_way[key]
        future.set_result(value)
        return value

    def _entry(self, key: Hashable) -> tuple[Any, int] | None:
        try:
            # One access, where `get` of the cache hashes the key a third time to see whether it is there.
            entry: tuple[Any, int] = self._entries[key]
        except KeyError:
            self.misses += 1
            return None
        self.hits += 1
        return entry
