"""Lance writers that were given up, until they can be closed.

A Lance writer keeps its MemTable, with all rows of the region's log that it replayed, and tasks that never
end, until it is closed, also when nobody refers to it. To close it flushes its MemTable and appends what
failed to be appended. Once another claim fenced it off, both are refused, and nothing is done but to free
its memory.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any


class DiscardedWriters:
    """Lance writers of one region that were given up. Thread-safe.

    Args:
        pool: closes them in the background; None to close them at once.
    """

    def __init__(self, pool: Executor | None = None) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._writers: list[tuple[int, Any]] = []

    def __len__(self) -> int:
        return len(self._writers)

    def add(self, epoch: int, writer: Any) -> None:  # noqa: ANN401 - lance types
        """Keep a writer until it is fenced off.

        Args:
            epoch: of its claim, or a later one.
            writer: the Lance writer.
        """
        with self._lock:
            self._writers.append((epoch, writer))

    def close_before(self, epoch: int, *, waits: bool = False) -> None:
        """Close the writers whose claims are older than this one, which is known to have fenced them off.

        Args:
            epoch: of the claim.
            waits: whether to return when they are closed.
        """
        with self._lock:
            fenced = [writer for claimed, writer in self._writers if claimed < epoch]
            self._writers = [writer for writer in self._writers if writer[0] >= epoch]
        if not fenced:
            return
        if self._pool is not None and not waits:
            # A pool that was shut down takes nothing more.
            with suppress(RuntimeError):
                self._pool.submit(_close, fenced)
                return
        _close(fenced)


def _close(writers: Sequence[Any]) -> None:
    for writer in writers:
        # It ends its tasks before it tells that it was fenced off.
        with suppress(OSError, RuntimeError):
            writer.close()
