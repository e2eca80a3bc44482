"""Shows that a process lives while it owns regions of a table, and flushes regions that are idle or lost.

A region is lost to a writer that can't read its log, as LanceDB's on Lance 13, within seconds: it is flushed
then, so that the other writer has it at its next attempt (ADR 91).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing.exclusive import LATE_SECONDS
from lance_gateway.memwal.writing.region.abandoned import HEARTBEAT_SECONDS, remove_heartbeat, write_heartbeat
from lance_gateway.memwal.writing.region.region_writer import RegionWriter

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
"""How often is looked whether another writer claimed a region."""
_LOOK_SECONDS_EACH = 0.02
"""The same, times the regions that are owned: so many requests a second are enough."""


class Tidier:
    """Tidies the regions of one table in a thread of its own, from its construction on.

    Args:
        name: of the table.
        storage: directory of the table.
        writer_id: names the table's writer among all.
        idle_seconds: after which a region is flushed; 0 for never.
        list_regions: returns the writers of regions that there are.
        is_there: returns whether the table still exists.
        stopped: ends the thread.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        writer_id: str,
        idle_seconds: float,
        list_regions: Callable[[], Sequence[RegionWriter]],
        is_there: Callable[[], bool],
        stopped: threading.Event,
    ) -> None:
        self._storage = storage
        self._writer_id = writer_id
        self._idle_seconds = idle_seconds or math.inf
        self._list_regions = list_regions
        self._is_there = is_there
        self._stopped = stopped
        self._thread = threading.Thread(target=self._run, name=f"tidy-{name}", daemon=True)
        self._thread.start()

    def remove_heartbeat(self) -> None:
        """Say that the writer owns nothing any more, once the thread has ended."""
        self._thread.join(LATE_SECONDS)
        remove_heartbeat(self._storage, self._writer_id)

    def _run(self) -> None:
        shown_at = -math.inf
        while True:
            now = time.monotonic()
            if now - shown_at >= HEARTBEAT_SECONDS / 2 and (
                shown_at < 0 or any(writer.is_owned for writer in self._list_regions())
            ):
                self._write_heartbeat()
                shown_at = now
            writers = self._list_regions()
            pause = max(_LOOK_SECONDS, _LOOK_SECONDS_EACH * sum(writer.is_owned for writer in writers))
            if self._stopped.wait(min(max(self._idle_seconds / 4, 0.05), pause)):
                return
            for writer in self._list_regions():
                if writer.is_owned and not writer.queue.is_busy:
                    with suppress(LanceGatewayError):
                        writer.notice_loss(time.monotonic() + LATE_SECONDS)
                if not writer.queue.is_busy and (
                    writer.idle_seconds > self._idle_seconds or writer.has_unflushed_loss
                ):
                    flush = writer.flush_after_loss if writer.has_unflushed_loss else writer.flush
                    try:
                        flush(time.monotonic() + LATE_SECONDS)
                    except LanceGatewayError as error:
                        _log.warning("an idle region was not flushed: %s", error)

    def _write_heartbeat(self) -> None:
        with suppress(LanceGatewayError), keep_in_place(self._storage):
            if self._is_there():
                write_heartbeat(self._storage, self._writer_id)
