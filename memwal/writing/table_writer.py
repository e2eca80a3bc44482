"""All regions of one table, as one process writes them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import lance
import pyarrow as pa

from memwal.errors import PreconditionError
from memwal.index_details import read_index_details
from memwal.storage import Storage
from memwal.writing.changes import Changes, WriteReceipt
from memwal.writing.options import WriteOptions
from memwal.writing.region_writer import OwnTail
from memwal.writing.regions import Regions


class ExclusiveRegions:
    """Regions that nobody else writes to while they are held."""

    def __init__(self, writer: TableWriter) -> None:
        self._writer = writer

    def write(self, changes: Changes, *, durable: bool = True) -> WriteReceipt:
        """Write what was computed from rows that were read since the regions are held.

        Raises:
            FencedError: a region was claimed since: begin anew, from reading.
            LanceGatewayError: as `TableWriter.write`.
        """
        return self._writer._write(changes, durable=durable)  # noqa: SLF001 - two faces of one thing


class TableWriter:
    """Safe to share between threads.

    Args:
        name: of the table, for messages.
        storage: directory of the table.
        options: of the process.
        session: a `lance.Session` to share.
    """

    def __init__(self, name: str, storage: Storage, options: WriteOptions, session: Any = None) -> None:  # noqa: ANN401
        self.name = name
        self._storage = storage
        self._options = options
        self._session = session
        self._lock = threading.RLock()
        self._writers: dict[str, Any] = {}
        self._regions: Regions | None = None
        self._dataset: Any = None

    def write(self, changes: Changes, *, durable: bool = True) -> WriteReceipt:
        """Write rows to their regions; returns when they are acknowledged.

        Args:
            changes: of any number of regions; all or nothing in each.
            durable: wait until they survive the end of this process.

        Raises:
            PreconditionError: the table takes no writes.
            FencedError: nothing was written, since another writer claimed a region.
            NotOwnerError: nothing was written, since another process owns a region.
            OutcomeUnknownError: whether the rows arrived is not known.
            PartlyWrittenError: some regions have their rows, and others have not.
        """
        return self._write(changes, durable=durable)

    @contextmanager
    def exclusive(self, regions: Collection[str] | None = None) -> Iterator[ExclusiveRegions]:
        """Claim regions and keep other writers of this process out of them while this block runs.

        What the block reads with consistency "strong" is what its own `write` finds: whoever else writes in
        between is fenced, or fences this process, and `write` fails.

        Args:
            regions: that may be written; None for all that exist, and those that come.
        """
        del regions
        with self._lock:
            yield ExclusiveRegions(self)

    def tail(self, region_id: str) -> OwnTail | None:
        """What this process holds in memory of a region; None where it does not own it."""
        del region_id
        return None

    def flush(self) -> None:
        """Flush the MemTables of all regions and let them go; the next write claims them again.

        Needed before the table's schema or indexes change, and before it is dropped.
        """
        with self._lock:
            writers, self._writers = self._writers, {}
            self._dataset = None
            for writer in writers.values():
                writer.close()

    def close(self) -> None:
        """Flush, and take no more rows."""
        self.flush()

    def _write(self, changes: Changes, *, durable: bool) -> WriteReceipt:
        written: dict[str, int] = {}
        with self._lock:
            self._open()
            for part, is_delete in ((changes.upserts, False), (changes.deletes, True)):
                if part is None or not part.num_rows:
                    continue
                for region_id, at in self._routed(part):
                    rows = part if at is None else part.take(at)
                    writer = self._writer(region_id)
                    (writer.delete if is_delete else writer.put)(rows)
                    written[region_id] = written.get(region_id, 0) + rows.num_rows
        return WriteReceipt(written, durable)

    def _routed(self, rows: pa.Table) -> Iterator[tuple[str, pa.Array | None]]:
        ids = {field.name(): field.id() for field in self._dataset.lance_schema.fields()}
        columns = {
            ids[name]: column.combine_chunks()
            for name, column in zip(rows.column_names, rows.columns, strict=True)
        }
        assert self._regions is not None
        return self._regions.route(columns)

    def _writer(self, region_id: str) -> Any:  # noqa: ANN401
        if region_id not in self._writers:
            self._writers[region_id] = self._dataset.mem_wal_writer(
                region_id, durable_write=True, max_wal_buffer_size=1
            )
        return self._writers[region_id]

    def _open(self) -> None:
        if self._dataset is not None:
            return
        dataset = lance.dataset(
            self._storage.uri, session=self._session, storage_options=dict(self._storage.options) or None
        )
        details = read_index_details(self._storage, dataset.version)
        if details is None:
            msg = f"table {self.name!r} has no MemWAL, so it takes no streaming writes"
            raise PreconditionError(msg)
        specs = details.region_specs
        self._regions = Regions(self._storage, specs[-1] if specs else None)
        self._dataset = dataset
