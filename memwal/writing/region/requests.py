"""Queued requests of one region's writer: group commit without threads of its own.

The first thread that finds no leader leads: it writes all queued requests, then hands over to the next
waiting thread. So a lone client never waits for another thread, and concurrent requests are written in
groups. Requests without a waiting thread are led by a thread of a pool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.writing.changes import OutcomeUnknownError, RegionOutcome
from lance_gateway.memwal.writing.table.open_table import OpenTable

_log = logging.getLogger(__name__)

GROUP_BYTES = 32 << 20
"""Requests are gathered into one append up to this size."""


@dataclass(eq=False, slots=True)
class Request:
    """Rows of one region that are written all or nothing.

    Attributes:
        table: whose columns they have.
        upserts: rows to write; None for none.
        deletes: keys to delete; None for none.
        deadline: monotonic time at which it is given up, if it is not being written by then.
        holder: who holds the region exclusively and sends this; None for everybody else.
        is_awaited: whether somebody waits for it to be durable.
        is_forwarded: whether it may be written only if the region is owned already.
        error: why it was not written; set before it is done.
    """

    table: OpenTable
    upserts: pa.Table | None
    deletes: pa.Table | None
    deadline: float
    holder: object | None = None
    is_awaited: bool = True
    is_forwarded: bool = False
    error: LanceGatewayError | None = None
    num_rows: int = 0
    nbytes: int = 0
    is_done: bool = False
    leads: bool = False
    _woken: Any = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        for part in (self.upserts, self.deletes):
            if part is not None:
                self.num_rows += part.num_rows
                self.nbytes += int(part.nbytes)
        self._woken.acquire()

    def wake(self) -> None:
        """Wake the waiting thread; called once for each `wait` that returns True."""
        if self._woken.locked():
            self._woken.release()

    def wait(self, seconds: float | None) -> bool:
        """Wait for `wake`; return False after this many seconds; None waits without limit."""
        timeout = -1 if seconds is None else min(max(seconds, 0.0), threading.TIMEOUT_MAX)
        return bool(self._woken.acquire(timeout=timeout))

    def can_join(self, other: Request) -> bool:
        """Return whether one WAL entry can hold both: rows with the same columns, or keys."""
        return (
            (self.upserts is None) == (other.upserts is None)
            and (self.deletes is None) == (other.deletes is None)
            and self.table is other.table
            and self.holder is other.holder
        )


class RequestQueue:
    """The queue of write requests of one region; safe to share between threads.

    Args:
        name: of what is written to, for messages.
        write: writes a group of requests that join each other and sets the `error` of those it could not.
        pool: leads where nobody waits.
        max_queued_bytes: of requests that wait; more of them wait outside.
        max_group_rows: of requests that are written together; one alone may have more.
        max_group_bytes: of these; likewise.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Sequence[Request]], None],
        pool: Executor,
        *,
        max_queued_bytes: int,
        max_group_rows: int,
        max_group_bytes: int,
    ) -> None:
        self.name = name
        self._write = write
        self._max_queued_bytes = max_queued_bytes
        self._max_group_rows = max_group_rows
        self._max_group_bytes = max_group_bytes
        self._pool = pool
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[Request] = deque()
        self._is_led = False
        self._holder: object | None = None
        self.current: Sequence[Request] = ()
        self.queued_bytes = 0
        self.unawaited = 0

    @property
    def queued_requests(self) -> int:
        """Number of requests in the queue."""
        return len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Whether requests are queued or being written, or the queue is held."""
        return bool(self._waiting) or self._is_led or self._holder is not None

    def put(self, request: Request) -> None:
        """Queue a request; block while the queue is full or held by another.

        Raises:
            UnavailableError: its deadline came first.
        """
        with self._changed:
            if self._is_blocked(request):
                seconds = request.deadline - time.monotonic()
                if not self._changed.wait_for(lambda: not self._is_blocked(request), seconds):
                    raise self._timeout_error(request)
            self._waiting.append(request)
            self.queued_bytes += request.nbytes
            self.unawaited += not request.is_awaited
            if not request.is_awaited and not self._is_led:
                self._is_led = True
                self._pool.submit(self._lead, None)

    def _is_blocked(self, request: Request) -> bool:
        if self._holder is not None and self._holder is not request.holder:
            return True
        return bool(self._waiting) and self.queued_bytes + request.nbytes > self._max_queued_bytes

    def start(self, request: Request) -> None:
        """Write a queued request on another thread if no thread leads the queue."""
        with self._changed:
            if self._is_led or request.is_done:
                return
            self._is_led = True
        self._pool.submit(self._lead, None)

    def finish(self, request: Request) -> None:
        """Wait until a queued request is done; lead the queue if no thread does. Errors are in `error`."""
        with self._changed:
            leads = not self._is_led and not request.is_done
            self._is_led = self._is_led or leads
        if leads:
            self._lead(request)
        seconds: float | None = request.deadline - time.monotonic()
        while not request.is_done:
            if request.wait(seconds):
                if request.leads and not request.is_done:
                    request.leads = False
                    self._lead(request)
            elif self._withdraw(request):
                request.error, request.is_done = self._timeout_error(request), True
            else:
                seconds = None  # It is being written: that ends when storage says so.

    def hold(self, holder: object, deadline: float) -> None:
        """Wait for the queued requests, then block those of all others.

        Raises:
            UnavailableError: the deadline came first.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._holder is None, deadline - time.monotonic()):
                msg = f"{self.name} is held by another statement for too long; nothing was written, retry"
                raise UnavailableError(msg)
            self._holder = holder
            if not self._changed.wait_for(self._is_idle, deadline - time.monotonic()):
                self._holder = None
                self._changed.notify_all()
                msg = f"{self.name} is written to for too long by others; nothing was written, retry"
                raise UnavailableError(msg)

    def release(self, holder: object) -> None:
        """Admit the requests of others again."""
        with self._changed:
            if self._holder is holder:
                self._holder = None
                self._changed.notify_all()

    def run_alone(self, action: Callable[[], object], deadline: float) -> bool:
        """Call a function while no request is written; return False if the deadline passes first."""
        holder = object()
        try:
            self.hold(holder, deadline)
        except UnavailableError:
            return False
        try:
            action()
        finally:
            self.release(holder)
        return True

    def find_last_unawaited(self) -> Request | None:
        """Return the newest request that is not done and has no waiter; None if there is none."""
        with self._changed:
            every = [*self.current, *self._waiting]
            return next((one for one in reversed(every) if not one.is_awaited), None)

    def wait_for(self, request: Request, deadline: float) -> bool:
        """Wait until another thread's request is done; return False if the deadline passes first."""
        with self._changed:
            return self._changed.wait_for(lambda: request.is_done, deadline - time.monotonic())

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_led

    def _withdraw(self, request: Request) -> bool:
        with self._changed:
            if request.leads or request not in self._waiting:
                return False
            self._waiting.remove(request)
            self.queued_bytes -= request.nbytes
            self._changed.notify_all()
            return True

    def _timeout_error(self, request: Request) -> UnavailableError:
        return UnavailableError(
            f"{self.name} did not take {request.num_rows} rows in time ({len(self._waiting)} requests of "
            f"{self.queued_bytes} bytes wait); none of them was written, retry"
        )

    def _lead(self, own: Request | None) -> None:
        while own is None or not own.is_done:
            with self._changed:
                group = self._take_group()
                self.current = group
            if not group:
                break
            try:
                self._write(group)
            except LanceGatewayError as error:
                for request in group:
                    request.error = request.error or error
            except BaseException as error:
                for request in group:
                    msg = (
                        f"{self.name}: {type(error).__name__} ({error}): whether rows were written is unknown"
                    )
                    request.error = request.error or OutcomeUnknownError(msg)
                if not isinstance(error, Exception):
                    self._settle(group, own)
                    self._hand_over()
                    raise
                _log.exception("writing to %s failed", self.name)
            self._settle(group, own)
        self._hand_over()

    def _settle(self, group: Sequence[Request], own: Request | None) -> None:
        with self._changed:
            self.current = ()
            for request in group:
                request.is_done = True
                self.unawaited -= not request.is_awaited
                if request is not own:
                    request.wake()
            self._changed.notify_all()

    def _take_group(self) -> list[Request]:
        if not self._waiting:
            return []
        first = self._waiting.popleft()
        group, rows, nbytes = [first], first.num_rows, first.nbytes
        is_alone = first.upserts is not None and first.deletes is not None
        while self._waiting and not is_alone:
            request = self._waiting[0]
            rows, nbytes = rows + request.num_rows, nbytes + request.nbytes
            if rows > self._max_group_rows or nbytes > self._max_group_bytes or not first.can_join(request):
                break
            group.append(self._waiting.popleft())
        self.queued_bytes -= sum(request.nbytes for request in group)
        return group

    def _hand_over(self) -> None:
        with self._changed:
            leader = next((request for request in self._waiting if request.is_awaited), None)
            if leader is not None:
                leader.leads = True
                leader.wake()
                return
            if self._waiting:
                self._pool.submit(self._lead, None)
                return
            self._is_led = False
            self._changed.notify_all()


def run_requests(requests: Mapping[str, tuple[RequestQueue, Request]]) -> list[RegionOutcome]:
    """Write requests, those of several regions at once; return their outcomes.

    Regions are asked in ascending order, as `exclusive` takes them. A request that waits in one queue may be
    told to lead it while its thread waits for another region; who holds that one must not wait for the queue.
    """
    in_order = [requests[region_id] for region_id in sorted(requests)]
    for at, (queue, request) in enumerate(in_order, start=1):
        try:
            queue.put(request)
            if request.is_awaited and at < len(requests):
                queue.start(request)
        except LanceGatewayError as error:
            request.error, request.is_done = error, True
    for queue, request in reversed(in_order):
        if request.is_awaited:
            queue.finish(request)
    return [RegionOutcome(one, request.num_rows, request.error) for one, (_, request) in requests.items()]
