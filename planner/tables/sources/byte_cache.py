"""A least-recently-used cache bounded in bytes, for things that never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

Value = TypeVar("Value")

ENTRY_OVERHEAD = 128
"""What an entry is booked at, beside its value."""


class ByteCache:
    """Computes each value once, however many threads ask at the same time.

    Keys are frozen dataclasses that hold all that their values depend on, so nothing is ever invalidated;
    what no longer is asked for leaves when room is needed.

    Attributes:
        max_bytes: the budget.
        hits: lookups that found something.
        misses: lookups that found nothing.

    Args:
        max_bytes: upper bound for the sum of all values; a larger value is handed out but not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes <= 0:
            msg = f"a cache needs room: {max_bytes} bytes given"
            raise ValueError(msg)
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._held = 0
        self._under_way: dict[Hashable, Future[Any]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return self._held

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 (values of many types share one budget)
        """The value, or None."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[Hashable]) -> list[Any]:
        """The value of each key, or None."""
        with self._lock:
            entries = [self._entry(key) for key in keys]
        return [None if entry is None else entry[0] for entry in entries]

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Keep a value that was computed elsewhere."""
        self.put_many(((key, value, nbytes),))

    def put_many(self, values: Iterable[tuple[Hashable, object, int]]) -> None:
        """Keep values that were computed elsewhere: key, value and bytes of each."""
        with self._lock:
            for key, value, nbytes in values:
                if nbytes > self.max_bytes:
                    continue
                before = self._entries.pop(key, None)
                self._held += nbytes - (0 if before is None else before[1])
                self._entries[key] = (value, nbytes)
                while self._held > self.max_bytes:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self._held -= freed

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
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
        else:
            self._entries.move_to_end(key)
            self.hits += 1
        return entry
