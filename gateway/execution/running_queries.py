"""The statements of a server: admission, states, history and cancellation."""

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.execution.detached import DetachedSteps
from lance_gateway.gateway.execution.query import Query, QueryState, serve_in_this_thread, stop_serving
from lance_gateway.gateway.protocol.commands import Call, new_statement_id
from lance_gateway.gateway.protocol.errors import QueryCancelledError, QueryTimeoutError
from lance_gateway.memwal.errors import LanceGatewayError, NotFoundError, UnavailableError
from lance_gateway.planner.engine import (
    SessionSettings,
)

T = TypeVar("T")

# How often running statements are looked at: whether their client is there, whether their time is up.
_LOOK_SECONDS = 0.25
_REMEMBERED_TICKETS = 65_536
# How long a client may take over a batch, either way, before its statement counts as one that does not run.
_STALL_SECONDS = 5.0


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
        is_remote: whether what they read may keep a thread waiting that nothing interrupts.
        history: how many that have ended are remembered.

    Attributes:
        limits: as given.
        is_remote: as given.
    """

    def __init__(
        self,
        limits: LimitsSection | None = None,
        observers: Sequence[QueryObserver] = (),
        *,
        is_remote: bool = False,
        history: int = 1000,
    ) -> None:
        self.limits = limits or LimitsSection()
        self.is_remote = is_remote
        self._detached = DetachedSteps()
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
        self._patient = 0
        """Statements that wait without an end, and count for no limit."""
        self._finished: deque[Query] = deque(maxlen=history)
        self._redeemed: OrderedDict[str, None] = OrderedDict()
        self._readings = itertools.count(1)
        self._stopping: LanceGatewayError | None = None
        self._stopping_endless: LanceGatewayError | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch_queries, name="queries", daemon=True).start()

    def list_active(self) -> tuple[Query, ...]:
        """Return the statements that wait or run, oldest first."""
        with self._lock:
            return tuple(self._active.values())

    def has_transaction(self, transaction: object) -> bool:
        """Return whether a statement of a transaction waits or runs."""
        return any(query.control.transaction is transaction for query in self.list_active())

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
        if not self.withdraw(statement_id):
            raise NotFoundError(
                f"the ticket of statement {statement_id.hex()} was used, or the statement was cancelled: a "
                "ticket is good for one DoGet; send the statement to GetFlightInfo again"
            )
        return Query(statement_id.hex(), sql, settings, call)

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
        return self._cancel(
            lambda query: statement_id in (query.statement_id, query.id) and user in (None, query.user), error
        )

    def cancel_request(self, name: str, error: LanceGatewayError) -> bool:
        """Stop the statements of a client's request.

        Args:
            name: that the client gave it, and that others can't guess.
            error: for the client.

        Returns:
            Whether there was something to stop.
        """
        return self._cancel(lambda query: query.request == name, error)

    def _cancel(self, is_meant: Callable[[Query], bool], error: LanceGatewayError) -> bool:
        queries = [query for query in self.list_active() if is_meant(query)]
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

    def cancel_endless(self, error: LanceGatewayError) -> None:
        """Stop the statements that would not end by themselves, and refuse new ones."""
        self._stopping_endless = error
        for query in self.list_active():
            if query.is_endless:
                query.control.cancel(error)

    @contextmanager
    def hold_slot(self, query: Query) -> Iterator[None]:
        """Hold a slot in this block, for a running statement that has none; wait for it as long as it takes.

        Raises:
            LanceGatewayError: it was stopped.
        """
        with self._lock:
            self._patient += 1
            try:
                while len(self._holders) >= self.limits.max_concurrent_queries:
                    query.control.check()
                    self._slots.wait(_LOOK_SECONDS)
            finally:
                self._patient -= 1
            self._holders.add(query)
        try:
            yield
        finally:
            self._release_slot(query)

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
            query.call_thread = thread = threading.get_ident()
            serve_in_this_thread(query)
            try:
                for notify in () if query.is_planning else self._on_started:
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
            error, query.names_files = str(raised), raised.names_files
            raise
        except Exception:
            error = "the gateway failed: its log says why"
            raise
        finally:
            query.leave(state, error)
            with self._lock:
                del self._active[query.id]
                # A statement that was planned has its place in the history when it is executed, if it can be.
                if not query.is_planning or error is not None:
                    self._finished.append(query)
            try:
                for notify in () if query.is_planning else self._on_finished:
                    notify(query)
            finally:
                query.scans = ()  # which hold snapshots
                # Another thread may drop a stream that was not read to its end.
                stop_serving(thread, query)

    def plan(self, sql: str, settings: SessionSettings, call: Call, step: Callable[[], T]) -> T:
        """Run the part of a call before a statement's execution: planned, listed and stopped like one.

        Args:
            sql: the statement, for `system.queries`.
            settings: of the session that asks.
            call: that waits.
            step: plans it; in a thread of its own, and left to itself if the call ends before it.

        Raises:
            LanceGatewayError: an error of the step; or it was stopped.
        """
        query = Query(new_statement_id().hex(), sql, settings, call)
        query.is_planning = query.is_exempt = True
        with self.run(query):
            return self._detached.run(query, step)

    def read(self, what: str, call: Call, step: Callable[[], T]) -> T:
        """Return what a step reads for a call, such as a metadata command; if storage is remote, as `plan`.

        Args:
            what: name of the step, for `system.queries`.
            call: that waits.
            step: reads it.

        Raises:
            LanceGatewayError: an error of the step; or it was stopped.
        """
        return self.plan(what, call.settings, call, step) if self.is_remote else step()

    def work(self, query: Query, step: Callable[[], T]) -> T:
        """Run a step of a running statement, which is left to itself where it waits for remote storage.

        Raises:
            LanceGatewayError: an error of the step; or the statement was stopped.
        """
        return self._detached.run(query, step) if self.is_remote else step()

    def work_for_each(self, query: Query, steps: Generator[T]) -> Iterator[T]:
        """Yield the items of a generator up to its first None, each of its steps as `work` does."""
        return self._detached.iterate(query, steps) if self.is_remote else steps

    def _enter(self, query: Query) -> None:
        limits = self.limits
        with self._lock:
            if query.is_endless:
                self._check_endless()
            elif not query.is_exempt:
                self._take_slot(query)
            if self._stopping is not None:
                raise self._stopping
        if query.control.error is not None:
            raise query.control.error
        query.started_at = datetime.now(UTC)
        query.state = QueryState.RUNNING
        seconds = limits.query_timeout
        own = query.settings.query_timeout_ms / 1000
        if own:
            seconds = min(own, seconds) if seconds else own
        if seconds and not query.is_endless:
            query.deadline = time.monotonic() + seconds

    def _check_endless(self) -> None:
        """Check whether one more statement without an end may run. The caller holds the lock."""
        if self._stopping_endless is not None:
            raise self._stopping_endless
        most, running = self.limits.max_followers, sum(query.is_endless for query in self._active.values())
        if running > most:  # It counts itself.
            raise UnavailableError(
                f"{most} statements follow tables, which is as many as may (max_followers): end one, follow "
                "at another gateway, or ask for changes now and then without follow => true"
            )

    def _take_slot(self, query: Query) -> None:
        """Wait for a free slot. The caller holds the lock."""
        most, patience = self.limits.max_concurrent_queries, self.limits.queue_timeout
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
                if self._waiting or self._patient:
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


def _find_listeners(observers: Sequence[QueryObserver], event: str) -> tuple[Callable[[Query], None], ...]:
    """Return the methods of observers that override an event."""
    inherited = getattr(QueryObserver, event)
    return tuple(
        getattr(observer, event) for observer in observers if getattr(type(observer), event) is not inherited
    )
