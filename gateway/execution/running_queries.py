"""The statements of a server: admission, states, history and cancellation."""

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum

from gateway.protocol.commands import Call
from gateway.protocol.errors import QueryCancelledError, QueryTimeoutError
from gateway.protocol.limits import Limits
from memwal.errors import LanceGatewayError, NotFoundError, UnavailableError
from planner.bridge.run_control import RunControl, RunningScan, TableRead
from planner.engine import SessionSettings

# How often running statements are looked at: whether their client is there, whether their time is up.
_LOOK_SECONDS = 0.25
_REMEMBERED_TICKETS = 65_536
# How long a client may take over a batch, either way, before its statement counts as one that does not run.
_STALL_SECONDS = 5.0
# Of the text of a statement that ended.
_REMEMBERED_CHARACTERS = 65_536


class QueryState(Enum):
    """State of a statement."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Query:
    """One execution of a statement, from the redemption of its ticket to the end of its stream; or one call.

    Attributes:
        id: 32 hexadecimal digits; a part of a divided result has its number, and a number of
            its own, behind them.
        statement_id: of the ticket; equal for all parts of one result.
        sql: as the client sent it; the beginning of it, once the statement has ended.
        settings: of the session that asked.
        user: who runs it.
        session_id: None where the client keeps no session.
        peer: address of the client.
        is_upload: whether the client sends rows or parameters to it, see `OpenUploads`.
        state: what became of it so far.
        created_at: when the ticket was redeemed.
        started_at: when it left the queue; None while it waits.
        first_batch_at: when its first batch was there; None where there was none.
        finished_at: None while it runs.
        queue_seconds: from its creation to its start; 0 until it has ended, and where it never started.
        run_seconds: from its start to its end, likewise.
        first_batch_seconds: from its start to its first batch, likewise.
        rows: that were sent.
        target: table or view that it changes; None where it does nothing of the kind.
        affected: rows that it inserted, updated or deleted; None where it does nothing of the kind.
        bytes: that were sent, uncompressed.
        error: message for its client; None if it did not fail.
        control: stops it, and tells what it reads while it runs.
        reads: what each table reference came down to, once it has ended.
        scans: the same as they ran, for observers of its end.
    """

    def __init__(
        self, statement_id: str, sql: str, settings: SessionSettings, call: Call, part: int | None = None
    ) -> None:
        self.id = statement_id if part is None else f"{statement_id}-{part}"
        self.statement_id = statement_id
        self.sql = sql
        self.settings = settings
        self.user = call.identity.name
        self.session_id = call.session_id
        self.peer = call.peer
        self.is_upload = call.upload is not None
        self.state = QueryState.QUEUED
        self.created_at = datetime.now(UTC)
        self.started_at: datetime | None = None
        self.first_batch_at: datetime | None = None
        self.finished_at: datetime | None = None
        self.queue_seconds = self.run_seconds = self.first_batch_seconds = 0.0
        self.rows = 0
        self.affected: int | None = None
        self.target: str | None = None
        self.bytes = 0
        self.error: str | None = None
        self.control = RunControl()
        self.reads: tuple[TableRead, ...] = ()
        self.scans: tuple[RunningScan, ...] = ()
        self.deadline: float | None = None
        """Seconds of the monotonic clock."""
        self.sending_since: float | None = None
        """The same, while its client takes or sends a batch."""
        self.is_exempt = False
        """Whether it runs without a slot, as queries of system tables do for an operator."""
        self._lock = threading.Lock()
        self._call: Call | None = call

    def has_client_left(self) -> bool:
        """Return whether the client cancelled the call, let its deadline pass or disconnected."""
        # The call's context dies with the stream, which `leave` announces.
        with self._lock:
            return self._call is not None and self._call.is_cancelled()

    def leave(self, state: QueryState, error: str | None) -> None:
        """Record the end of the stream."""
        with self._lock:
            self._call = None
        self.sql = self.sql[:_REMEMBERED_CHARACTERS]
        self.finished_at = datetime.now(UTC)
        self.queue_seconds = _compute_seconds(self.created_at, self.started_at)
        self.run_seconds = _compute_seconds(self.started_at, self.finished_at)
        self.first_batch_seconds = _compute_seconds(self.started_at, self.first_batch_at)
        self.reads, self.scans = self.control.end()
        self.error = error
        self.state = state


# Which statement a thread serves. A call is served by one thread of gRPC from its first byte to its last.
# Python did not start that thread, and forgets its thread-local values between two visits: hence a map by id.
_serving: dict[int, Query] = {}


def current_statement() -> Query | None:
    """Return the statement that the calling thread serves, if it serves one."""
    return _serving.get(threading.get_ident())


class QueryObserver:
    """Observes statements in the thread that runs them; subclasses override the events that they need."""

    def on_started(self, query: Query) -> None:
        """Observe a statement that left the queue."""

    def on_finished(self, query: Query) -> None:
        """Observe a statement whose stream has ended, for whatever reason."""


class Queries:
    """The statements of a server; safe to share between threads.

    Args:
        limits: how many run and wait, and for how long.
        observers: of each statement.
    """

    def __init__(self, limits: Limits | None = None, observers: Sequence[QueryObserver] = ()) -> None:
        self.limits = limits or Limits()
        # Those with nothing to say need not be asked for every statement.
        self._on_started = _find_listeners(observers, "on_started")
        self._on_finished = _find_listeners(observers, "on_finished")
        # Reentrant: garbage collection may end an abandoned stream in any thread.
        self._lock = threading.RLock()
        self._slots = threading.Condition(self._lock)
        self._active: dict[str, Query] = {}
        self._holders: set[Query] = set()
        """Statements with a slot. One whose client stalls may lose it."""
        self._waiting = 0
        self._finished: deque[Query] = deque(maxlen=self.limits.query_history)
        self._redeemed: OrderedDict[str, None] = OrderedDict()
        self._readings = itertools.count(1)
        self._stopping: LanceGatewayError | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch_queries, name="queries", daemon=True).start()

    def list_active(self) -> tuple[Query, ...]:
        """Return the statements that wait or run, oldest first."""
        with self._lock:
            return tuple(self._active.values())

    def list_finished(self) -> tuple[Query, ...]:
        """Return the statements in the history, newest first."""
        with self._lock:
            return tuple(reversed(self._finished))

    def redeem(self, statement_id: bytes, sql: str, settings: SessionSettings, call: Call) -> Query:
        """Use up the ticket of a statement.

        Args:
            statement_id: 16 bytes, of the ticket.
            sql: the statement.
            settings: of the session that asked.
            call: that brings the ticket.

        Raises:
            NotFoundError: the ticket was used, or its statement was cancelled.
        """
        query = Query(statement_id.hex(), sql, settings, call)
        if not self.withdraw(statement_id):
            raise NotFoundError(
                f"the ticket of statement {query.id} was used, or the statement was cancelled: a ticket "
                "is good for one DoGet; send the statement to GetFlightInfo again"
            )
        return query

    def redeem_part(
        self, statement_id: bytes, number: int, sql: str, settings: SessionSettings, call: Call
    ) -> Query:
        """Begin one part of a result; its ticket is good any number of times, until it expires.

        Args:
            statement_id: 16 bytes, of the ticket; the same for all parts.
            number: of the part.
            sql: the statement.
            settings: of the session that asked.
            call: that brings the ticket.

        Raises:
            NotFoundError: the statement was cancelled.
        """
        with self._lock:
            if statement_id.hex() in self._redeemed:
                raise NotFoundError(
                    f"statement {statement_id.hex()} was cancelled: send it to GetFlightInfo again"
                )
        query = Query(statement_id.hex(), sql, settings, call, number)
        # A part may be read by several clients at once, or again after a reader was lost.
        query.id = f"{query.id}-{next(self._readings)}"
        return query

    def withdraw(self, statement_id: bytes) -> bool:
        """Invalidate a ticket; return False if it was redeemed already."""
        with self._lock:
            if statement_id.hex() in self._redeemed:
                return False
            self._redeemed[statement_id.hex()] = None
            while len(self._redeemed) > _REMEMBERED_TICKETS:
                self._redeemed.popitem(last=False)
            return True

    def cancel(self, statement_id: str, error: LanceGatewayError, user: str | None = None) -> bool:
        """Stop a statement, all of its parts, by the id of the statement or of one part.

        Args:
            statement_id: or the id of one execution.
            error: for its client.
            user: only statements of this user; None for all users.

        Returns:
            Whether there was something to stop.
        """
        queries = [
            query
            for query in self.list_active()
            if statement_id in (query.statement_id, query.id) and user in (None, query.user)
        ]
        for query in queries:
            query.control.cancel(error)
        if queries:
            with self._lock:
                self._slots.notify_all()
        return bool(queries)

    def cancel_all(self, error: LanceGatewayError) -> None:
        """Stop all statements, and refuse new ones."""
        self._stopping = error
        for query in self.list_active():
            query.control.cancel(error)
        with self._lock:
            self._slots.notify_all()

    def close(self) -> None:
        """Stop the thread that watches statements."""
        self._closed.set()

    @contextmanager
    def run(self, query: Query) -> Iterator[None]:
        """Run one statement in this block: wait for a slot, then hold it.

        Raises:
            UnavailableError: too many statements wait, or it waited too long.
        """
        state, error, thread = QueryState.FAILED, None, 0
        with self._lock:
            self._active[query.id] = query
        try:
            self._enter(query)
            thread = threading.get_ident()
            _serving[thread] = query
            try:
                for notify in self._on_started:
                    notify(query)
                yield
                state = QueryState.FINISHED
            finally:
                self._release_slot(query)
        except GeneratorExit:
            state, error = QueryState.CANCELLED, "the client went away"
            raise
        except LanceGatewayError as raised:
            state = QueryState.CANCELLED if isinstance(raised, QueryCancelledError) else QueryState.FAILED
            error = str(raised)
            raise
        except Exception:
            error = "the gateway failed: its log says why"
            raise
        finally:
            query.leave(state, error)
            with self._lock:
                del self._active[query.id]
                self._finished.append(query)
            try:
                for notify in self._on_finished:
                    notify(query)
            finally:
                query.scans = ()  # which hold snapshots
                # Another thread may drop a stream that was not read to its end.
                if _serving.get(thread) is query:
                    del _serving[thread]

    def _enter(self, query: Query) -> None:
        limits = self.limits
        with self._lock:
            if not query.is_exempt:
                self._take_slot(query)
            if self._stopping is not None:
                raise self._stopping
        if query.control.error is not None:
            raise query.control.error
        query.started_at = datetime.now(UTC)
        query.state = QueryState.RUNNING
        seconds = limits.query_timeout_seconds
        own = query.settings.query_timeout_ms / 1000
        if own:
            seconds = min(own, seconds) if seconds else own
        if seconds:
            query.deadline = time.monotonic() + seconds

    def _take_slot(self, query: Query) -> None:
        """Wait for a free slot. The caller holds the lock."""
        most, patience = self.limits.max_concurrent_queries, self.limits.queue_timeout_seconds
        if len(self._holders) >= most:
            if self._waiting >= self.limits.max_queued_queries:
                raise UnavailableError(
                    f"{len(self._holders)} statements run and {self._waiting} wait, which is as many as may: "
                    "try again in a moment"
                )
            until = time.monotonic() + patience
            self._waiting += 1
            try:
                while len(self._holders) >= most:
                    is_notified = self._slots.wait(until - time.monotonic())
                    # A slot that came free at the same moment is taken: no other thread is notified of it.
                    if not is_notified and len(self._holders) >= most:
                        raise UnavailableError(
                            f"the statement waited {patience:g} s for one of {most} running ones to end: try "
                            "again in a moment"
                        )
                    query.control.check()
            finally:
                self._waiting -= 1
        self._holders.add(query)

    def _release_slot(self, query: Query) -> None:
        """Release the slot of a statement, if it still has one."""
        with self._lock:
            if query in self._holders:
                self._holders.remove(query)
                if self._waiting:
                    self._slots.notify()

    def _watch_queries(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            now = time.monotonic()
            for query in self.list_active():
                since = query.sending_since
                if query.control.error is not None or (since is not None and now - since > _STALL_SECONDS):
                    # It is over, or its client does not read: others need not wait for that.
                    self._release_slot(query)
                if query.has_client_left():
                    self.cancel(query.id, QueryCancelledError("the client cancelled the call, or went away"))
                elif query.deadline is not None and query.deadline < now:
                    query.control.cancel(
                        QueryTimeoutError(
                            "the statement ran longer than it may: make it cheaper, or raise "
                            "query_timeout_ms as far as the server's own limit allows"
                        )
                    )


def _compute_seconds(start: datetime | None, end: datetime | None) -> float:
    """Return the seconds between two moments; 0 if one of them is None."""
    return 0.0 if start is None or end is None else max((end - start).total_seconds(), 0.0)


def _find_listeners(observers: Sequence[QueryObserver], event: str) -> tuple[Callable[[Query], None], ...]:
    """Return the methods of observers that override an event."""
    inherited = getattr(QueryObserver, event)
    return tuple(
        getattr(observer, event) for observer in observers if getattr(type(observer), event) is not inherited
    )
