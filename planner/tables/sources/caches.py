"""Cache in memory: values of any kind within a byte budget."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import Any, TypeVar

Value = TypeVar("Value")

ENTRY_OVERHEAD = 128
"""Bytes of an entry beside its value."""

_count_bytes: Callable[[Any], int] = attrgetter("nbytes")
_MARK = object()
"""Stands among the keys: those behind it were requested since `take_used` was called."""


class ByteCache:
    """Cache that computes each value once for all threads that request it at the same time.

    Keys are frozen dataclasses that hold all that their values depend on, so nothing is ever invalidated;
    values that were not requested for the longest time are evicted first.

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
        self._nbytes = 0
        self._pending: dict[Hashable, Future[Any]] = {}
        self.hits = 0
        self.misses = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return self._nbytes

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - values of many types share one budget
        """Return the value, or None."""
        return self.get_many((key,))[0]

    def get_many(self, keys: Iterable[Hashable]) -> list[Any]:
        """Return the value of each key, or None."""
        with self._lock:
            entries = [self._look_up(key) for key in keys]
        return [None if entry is None else entry[0] for entry in entries]

    def put(self, key: Hashable, value: object, nbytes: int) -> None:
        """Store a value that was computed elsewhere."""
        self.put_many(((key, value, nbytes),))

    def put_many(self, values: Iterable[tuple[Hashable, object, int]]) -> None:
        """Store values that were computed elsewhere, each as key, value and bytes."""
        with self._lock:
            for key, value, nbytes in values:
                if nbytes > self.max_bytes:
                    continue
                before = self._entries.pop(key, None)
                self._nbytes += nbytes - (0 if before is None else before[1])
                self._entries[key] = (value, nbytes)
                while self._nbytes > self.max_bytes:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self._nbytes -= freed

    def compute(
        self, key: Hashable, make: Callable[[], Value], size: Callable[[Value], int] | None = None
    ) -> Value:
        """Return the cached value; if there is none, compute and store it.

        Args:
            key: of the value.
            make: computes it.
            size: returns its bytes; by default, its `nbytes`.

        Raises:
            Exception: whatever `make` raises; nothing is kept then.
        """
        with self._lock:
            entry = self._look_up(key)
            if entry is not None:
                found: Value = entry[0]
                return found
            future = self._pending.get(key)
            mine = future is None
            if future is None:
                future = self._pending[key] = Future()
        if not mine:
            shared: Value = future.result()
            return shared
        try:
            value = make()
            self.put(key, value, (size or _count_bytes)(value))
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
        future.set_result(value)
        return value

    def discard(self, keys: Iterable[Hashable]) -> None:
        """Drop values; keys without one are passed over."""
        with self._lock:
            for key in keys:
                entry = self._entries.pop(key, None)
                self._nbytes -= 0 if entry is None else entry[1]

    def take_used(self) -> Sequence[Hashable]:
        """Return the keys that were requested or stored since the last call, the last one first."""
        with self._lock:
            used = list(itertools.takewhile(lambda key: key is not _MARK, reversed(self._entries)))
            self._entries[_MARK] = (None, 0)
            self._entries.move_to_end(_MARK)
        return used

    def __contains__(self, key: Hashable) -> bool:
        """Return whether there is a value, without requesting it."""
        return key in self._entries

    def _look_up(self, key: Hashable) -> tuple[Any, int] | None:
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
        else:
            self._entries.move_to_end(key)
            self.hits += 1
        return entry
