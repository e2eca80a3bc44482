"""Gives memory back to the system while a process has nothing to do.

Allocators keep what was freed for the next time, in pieces for each thread. What decoding a table took once
would stay with each worker, though the columns lie in files that all of them share.
"""

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_LOOK_SECONDS = 0.5
_IDLE_SECONDS = 1.0
_M_ARENA_MAX = -8


class IdleMemory:
    """Counts what a process does, and frees memory when it has done nothing for a second. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._ended_at = 0.0
        self._is_dirty = False
        threading.Thread(target=self._watch, name="idle-memory", daemon=True).start()

    @contextmanager
    def work(self) -> Iterator[None]:
        """Count what is done in the block."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._ended_at, self._is_dirty = time.monotonic(), True

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            with self._lock:
                is_idle = not self._running and time.monotonic() - self._ended_at > _IDLE_SECONDS
                is_due = self._is_dirty and is_idle
                if is_due:
                    self._is_dirty = False
            if is_due:
                release_memory()


def prepare_allocators(arenas: int) -> None:
    """Let what is freed be given back later; call it before the process has threads.

    Args:
        arenas: parts of the heap; each thread takes one, and what is free in one serves no other.
    """
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's usual one keeps what threads have freed.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, arenas)


def release_memory() -> None:
    """Return freed memory to the system; nothing happens where the C library has no call for it."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
