"""Statements that follow a table, and so do not end: `lance_changes(.., follow => true)`.

A follower waits until its table has another state than it told last, asks for the changes between the two,
and sends them; where nothing changes, it sends an empty batch now and then. The state is found once for all
followers of a table: at once when rows are written through this gateway, and otherwise a few times a second.
So is the answer, if it is small, since those who wait for the same state ask the same. Between two questions
a follower holds a thread and a token, and nothing else. One whose client does not read asks nothing: its next
question is about all that was changed meanwhile.

The metadata of each batch is the token from which to go on once the batch is applied. Of changes in several
batches, all but the last have the token before, so that none is lost where a client ends in their midst.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow as pa

from lance_gateway.gateway.execution.own_statement import EndlessStatement
from lance_gateway.gateway.execution.query import Query
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.execution.streams import slice_batch
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, UnsupportedError
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.binding.changes.followed import FollowedChanges, read_followed_changes
from lance_gateway.planner.engine import PreparedQuery, QueryEngine, SessionSettings
from lance_gateway.planner.plans.errors import schema_changed_error
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.tables.sources.snapshot import Consistency
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.noted_tables import write_token
from lance_gateway.planner.tables.state.table import Table

LOOK_SECONDS: Final = 0.1
"""How long the changes of other processes go unnoticed."""
_PAUSE_SECONDS: Final = 0.05
"""How long a state is the newest, however many rows are written meanwhile, so that followers share it."""


_SHARED_STEPS: Final = 4
_SHARED_BYTES: Final = 1 << 20
"""Results that are larger are not shared, so as not to keep them in memory."""


class NewestState:
    """The token of the newest state of a table, for all who follow it; safe to share between threads.

    Args:
        catalog: has the table.
        name: of the table.
        consistency: which rows belong to the state.
    """

    def __init__(self, catalog: Catalog, name: str, consistency: Consistency) -> None:
        self._catalog = catalog
        self._name = name
        self._consistency = consistency
        self._look_lock = threading.Lock()
        self._wakes = threading.Condition()
        self._written = 0
        """How often rows were written through this process."""
        self._seen = (0, -math.inf, "")
        """`_written` when the state was looked for last, when that was (monotonic clock), and its token."""
        self._table: Table | None = None
        self._stop_waking: Callable[[], None] = _do_nothing
        self.steps = SharedSteps()
        self.followers = 0
        """How many wait for it; `Followers` counts them."""

    def wait_for_other(self, token: str, until: float, check: Callable[[], None]) -> str:
        """Return the token of the newest state, when it is another one, or it is time.

        Args:
            token: that is known.
            until: seconds of the monotonic clock.
            check: raises an error that ends the wait; called a few times a second.

        Raises:
            LanceGatewayError: the table was dropped, or can't be read.
        """
        while True:
            check()
            newest = self._look()
            now = time.monotonic()
            if newest != token or now >= until:
                return newest
            written, looked_at, _ = self._seen
            with self._wakes:
                # Others may have looked since, and it may be that rows were written before this one waits.
                if self._written == written:
                    self._wakes.wait(min(LOOK_SECONDS, until - now))
            pause = looked_at + _PAUSE_SECONDS - time.monotonic()
            if pause > 0:
                time.sleep(pause)

    def _look(self) -> str:
        with self._look_lock:
            written, looked_at, token = self._seen
            age = time.monotonic() - looked_at
            if age < _PAUSE_SECONDS or (self._written == written and age < LOOK_SECONDS):
                return token
            written, now = self._written, time.monotonic()
            token = self._read()
            self._seen = written, now, token
            return token

    def _read(self) -> str:
        table = self._catalog.table(self._name)
        if table is not self._table:
            self._stop_waking()
            self._table, self._stop_waking = table, table.wake_on_writes(self._wake)
        regions = table.assignments(table.base(), self._consistency).region_ids
        return write_token(table.take_snapshot(regions, self._consistency))

    def close(self) -> None:
        """Stop waiting for rows that are written through this process."""
        with self._look_lock:
            self._stop_waking()
            self._table, self._stop_waking = None, _do_nothing

    def _wake(self) -> None:
        with self._wakes:
            self._written += 1
            self._wakes.notify_all()


class SharedSteps:
    """Small results that several followers ask for at once; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: OrderedDict[object, Future[tuple[pa.RecordBatch, ...] | None]] = OrderedDict()

    def read(
        self, key: object, run: Callable[[], Generator[pa.RecordBatch]], check: Callable[[], None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a step, which one follower runs for all.

        Args:
            key: everything that the result depends on.
            run: runs the step.
            check: raises an error that ends the wait for another follower; called a few times a second.
        """
        with self._lock:
            result = self._results.get(key)
            runs = result is None
            if result is None:
                result = self._results[key] = Future()
                while len(self._results) > _SHARED_STEPS:
                    self._results.popitem(last=False)
        if runs:
            yield from self._run(result, run)
            return
        while not wait((result,), LOOK_SECONDS).done:
            check()
        batches = result.result()
        yield from run() if batches is None else batches

    def _run(
        self, result: Future[tuple[pa.RecordBatch, ...] | None], run: Callable[[], Generator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        batches, size = [], 0
        with closing(run()) as rest:
            try:
                for batch in rest:
                    batches.append(batch)
                    size += batch.nbytes
                    if size > _SHARED_BYTES:
                        break
                else:
                    result.set_result(tuple(batches))
            finally:
                if not result.done():
                    result.set_result(None)  # Others run it by themselves.
            yield from batches
            yield from rest


class Followers:
    """Reads and runs statements that follow tables.

    Args:
        engine: answers their questions.
        queries: the statements of the server.
        find_access: what a principal may see now; the same object while that lasts.
    """

    def __init__(
        self, engine: QueryEngine, queries: Queries, find_access: Callable[[Identity], Access]
    ) -> None:
        self._engine = engine
        self._queries = queries
        self._find_access = find_access
        self._lock = threading.Lock()
        self._states: dict[tuple[str, Consistency], NewestState] = {}

    def read(self, sql: str, call: Call) -> Follow | None:
        """Read a statement that follows a table; return None for others.

        Raises:
            UnsupportedError: it has clauses that need an end, or stands in a transaction.
            LanceGatewayError: it is not valid.
        """
        changes = read_followed_changes(sql)
        if changes is None:
            return None
        if call.transaction is not None:
            raise UnsupportedError(
                "a statement that follows a table goes on while others commit: execute it outside of the "
                "transaction"
            )
        settings = call.settings
        step = self._queries.plan(sql, settings, call, lambda: self._check(changes, settings, call.access))
        (table,) = step.tables
        return Follow(sql, step.schema, changes, table, settings, self)

    def _check(self, changes: FollowedChanges, settings: SessionSettings, access: Access) -> PreparedQuery:
        """Prepare the first step of a statement, which has its columns."""
        step = self._engine.prepare(changes.write_step(changes.since, None), settings, access)
        try:
            self._engine.prepare(changes.write_check(), settings, access)
        except InvalidInputError as error:
            raise UnsupportedError(
                "follow => true: a statement that follows a table has no end, so it may select columns and "
                f"rows, and can't aggregate them ({error})"
            ) from error
        return step

    def follow(self, statement: Follow, query: Query, call: Call) -> Generator[tuple[pa.RecordBatch, bytes]]:
        """Yield the changes of a table, without an end; see `EndlessStatement.follow`."""
        nothing = pa.RecordBatch.from_pylist([], statement.schema)
        heartbeat = self._queries.limits.follow_heartbeat
        since, token = statement.followed.since, ""

        def check() -> None:
            query.control.check()
            if self._find_access(call.identity) is not call.principal:
                raise PreconditionError(
                    f"what user {call.identity.name!r} may see has changed: go on from the last token with "
                    "a new statement"
                )

        with self._share_state(statement.table, statement.settings.consistency) as state:
            while True:
                newest = state.wait_for_other(token, time.monotonic() + heartbeat, check)
                if newest == token:
                    yield nothing, token.encode()
                    continue
                step = statement.followed.write_step(since, newest)
                run = partial(self._run_step, statement, step, query, call.access)
                batches = state.steps.read((step, statement.settings, call.access), run, check)
                for batch, is_last in _mark_last(batches):
                    yield batch, (newest if is_last else token).encode()
                query.control.runs.clear()  # Else it would keep the scans of all steps.
                since, token = f"'{newest}'", newest

    def _run_step(
        self, statement: Follow, step: str, query: Query, access: Access
    ) -> Generator[pa.RecordBatch]:
        """Yield the changes between two states, in batches that every client can read."""
        # Each step has a text of its own, which is not worth keeping.
        settings = replace(statement.settings, shortcuts=statement.settings.shortcuts - {Shortcut.KEPT_PLANS})
        with self._queries.hold_slot(query):
            plan = self._engine.prepare(step, settings, access)
            if not plan.schema.equals(statement.schema):
                raise schema_changed_error(statement.sql)
            with plan.execute((), settings, query.control) as reader:
                for batch in reader:
                    yield from slice_batch(batch, self._queries.limits.max_batch_bytes)

    @contextmanager
    def _share_state(self, table: str, consistency: Consistency) -> Iterator[NewestState]:
        """Share what is found of a table with all who follow it."""
        key = table, consistency
        with self._lock:
            state = self._states.setdefault(key, NewestState(self._engine.catalog, table, consistency))
            state.followers += 1
        try:
            yield state
        finally:
            with self._lock:
                state.followers -= 1
                if not state.followers:
                    del self._states[key]
                    state.close()


@dataclass(frozen=True, eq=False)
class Follow(EndlessStatement):
    """A statement that follows a table.

    Attributes:
        sql: its text.
        schema: of its rows.
        followed: its parts.
        table: name in the catalog.
        settings: of the session that asked.
        followers: run it.
    """

    sql: str
    schema: pa.Schema
    followed: FollowedChanges
    table: str
    settings: SessionSettings
    followers: Followers

    def follow(self, query: Query, call: Call) -> Generator[tuple[pa.RecordBatch, bytes]]:
        """See `EndlessStatement.follow`."""
        return self.followers.follow(self, query, call)


def _do_nothing() -> None:
    pass


def _mark_last(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Yield each batch, and whether it is the last one."""
    held = next(batches, None)
    while held is not None:
        following = next(batches, None)
        yield held, following is None
        held = following
