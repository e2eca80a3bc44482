"""One execution of a statement: its states and phases, and what its call can still do for it."""

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Any, TypeVar

from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.planner.bridge.run_control import RunControl, RunningScan, TableRead
from lance_gateway.planner.engine import SessionSettings

T = TypeVar("T")
# Of the text of a statement that ended.
_REMEMBERED_CHARACTERS = 65_536


class QueryState(Enum):
    """State of a statement."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class QueryPhase(Enum):
    """What a statement does, or did last."""

    QUEUE = "queue"
    PLANNING = "planning"
    READING = "reading"
    STREAMING = "streaming"
    WRITING = "writing"


class Query:
    """One execution of a statement, from the redemption of its ticket to the end of its stream; or one call.

    A call that plans a statement has one, too, while it plans.

    Attributes:
        id: 32 hexadecimal digits; a part of a divided result has its number, and a number of
            its own, behind them.
        statement_id: of the ticket; equal for all parts of one result.
        sql: as the client sent it; the beginning of it, once the statement has ended.
        settings: of the session that asked.
        user: who runs it.
        session_id: None where the client keeps no session.
        peer: address of the client.
        request: of the client that it is part of; "" where the client names none.
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
        names_files: whether the message may say where files are.
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
        self.request = call.request
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
        self.names_files = True
        self.control = RunControl()
        self.control.transaction = call.transaction
        self.reads: tuple[TableRead, ...] = ()
        self.scans: tuple[RunningScan, ...] = ()
        self.deadline: float | None = None
        """Seconds of the monotonic clock."""
        self.sending_since: float | None = None
        """The same, while its client takes or sends a batch."""
        self.is_exempt = False
        """Whether it runs without a slot, as queries of system tables do for an operator."""
        self.is_endless = False
        """Whether it goes on until somebody ends it: it has no time limit, and a slot only while it reads."""
        self.is_planning = False
        """Whether it plans a statement, and does not execute it."""
        self.is_abandoned = False
        """Whether its client was answered while a thread was still at work on it."""
        self.call_thread = 0
        """Number of the thread that serves the call; others may work for it."""
        self.relay: Callable[[Callable[[], Any]], Any] = run_here
        """Runs a function in the thread that serves the call, which alone may read from its client. For use
        by what runs for the statement at the time."""
        self._lock = threading.Lock()
        self._call: Call | None = call

    def has_client_left(self) -> bool:
        """Return whether the client cancelled the call, let its deadline pass or disconnected."""
        # The call's context dies with the stream, which `leave` announces.
        with self._lock:
            return self._call is not None and self._call.is_cancelled()

    @property
    def phase(self) -> QueryPhase:
        """What it does, or did last."""
        if self.started_at is None:
            return QueryPhase.QUEUE
        if self.is_planning:
            return QueryPhase.PLANNING
        if self.control.is_writing:
            return QueryPhase.WRITING
        return QueryPhase.READING if self.first_batch_at is None else QueryPhase.STREAMING

    def relay_each(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield the items of an iterator that reads from the client; None would end it."""
        while (item := self.relay(lambda: next(steps, None))) is not None:
            yield item

    def leave(self, state: QueryState, error: str | None) -> None:
        """Record the end of the stream."""
        with self._lock:
            self._call = None
        self.sql = self.sql[:_REMEMBERED_CHARACTERS]
        self.finished_at = datetime.now(UTC)
        self.queue_seconds = _compute_seconds(self.created_at, self.started_at)
        self.run_seconds = _compute_seconds(self.started_at, self.finished_at)
        self.first_batch_seconds = _compute_seconds(self.started_at, self.first_batch_at)
        # Work that goes on behind the call looks there whether to go on.
        self.reads, self.scans = self.control.end(keeps_error=self.is_abandoned)
        self.error = error
        self.state = state


# Which statement a thread serves. A call is served by one thread of gRPC from its first byte to its last.
# Python did not start that thread, and forgets its thread-local values between two visits: hence a map by id.
_serving: dict[int, Query] = {}


def serve_in_this_thread(query: Query) -> None:
    """Say that the calling thread serves a statement, until `stop_serving`."""
    _serving[threading.get_ident()] = query


def stop_serving(thread: int, query: Query) -> None:
    """Say that a thread no longer serves a statement."""
    if _serving.get(thread) is query:
        del _serving[thread]


def current_statement() -> Query | None:
    """Return the statement that the calling thread serves, if it serves one."""
    return _serving.get(threading.get_ident())


def _compute_seconds(start: datetime | None, end: datetime | None) -> float:
    """Return the seconds between two moments; 0 if one of them is None."""
    return 0.0 if start is None or end is None else max((end - start).total_seconds(), 0.0)


def run_here(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the function returns
    """Run a function in the calling thread."""
    return function()
