"""The writer of one table in one process."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.base.index_details import read_newest_version
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnavailableError
from lance_gateway.memwal.storage.files import Storage, base_manifest_paths
from lance_gateway.memwal.writing.changes import (
    Changes,
    NotOwnerError,
    RegionOutcome,
    SealedError,
    WriteReceipt,
    build_receipt,
)
from lance_gateway.memwal.writing.exclusive import LATE_SECONDS, ExclusiveRegions
from lance_gateway.memwal.writing.forwarding import flush_region, forward_changes
from lance_gateway.memwal.writing.observing import RegionStats
from lance_gateway.memwal.writing.options import OwnershipPolicy, WriteOptions
from lance_gateway.memwal.writing.region.claim import OwnTail
from lance_gateway.memwal.writing.region.region_writer import RegionWriter
from lance_gateway.memwal.writing.region.requests import Request, run_requests
from lance_gateway.memwal.writing.table.open_table import OpenTable
from lance_gateway.memwal.writing.table.splitting import Part, split_changes
from lance_gateway.memwal.writing.tidying import Tidier

_log = logging.getLogger(__name__)
_THREADS = 16


class TableWriter:
    """Writes rows to all regions of one table; safe to share between threads.

    Args:
        name: of the table, for messages.
        storage: directory of the table.
        options: of the process.
        session: a `lance.Session` to share.
        on_written: called before each acknowledgement, and when it is unknown whether rows were written.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        options: WriteOptions,
        session: Any = None,  # noqa: ANN401 - lance types
        on_written: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._storage = storage
        self._options = options
        self._session = session
        self._on_written = on_written or (lambda: None)
        self._writer_id = str(uuid.uuid4())
        self._lock = threading.Lock()
        self._opened: OpenTable | None = None
        self._regions: dict[str, RegionWriter] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"write-{name}")
        self._stopped = threading.Event()
        self._is_closing = False
        self._tidier: Tidier | None = None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the open table; a newer schema is noticed when rows have its columns.

        Raises:
            LanceGatewayError: the table can't be written.
        """
        return self._open_table().schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Key columns in key order.

        Raises:
            LanceGatewayError: the table can't be written.
        """
        return self._open_table().key

    def is_there(self) -> bool:
        """Return whether the table that was opened last still exists; True if none is open.

        Raises:
            UnavailableError: storage failed to answer.
        """
        opened = self._opened
        return opened is None or opened.watch.is_same()

    def write(
        self, changes: Changes, *, durable: bool = True, timeout_seconds: float | None = None
    ) -> WriteReceipt:
        """Write rows to their regions; return when they are acknowledged.

        Args:
            changes: of any number of regions; all or nothing in each.
            durable: wait until they survive the end of this process.
            timeout_seconds: how long regions and their queues are waited for; None as the options say.

        Raises:
            PreconditionError: the table takes no writes.
            InvalidInputError: rows don't fit the table's columns.
            FencedError: nothing was written, since another writer claimed a region.
            NotOwnerError: nothing was written, since another process owns a region.
            OutcomeUnknownError: whether the rows arrived is not known.
            PartlyWrittenError: some regions have their rows, and others have not.
            UnavailableError: nothing was written: storage failed, or it took too long.
        """
        return self._write(changes, durable=durable, deadline=self._deadline(timeout_seconds))

    def write_forwarded(self, region_id: str, changes: Changes) -> WriteReceipt:
        """Write changes that another process forwarded, durably, as the owner of their region.

        Raises:
            NotOwnerError: this process does not own the region; nothing was written.
            InvalidInputError: the rows belong to another region.
            LanceGatewayError: as `write`.
        """
        self._check_open()
        writer, deadline = self._get_owned(region_id), self._deadline(None)
        table, parts = self._split_changes(changes)
        if set(parts) - {region_id}:
            msg = f"table {self.name!r}: rows for region {', '.join(parts)} were sent as those of {region_id}"
            raise InvalidInputError(msg)
        requests = {
            part_id: (writer.queue, Request(table, *part, deadline, is_forwarded=True))
            for part_id, part in parts.items()
        }
        return self._acknowledge(run_requests(requests), durable=True)

    @contextmanager
    def exclusive(
        self, regions: Collection[str] | None = None, *, timeout_seconds: float | None = None
    ) -> Iterator[ExclusiveRegions]:
        """Claim regions and block other writers of this process while the block runs.

        What the block reads with consistency "strong" is what its own `write` finds: whoever else writes in
        between is fenced, or fences this process, and `write` fails.

        Args:
            regions: that may be written; None for all that exist. Those that come into being are taken when
                they are written, and those that are sealed can't be.
            timeout_seconds: how long regions are waited for; None as the options say.

        Raises:
            LanceGatewayError: a region can't be had.
        """
        deadline = self._deadline(timeout_seconds)
        held = ExclusiveRegions(self._get_region, self._write, deadline)
        try:
            if regions is None:
                regions = self._open_table().regions.list_existing()
            for region_id in sorted(set(regions)):
                with suppress(SealedError):  # Nobody writes to it, so it need not be held.
                    held.claim(region_id)
            yield held
        finally:
            held.release()

    def find_regions(self, rows: pa.Table) -> tuple[str, ...]:
        """Return the ids of the regions of rows or keys, ascending; create missing regions.

        Raises:
            LanceGatewayError: they can't be told.
        """
        if not rows.num_rows:
            return ()
        return tuple(sorted(set(self._open_table().route(rows).region_ids)))

    def split(self, changes: Changes) -> Mapping[str, Part]:
        """Return the rows and keys of each region, checked as for a write; create missing regions.

        Raises:
            LanceGatewayError: they can't be written.
        """
        self._check_open()
        return self._split_changes(changes)[1]

    def get_tails(self, region_ids: Iterable[str]) -> Mapping[str, OwnTail]:
        """Return the unflushed rows in memory by region id; regions of other owners are left out.

        Waits for rows that were acknowledged before they are durable.

        Raises:
            UnavailableError: such rows were lost, which is told once, or are not written in time.
        """
        writers = ((region_id, self._regions.get(region_id)) for region_id in region_ids)
        tails = ((region_id, writer.get_tail()) for region_id, writer in writers if writer is not None)
        return {region_id: tail for region_id, tail in tails if tail is not None}

    def settle(self) -> None:
        """Wait until rows that were acknowledged before they were durable are.

        Raises:
            UnavailableError: such rows were lost, which is told once, or are not written in time.
        """
        for writer in self._list_regions():
            writer.settle()

    def stats(self) -> Sequence[RegionStats]:
        """Return the statistics of each region that this process wrote to, without any I/O."""
        return tuple(writer.stats() for writer in self._list_regions())

    def flush(self, timeout_seconds: float | None = None) -> None:
        """Flush the MemTables of all regions and release these; the next write claims them again.

        Needed before the table's schema or indexes change, and before it is dropped.

        Raises:
            UnavailableError: a region was not flushed; what was acknowledged is durable in its log.
        """
        failed = self._flush_regions(self._deadline(timeout_seconds))
        with self._lock:
            self._opened = None
        if failed:
            raise next(iter(failed.values()))

    def flush_logs(self, timeout_seconds: float | None = None) -> Mapping[str, int]:
        """Flush the logs of all regions, whoever wrote them, and release those that this process claims.

        Another process that owns a region and can be reached flushes it itself.

        Args:
            timeout_seconds: how long a region is waited for; None as the options say.

        Returns:
            Rows that were flushed, by the ids of regions that had any in their logs.

        Raises:
            NotOwnerError: another process owns a region, and the options say to leave it so.
            LanceGatewayError: a region was not flushed; what was acknowledged is durable in its log.
        """
        self._check_open()
        table, deadline = self._open_newest_table(), self._deadline(timeout_seconds)

        def flush(region_id: str) -> int:
            with suppress(SealedError):  # Its rows are flushed.
                return flush_region(self._options, self._get_region(region_id), table, deadline)
            return 0

        ids = sorted(table.regions.list_existing())
        flushed = dict(zip(ids, self._pool.map(flush, ids), strict=True))
        self._on_written()
        return {region_id: rows for region_id, rows in flushed.items() if rows}

    def flush_forwarded(self, region_id: str) -> int:
        """Flush a region for another process, as its owner; return how many rows were flushed.

        Raises:
            NotOwnerError: this process does not own the region.
            LanceGatewayError: as `flush_logs`.
        """
        self._check_open()
        return self._get_owned(region_id).flush_log(self._deadline(None))

    def _get_owned(self, region_id: str) -> RegionWriter:
        writer = self._regions.get(region_id)
        # Where a claim is under way, this process may own the region in a moment.
        if writer is None or not (writer.is_owned or writer.queue.is_busy):
            msg = f"table {self.name!r}: this process does not own region {region_id}; nothing was written"
            raise NotOwnerError(msg)
        return writer

    @contextmanager
    def apart_from_new_columns(self) -> Iterator[None]:
        """Flush the rows of all regions under the columns that there are, before and after the block.

        The block adds columns. Whoever opens a region later reads what its log has with the new columns, and
        Lance then has NULL in them, whatever initial value they have; flushed rows lack the columns.
        Writers of other processes lose their regions, and notice the columns when they claim them again.

        Raises:
            LanceGatewayError: a region can't be had, or was not flushed.
        """
        table = self._open_newest_table()
        self._flush_logs(table)
        yield
        self._flush_logs(table)

    def _flush_logs(self, table: OpenTable) -> None:
        deadline = self._deadline(None)

        def flush(region_id: str) -> None:
            writer = self._create_region_writer(region_id, lambda: table)
            with suppress(SealedError):  # Its rows are flushed.
                writer.queue.run_alone(lambda: writer.ensure_claim(deadline), deadline)
                writer.flush(deadline)

        for _ in self._pool.map(flush, sorted(table.regions.list_existing())):
            pass

    def release_regions(self) -> None:
        """Release all regions without a flush: their rows are in their logs; the next write claims again."""
        for writer in self._list_regions():
            writer.queue.run_alone(writer.give_back, time.monotonic() + LATE_SECONDS)

    def close(self, timeout_seconds: float | None = None) -> Sequence[str]:
        """Refuse further rows, write the queued ones, and flush; may be called again.

        Args:
            timeout_seconds: for flushing, no region of which is begun later; None as the options say.

        Returns:
            Ids of regions that were not flushed; what was acknowledged is durable in their logs.
        """
        self._is_closing = True
        self._drain(self._deadline(None))
        failed = self._flush_regions(self._deadline(timeout_seconds))
        for region_id, error in failed.items():
            _log.warning("region %s was not flushed: %s", region_id, error)
        self._stopped.set()
        self._pool.shutdown(wait=False)
        if not failed and self._tidier is not None:
            self._tidier.remove_heartbeat()
        return tuple(failed)

    def abandon(self, *, drops: bool = False) -> None:
        """Release all regions without a flush and refuse further rows: the table was dropped or replaced.

        Args:
            drops: whether the table is about to be deleted: what Lance's writers hold is freed then.
        """
        self._is_closing = True
        self._stopped.set()
        for writer in self._list_regions():
            writer.queue.run_alone(partial(writer.abandon, fences=drops), time.monotonic() + LATE_SECONDS)
        self._pool.shutdown(wait=drops)  # What it still closes must not come upon deleted files.

    def _write(
        self, changes: Changes, *, durable: bool, deadline: float, holder: ExclusiveRegions | None = None
    ) -> WriteReceipt:
        self._check_open()
        table, parts = self._split_changes(changes)
        if holder is not None:
            for region_id in parts:
                holder.check(region_id)
            if len(parts) > 1:
                holder.check_epochs(self._storage, parts)
        elif self._options.ownership is OwnershipPolicy.FORWARD:
            if not parts:
                return WriteReceipt()

            def write(writer: RegionWriter, part: Part) -> RegionOutcome:
                return run_requests({writer.region_id: (writer.queue, Request(table, *part, deadline))})[0]

            outcomes = forward_changes(
                self._options, table, parts, deadline, self._pool, self._get_region, write
            )
            return self._acknowledge(outcomes, durable=True)
        is_awaited = durable or holder is not None
        requests = {
            region_id: (
                self._get_region(region_id).queue,
                Request(table, *part, deadline, holder=holder, is_awaited=is_awaited),
            )
            for region_id, part in parts.items()
        }
        return self._acknowledge(run_requests(requests), durable=is_awaited)

    def _acknowledge(self, outcomes: Sequence[RegionOutcome], *, durable: bool) -> WriteReceipt:
        if outcomes:
            self._on_written()
        return build_receipt(self.name, outcomes, is_durable=durable)

    def _split_changes(self, changes: Changes) -> tuple[OpenTable, Mapping[str, Part]]:
        table = self._open_table()
        try:
            return table, split_changes(table, changes)
        except InvalidInputError:
            newer = self._open_newest_table()
            if newer is table:
                raise
            return newer, split_changes(newer, changes)

    def _open_table(self) -> OpenTable:
        """Return the open table; open it again if the table was replaced."""
        opened = self._opened
        if opened is not None and opened.watch.is_same():
            return opened
        with self._lock:
            if self._opened is None or self._opened is opened:
                self._opened = OpenTable.open(self.name, self._storage, self._session)
            return self._opened

    def _open_newest_table(self) -> OpenTable:
        """Return the newest version of the table; the open one if nothing that writers need has changed."""
        opened = self._open_table()
        if read_newest_version(self.name, opened.dataset) == opened.dataset.version:
            return opened
        newer = OpenTable.open(self.name, self._storage, self._session)
        # Lance's writers read the manifest of their version again once it is in no cache.
        is_kept = any(self._storage.exists(*base_manifest_paths(opened.dataset.version)))
        with self._lock:
            if self._opened is None or not (is_kept and newer.is_equivalent(self._opened)):
                self._opened = newer
            return self._opened

    def _get_region(self, region_id: str) -> RegionWriter:
        writer = self._regions.get(region_id)
        if writer is not None:
            return writer
        with self._lock:
            if self._tidier is None:
                self._tidier = Tidier(
                    self.name,
                    self._storage,
                    self._writer_id,
                    self._options.idle_close_seconds,
                    self._list_regions,
                    self.is_there,
                    self._stopped,
                )
            return self._regions.setdefault(
                region_id, self._create_region_writer(region_id, self._open_newest_table)
            )

    def _create_region_writer(self, region_id: str, table: Callable[[], OpenTable]) -> RegionWriter:
        return RegionWriter(
            self.name,
            region_id,
            self._storage,
            table,
            self._options,
            self._writer_id,
            self._pool,
            self._stopped,
        )

    def _list_regions(self) -> list[RegionWriter]:
        return list(self._regions.values())

    def _flush_regions(self, deadline: float) -> dict[str, LanceGatewayError]:
        """Flush all regions, several at once; return the errors by region id."""

        def flush(writer: RegionWriter) -> LanceGatewayError | None:
            if time.monotonic() >= deadline:
                return UnavailableError(f"{writer.queue.name}: there was no time left")
            try:
                writer.flush(deadline)
            except LanceGatewayError as error:
                return error
            return None

        writers = [writer for writer in self._list_regions() if writer.is_owned or writer.queue.is_busy]
        if len(writers) < 2 or self._stopped.is_set():
            errors = [flush(writer) for writer in writers]
        else:
            errors = list(self._pool.map(flush, writers))
        pairs = zip(writers, errors, strict=True)
        return {writer.region_id: error for writer, error in pairs if error is not None}

    def _drain(self, deadline: float) -> None:
        """Wait until rows that were acknowledged early are durable."""
        for writer in self._list_regions():
            try:
                writer.drain(deadline)
            except LanceGatewayError as error:
                _log.error("rows that were acknowledged as not durable may be lost: %s", error)

    def _deadline(self, seconds: float | None) -> float:
        return time.monotonic() + (self._options.claim_timeout_ms / 1000 if seconds is None else seconds)

    def _check_open(self) -> None:
        if self._is_closing:
            msg = f"table {self.name!r} takes no more rows: the gateway is shutting down, or it was dropped"
            raise UnavailableError(msg)
