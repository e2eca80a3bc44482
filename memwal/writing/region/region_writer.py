"""The writer of one region: claim, group commit, fencing, and unflushed rows."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import asdict

from lance_gateway.memwal.base.table_place import keep_in_place
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, NotFoundError, UnavailableError
from lance_gateway.memwal.regions.wal import has_abandoned_rows, has_unflushed_rows, wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.writing.changes import FencedError, NotOwnerError, OutcomeUnknownError
from lance_gateway.memwal.writing.observing import Counters, RegionStats
from lance_gateway.memwal.writing.options import OwnershipPolicy, WriteOptions
from lance_gateway.memwal.writing.region.claim import Claim, OwnTail
from lance_gateway.memwal.writing.region.discarded_writers import DiscardedWriters
from lance_gateway.memwal.writing.region.doubts import (
    CLAIM_SECONDS,
    FENCE_SECONDS,
    FIRST_PAUSE,
    InDoubtError,
    has_arrived,
)
from lance_gateway.memwal.writing.region.lance_writers import ContestedError, append_atomically
from lance_gateway.memwal.writing.region.ownership import (
    RECORD_SECONDS,
    RegionOwnership,
)
from lance_gateway.memwal.writing.region.requests import GROUP_BYTES, Request, RequestQueue
from lance_gateway.memwal.writing.table.open_table import OpenTable
from lance_gateway.memwal.writing.table.splitting import check_new_rules

_log = logging.getLogger(__name__)
_SHARED_SECONDS = 300.0
"""A region that another writer was turned away from is let go after each write for this long."""
_LOOK_SECONDS = 0.05
"""Between looks whether that writer has claimed it."""


class RegionWriter:
    """Writes the rows of one region; safe to share between threads. The queue's leader owns the claim.

    Attributes:
        table_name: in the catalog.
        region_id: UUID in its usual text form.
        losses: how often the claim was lost, for whatever reason.
        last_epoch: of the newest claim, which may have been let go since; 0 before the first.
        counters: of what was done.
        owner_url: of the process that was seen to own the region last.
        ownership: finds out whose the region is.
        discarded: Lance writers that this process gave up.
        queue: requests that wait.

    Args:
        table_name: in the catalog.
        region_id: UUID in its usual text form.
        storage: directory of the table.
        table: the table as it is newest.
        options: of the process.
        writer_id: names this writer among all.
        pool: for work that nobody waits for.
        stopped: whoever waits for a region is to give up.
    """

    def __init__(
        self,
        table_name: str,
        region_id: str,
        storage: Storage,
        table: Callable[[], OpenTable],
        options: WriteOptions,
        writer_id: str,
        pool: Executor,
        stopped: threading.Event,
    ) -> None:
        self.table_name = table_name
        self.region_id = region_id
        self.losses = 0
        self._storage = storage
        self._table = table
        self._options = options
        self._stopped = stopped
        self._claim: Claim | None = None
        self._lost: Claim | None = None
        self._lost_at: tuple[int, float] | None = None
        """Newest entry of the claim that was lost, and the monotonic time when that was noticed."""
        self._was_looked_at = False
        self._shared_until = -math.inf
        self._gives_turn = False
        self._turn_until = -math.inf
        self.last_epoch = 0
        self._in_flight: Request | None = None
        self._failure: LanceGatewayError | None = None
        self.owner_url = ""
        self.counters = Counters()
        self.discarded = DiscardedWriters(pool)
        self.ownership = RegionOwnership(region_id, table, options, writer_id, stopped, self.discarded)
        name = f"table {table_name!r}, region {region_id}"
        self.queue = RequestQueue(
            name,
            self._write,
            pool,
            max_queued_bytes=options.max_queued_bytes,
            max_group_rows=options.max_memtable_rows,
            max_group_bytes=min(GROUP_BYTES, options.max_memtable_bytes),
        )

    @property
    def is_owned(self) -> bool:
        """Whether this process owns the region, as far as it knows."""
        claim = self._claim
        return claim is not None and not claim.is_lost

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last append; 0 if the region is not claimed."""
        claim = self._claim
        return 0.0 if claim is None else time.monotonic() - claim.used_at

    def ensure_claim(self, deadline: float) -> bool:
        """Claim the region unless it is claimed; return whether it has never had rows.

        Only for who holds the queue.

        Raises:
            LanceGatewayError: as `RegionOwnership.claim`.
        """
        claim = self._claim
        if claim is not None and not claim.is_lost:
            newest = self.ownership.read_newest_manifest(claim.table)
            if newest.writer_epoch != claim.epoch:
                self._drop_claim(by_peer=True, epoch=claim.epoch)
        claim = self._get_claim(deadline, None)
        return claim.epoch == 1 and claim.position == 0

    def get_tail(self) -> OwnTail | None:
        """Return the unflushed rows in memory; None if the region is not owned.

        Waits for what was acknowledged before it was durable.

        Raises:
            UnavailableError: some of that was lost, or is not written in time.
        """
        self.settle()
        # The request before the log, the log before the tail: this order must not change (ADR 18).
        request, claim = self._in_flight, self._claim
        if claim is None or claim.is_lost:
            return None
        claim.settle_position()
        if request is not None:
            # What others can read already must not be missing here.
            storage = claim.table.storage
            if storage.exists(wal_entry_path(self.region_id, claim.position + 1))[0]:
                self.queue.wait_for(request, time.monotonic() + FENCE_SECONDS)
                claim.settle_position()
        if self._claim is not claim or claim.is_lost:
            return None
        return claim.tail.held

    def settle(self) -> None:
        """Wait until rows that were acknowledged early are durable.

        Raises:
            UnavailableError: some of them were lost, which is told once, or are not written in time.
        """
        if self.queue.unawaited:
            self.drain(time.monotonic() + self._options.claim_timeout_ms / 1000)
        self.raise_failure()

    def drain(self, deadline: float) -> None:
        """Wait until rows that were acknowledged early are durable.

        Raises:
            UnavailableError: it was not written in time.
        """
        last = self.queue.find_last_unawaited()
        if last is not None and not self.queue.wait_for(last, deadline):
            msg = f"{self.queue.name}: rows that were acknowledged as not durable are not written yet; retry"
            raise UnavailableError(msg)

    def raise_failure(self) -> None:
        """Raise an error, once, if rows were lost that had been acknowledged as not durable.

        Raises:
            UnavailableError: they were.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            msg = f"{self.queue.name}: rows that were acknowledged as not durable were lost: {failure}"
            raise UnavailableError(msg) from failure

    def flush(self, deadline: float) -> None:
        """Write the queued requests, flush, and release the region.

        Raises:
            UnavailableError: not in time, or storage failed; what was acknowledged is durable in the log.
        """
        if not self.queue.run_alone(self._close_claim, deadline):
            msg = f"{self.queue.name} is written to for too long to be flushed"
            raise UnavailableError(msg)
        self.raise_failure()

    def flush_log(self, deadline: float) -> int:
        """Flush what is in the log, whoever wrote it, and release the region; return how many rows that were.

        A region without rows in its log is not claimed.

        Raises:
            LanceGatewayError: it was not flushed; what was acknowledged is durable in the log.
        """
        flushed = 0

        def flush() -> None:
            nonlocal flushed
            table = self._table()
            before = self.ownership.read_newest_manifest(table)
            if not has_unflushed_rows(table.storage, before):
                return
            self.ensure_claim(deadline)
            while not self._close_claim():  # Another writer came in between.
                self.ensure_claim(deadline)
            after = self.ownership.read_newest_manifest(table)
            made = [one for one in after.flushed_generations if one.generation >= before.current_generation]
            flushed = sum(one.physical_rows or 0 for one in made)

        if not self.queue.run_alone(flush, deadline):
            msg = f"{self.queue.name} is written to for too long to be flushed"
            raise UnavailableError(msg)
        self.raise_failure()
        return flushed

    @property
    def has_unflushed_loss(self) -> bool:
        """Whether the region was lost before a flush, and its rows may have to be flushed now.

        That is found out once whoever claimed it has had the time to open it, and again when it is idle.
        """
        seconds = self._seconds_lost
        if self._lost is None or seconds < RECORD_SECONDS:
            return False
        return not self._was_looked_at or seconds >= self._idle_seconds

    @property
    def _idle_seconds(self) -> float:
        return self._options.idle_close_seconds or math.inf

    @property
    def _seconds_lost(self) -> float:
        """Seconds since it was noticed that the region was lost."""
        return math.inf if self._lost_at is None else time.monotonic() - self._lost_at[1]

    def notice_loss(self, deadline: float) -> None:
        """Find out whether another writer has claimed the region, which otherwise the next write does.

        Raises:
            LanceGatewayError: the region can't be read.
        """

        def look() -> None:
            claim = self._claim
            if claim is None or claim.is_lost:
                return
            if self.ownership.read_newest_manifest(claim.table).writer_epoch != claim.epoch:
                self._drop_claim(by_peer=True, epoch=claim.epoch)
                self._lost, self._was_looked_at = claim, False

        self.queue.run_alone(look, deadline)

    def flush_after_loss(self, deadline: float) -> None:
        """Flush the last rows of this process if another writer took the region and wrote nothing.

        Lance before 14 takes a region over and gives up: the schema of an entry of Lance 14 has the number of
        a generation in its metadata, and Lance before 14 replays entries of exactly its own schema.

        Raises:
            LanceGatewayError: it was not flushed; what was acknowledged is durable in the log.
        """
        self.queue.run_alone(self._flush_after_loss, deadline)

    def give_back(self) -> None:
        """Release the region without a flush, so that others need not wait for it."""
        claim = self._claim
        if claim is not None and not claim.is_lost:
            self.ownership.release(claim)
        self.abandon()

    def abandon(self, *, fences: bool = False) -> None:
        """Drop the claim without a flush: the table was replaced, or with `fences` is about to be deleted."""
        self.losses += 1
        claim, self._claim = self._claim, None
        self.last_epoch = 0
        self.ownership.manifest = None
        if claim is None:
            return
        if fences:
            with suppress(LanceGatewayError):
                claim.fence_off()
        else:
            claim.abandon()

    def stats(self) -> RegionStats:
        """Return counters and gauges, without any I/O."""
        claim, queue = self._claim, self.queue
        if claim is not None and claim.is_lost:
            claim = None
        return RegionStats(
            **asdict(self.counters),
            region_id=self.region_id,
            epoch=0 if claim is None else claim.epoch,
            since=None if claim is None else claim.since,
            is_open=claim is not None,
            queued_bytes=queue.queued_bytes,
            queued_requests=queue.queued_requests,
            unflushed_rows=0 if claim is None else claim.tail.rows,
            unflushed_bytes=0 if claim is None else claim.tail.bytes,
            wal_position=0 if claim is None else claim.position,
            owner_url=self.owner_url if claim is None else self._options.url,
        )

    def _write(self, group: Sequence[Request]) -> None:
        try:
            self._write_group(group)
        except InvalidInputError as error:
            if len(group) > 1:
                for request in group:
                    self._write([request])  # One of them is wrong: the others must not suffer.
                return
            group[0].error = error
        except (FencedError, NotOwnerError) as error:
            own = [request for request in group if not request.is_forwarded]
            for request in group:
                if request.is_forwarded or len(own) == len(group):
                    request.error = error
            if 0 < len(own) < len(group):
                self._write(own)  # Nothing was written; what the others must not do, these may.
                return
        except LanceGatewayError as error:
            for request in group:
                request.error = error
        for request in group:
            if request.error is not None and not request.is_awaited:
                self.counters.failed_later += request.num_rows
                self._failure = request.error
                _log.error("rows that were acknowledged as not durable were lost: %s", request.error)

    def _write_group(self, group: Sequence[Request]) -> None:
        deadline = max(request.deadline for request in group)
        started = time.monotonic()
        while True:
            try:
                self._in_flight = group[-1]
                with keep_in_place(group[0].table.storage):
                    self._append(group, deadline)
            except InDoubtError as doubt:
                if self._has_arrived(group, doubt, deadline):
                    break
            except ContestedError:
                # Several claimed it at once, and nothing was written.
                if group[0].holder is not None or time.monotonic() > deadline:
                    raise
                self._stopped.wait(FIRST_PAUSE)
            else:
                break
            finally:
                self._in_flight = None
        self._check_place(group)
        rows, nbytes = (
            sum([request.num_rows for request in group]),
            sum([request.nbytes for request in group]),
        )
        counted = self.counters
        counted.groups += 1
        counted.group_requests += len(group)
        counted.rows += rows
        counted.bytes += nbytes
        self._options.observer.on_group(
            self.table_name, self.region_id, len(group), rows, nbytes, time.monotonic() - started
        )
        if self._is_shared:
            self._let_go()

    def _append(self, group: Sequence[Request], deadline: float) -> None:
        first = group[0]
        if not first.table.watch.is_same():
            msg = f"{self.queue.name}: the table was overwritten or recreated; nothing was written, retry"
            raise UnavailableError(msg)
        deleted = first.upserts is None
        parts = [
            part for request in group if (part := request.deletes if deleted else request.upserts) is not None
        ]
        options = self._options
        is_oversized = len(group) == 1 and (
            parts[0].num_rows > options.max_memtable_rows or parts[0].nbytes > options.max_memtable_bytes
        )
        has_both = first.upserts is not None and first.deletes is not None
        if has_both or is_oversized:
            self._append_atomically(first, deadline)
            return
        claim = self._get_claim(deadline, first.holder, group)
        if claim.table is not first.table:
            if claim.table.is_older(first.table):
                self._close_claim()
                claim = self._get_claim(deadline, first.holder)
            if claim.table is not first.table:
                table = claim.table
                parts = [
                    table.conform_deletes(part) if deleted else table.conform_upserts(part, fill=True)
                    for part in parts
                ]
        if not deleted and claim.newest is not None:
            for part in parts:
                check_new_rules(first.table, claim.newest, part)
        claim.append(parts, deleted=deleted)

    def _append_atomically(self, request: Request, deadline: float) -> None:
        claim = self._get_claim(deadline, request.holder, [request])
        while not self._close_claim():
            claim = self._get_claim(deadline, request.holder, [request])
        table, upserts, deletes = claim.table, request.upserts, request.deletes
        if table is not request.table:
            upserts = None if upserts is None else table.conform_upserts(upserts, fill=True)
            deletes = None if deletes is None else table.conform_deletes(deletes)
        after = None if request.holder is None else self.last_epoch

        def check() -> None:
            if upserts is not None:
                check_new_rules(request.table, self._table(), upserts)

        self.last_epoch = append_atomically(
            table, self.region_id, (upserts, deletes), self.discarded, after, self.ownership.manifest, check
        )
        self.counters.claims += 1
        self.counters.flushes += 1

    def _get_claim(self, deadline: float, holder: object | None, group: Sequence[Request] = ()) -> Claim:
        """Return the claim; claim the region if necessary."""
        claim = self._claim
        if claim is not None:
            claim.settle_position()
        if any(request.is_forwarded for request in group) and (claim is None or claim.is_lost):
            raise NotOwnerError(f"{self.queue.name}: this process does not own it any more")
        if claim is not None and not claim.is_lost:
            if (group and claim.table is group[0].table) or claim.table.watch.is_same():
                return claim
            self.abandon()  # What is claimed next is of the table that is there now.
        self._claim = None
        started = time.monotonic()
        self._leave_turn(deadline)
        after = self.last_epoch if holder is not None else None
        # Who reads before it writes has to have the region; other rows can go to its owner.
        spares_owner = bool(group) and holder is None and self._options.ownership is OwnershipPolicy.FORWARD
        while True:
            with keep_in_place(self._storage):
                claim = self.ownership.claim(deadline, after, spares_owner=spares_owner)
            try:
                # After the claim: who adds a rule commits it before they claim all regions (ADR 43).
                claim.newest = self._table()
            except BaseException:
                claim.abandon()
                raise
            if claim.newest.initial_values.keys() <= claim.table.initial_values.keys():
                break
            # Rows that lack a column are flushed before the log gets rows that have it (ADR 68).
            self._flush_claim(claim)
        lost_at, self._lost_at = self._lost_at, None
        if claim.epoch != self.last_epoch + 1 and (
            self._is_shared or (lost_at is not None and self._was_turned_away(claim, *lost_at))
        ):
            self._shared_until = time.monotonic() + _SHARED_SECONDS
            self._gives_turn = True
        self._claim, self.last_epoch = claim, claim.epoch
        self.ownership.announce(claim)  # Not earlier: who hears of it may send rows at once.
        self.counters.claims += 1
        self._options.observer.on_claim(
            self.table_name, self.region_id, claim.epoch, time.monotonic() - started
        )
        return claim

    @property
    def _is_shared(self) -> bool:
        """Whether the region is let go after each write, so that a writer of Lance before 14 can claim it."""
        return time.monotonic() < self._shared_until

    def _let_go(self) -> None:
        """Flush and release the region: Lance before 14 can claim regions without unflushed rows."""
        try:
            self._close_claim()
        except LanceGatewayError as error:
            _log.warning("a region that another writer waits for was not flushed: %s", error)
        if self._gives_turn:
            self._turn_until = time.monotonic() + self._options.hold_ms / 1000
            self._gives_turn = False

    def _leave_turn(self, deadline: float) -> None:
        """Leave a region that was let go to the writer that has claimed it before, for as long as a hold.

        That writer tries again and again; one that writes all the time would have the region each time.
        """
        until = min(self._turn_until, deadline)
        while time.monotonic() < until and not self._stopped.wait(_LOOK_SECONDS):
            if self.ownership.read_newest_manifest(self._table()).writer_epoch != self.last_epoch:
                break
        self._turn_until = -math.inf

    def _was_turned_away(self, claim: Claim, position: int, noticed_at: float) -> bool:
        """Return whether who claimed the region before this claim gave up, since it can't read the log.

        Args:
            claim: of this process.
            position: of the newest entry of the claim that was lost.
            noticed_at: monotonic time when that was noticed; who opens a region has done so since.
        """
        found = self.ownership.found
        if found is None or found.has_opened(position) or time.monotonic() - noticed_at < RECORD_SECONDS:
            return False
        try:
            return has_abandoned_rows(claim.table.storage, self.region_id, position)
        except LanceGatewayError:
            return False

    def _has_arrived(self, group: Sequence[Request], doubt: InDoubtError, deadline: float) -> bool:
        """Drop the claim, and return whether the append in doubt arrived."""
        self.counters.in_doubt += 1
        self._drop_claim(by_peer=doubt.by_peer, epoch=doubt.epoch)
        self._check_place(group)
        is_forwarding = self._options.ownership is OwnershipPolicy.FORWARD
        try:
            return has_arrived(
                self._storage,
                self.region_id,
                doubt,
                deadline,
                self._stopped,
                lambda: self._get_claim(deadline, None),
                is_once=group[0].holder is not None
                or any(request.is_forwarded for request in group)
                or (doubt.by_peer and is_forwarding),
            )
        except FencedError:
            self._check_place(group)  # It may be the log of another table that was looked at.
            self.discarded.close_before(doubt.epoch + 1)  # A later claim took its position.
            raise

    def _check_place(self, group: Sequence[Request]) -> None:
        """Check after an append that the table is still where it was written.

        It may have been renamed, replaced or dropped at that moment: then rows that were written before are
        where it is now, and those that were written later are in no table (ADR 51).

        Raises:
            OutcomeUnknownError: it is not.
        """
        if not group[0].table.watch.is_same():
            msg = (
                f"{self.queue.name}: the table was renamed, replaced or dropped while rows were written; "
                "whether it has them can't be told: look before you retry"
            )
            raise OutcomeUnknownError(msg)

    def _drop_claim(self, *, by_peer: bool, epoch: int) -> None:
        self.losses += 1
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.settle_position()
            claim.abandon()
            self._lost_at = claim.position, time.monotonic()
        if by_peer:
            self._count_loss(epoch)

    def _count_loss(self, epoch: int) -> None:
        self.losses += 1
        self.counters.fences += 1
        self.ownership.lost_epoch = epoch
        self._options.observer.on_fenced(self.table_name, self.region_id, epoch)

    def _flush_after_loss(self) -> None:
        lost, self._lost, self._was_looked_at = self._lost, None, True
        if lost is None or self._claim is not None or not lost.table.watch.is_same():
            return
        try:
            newest = self.ownership.read_newest_manifest(lost.table)
            if not has_abandoned_rows(lost.table.storage, self.region_id, lost.position):
                return
            if newest.has_opened(lost.position) and self._seconds_lost < self._idle_seconds:
                self._lost = lost  # Its new owner may be about to write.
                return
            self._get_claim(time.monotonic() + CLAIM_SECONDS, None)
            self._close_claim()
        except LanceGatewayError:
            self._lost = lost
            raise

    @staticmethod
    def _flush_claim(claim: Claim) -> bool:
        """Flush and release a claim; return False if another writer has it, or the table is gone."""
        try:
            with keep_in_place(claim.table.storage):
                return claim.close()
        except NotFoundError:
            claim.abandon()
            return False

    def _close_claim(self) -> bool:
        """Flush and release the region; return False if there was nothing to flush."""
        claim, self._claim = self._claim, None
        if claim is not None:
            claim.settle_position()
        if claim is None or claim.is_lost:
            return False
        if not self._flush_claim(claim):
            self._count_loss(claim.epoch)
            self._lost, self._lost_at = claim, (claim.position, time.monotonic())
            self._was_looked_at = False
            return False
        self.ownership.release(claim)
        self.counters.flushes += 1
        return True
