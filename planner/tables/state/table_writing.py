"""The one writer of a table in this process."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from execnodes.storage.data_files import Place
from memwal.errors import PreconditionError
from memwal.storage.files import Storage
from memwal.writing import OwnTail, TableWriter, WriteOptions
from planner.tables.state.table_state import Newest


class TableWriting:
    """Makes the writer of a table when it is first asked for; safe to share between threads.

    Attributes:
        written_at: when rows were written last, in seconds of the monotonic clock.

    Args:
        name: of the table in the catalog.
        storage: directory of the table.
        options: how it is written; None where it is only read.
        newest: tells which table is in the directory now.
    """

    def __init__(self, name: str, storage: Storage, options: WriteOptions | None, newest: Newest) -> None:
        self._name = name
        self._storage = storage
        self._options = options
        self._newest = newest
        self._writer: TableWriter | None = None
        self._place: Place | None = None
        self._lock = threading.Lock()
        self.written_at = -math.inf

    @property
    def opened(self) -> TableWriter | None:
        """What `writer` made; None where nothing was written yet."""
        return self._writer

    def writer(self) -> TableWriter:
        """Return the writer; the same object while it is the same table.

        Raises:
            PreconditionError: the gateway only reads.
        """
        if self._options is None:
            msg = f"table {self._name!r} can't be written: this gateway was started read-only"
            raise PreconditionError(msg)
        known = self._newest.known
        with self._lock:
            if self._writer is not None and self._place != known.place:
                if self._writer.is_there():  # Readers know a table by less than writers do.
                    self._place = known.place
                else:
                    # Of a table that was dropped: to flush its rows would write them into the new one.
                    replaced, self._writer = self._writer, None
                    replaced.abandon()
            if self._writer is None:
                self._place = known.place
                self._writer = TableWriter(
                    self._name, self._storage, self._options, known.session, self.wrote
                )
            return self._writer

    def tails(self, region_ids: Iterable[str]) -> Mapping[str, OwnTail]:
        """Return what the writer holds of regions in memory, by region id; make no writer for it.

        Waits for rows that were acknowledged before they are durable.
        """
        writer = self._writer
        if writer is None or self._place != self._newest.known.place:
            return {}
        return writer.tails(region_ids)

    def wrote(self) -> None:
        """Take note that rows may have been written: no older snapshot is taken again."""
        self.written_at = time.monotonic()

    def close(self, timeout_seconds: float | None = None) -> Sequence[str]:
        """Flush what was written.

        Args:
            timeout_seconds: None as the options of writing say.

        Returns:
            Ids of regions that were not flushed; what was acknowledged is durable in their logs.
        """
        with self._lock:
            writer, self._writer = self._writer, None
        return () if writer is None else writer.close(timeout_seconds)

    def abandon(self) -> None:
        """Forget what was written and is not in storage: the table is dropped."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()
