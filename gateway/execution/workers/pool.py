"""Supervises the worker processes: starts, chooses, kills and replaces them."""

import itertools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from cachetools import TTLCache

from lance_gateway.gateway.execution.workers.channel import encode
from lance_gateway.gateway.execution.workers.messages import (
    Answered,
    CallFunction,
    Failed,
    ReadWrite,
    WorkerOptions,
)
from lance_gateway.gateway.execution.workers.process import (
    Lease,
    WorkerEnd,
    WorkerEndedError,
    WorkerLostError,
    WorkerProcess,
)
from lance_gateway.gateway.execution.workers.template import Template
from lance_gateway.memwal.errors import (
    InvalidInputError,
    LanceGatewayError,
    NotFoundError,
    UnavailableError,
    copy_error,
)
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.prepared_query import PreparedQuery

logger = logging.getLogger(__name__)

MAX_DEFAULT_WORKERS = 4
_LOOK_SECONDS = 0.25
_START_SECONDS = 60.0
_HANG_SECONDS = 1.0
"""A stopped statement that goes on for so long behind its answer means that its worker hangs."""
_LAST_SECONDS = 5.0
"""How long a worker that hangs is kept for its other statements."""
_RESTART_SECONDS = 1.0
_MAX_REMEMBERED = 1024
_REMEMBERED_SECONDS = 3600.0
_REFUSED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Record:
    deaths: int
    died_at: float
    why: str


class FatalStatements:
    """The statements of the last hour under which a worker died; safe to share between threads.

    Args:
        clock: seconds, never going back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._has_any = False
        self._records: TTLCache[bytes, _Record] = TTLCache(_MAX_REMEMBERED, _REMEMBERED_SECONDS, clock)

    def record_death(self, statement: bytes, why: str, *, was_alone: bool) -> None:
        """Record that a worker died under a statement.

        Args:
            statement: its name.
            why: how the worker ended.
            was_alone: whether the worker had no other statement, so that this one is to blame.
        """
        with self._lock:
            before = self._records.get(statement)
            deaths = before.deaths if before is not None else 0
            # Who was one of several is only suspected, however often that happens.
            deaths = deaths + 1 if was_alone else max(deaths, 1)
            self._records[statement] = _Record(deaths, self._clock(), why)
            self._has_any = True

    def must_be_alone(self, statement: bytes) -> bool:
        """Return whether a statement must run in a process of its own.

        Raises:
            InvalidInputError: it has ended two processes, and is refused for a while.
        """
        if not self._has_any:
            return False
        with self._lock:
            record = self._records.get(statement)
        if record is None:
            return False
        left = record.died_at + _REFUSED_SECONDS - self._clock()
        if record.deaths >= 2 and left > 0:
            raise InvalidInputError(
                f"the statement has ended {record.deaths} processes of the gateway, the last one with "
                f"{record.why}: it is refused for another {left:.0f} s; change it, or ask for less at once"
            )
        return True

    def forget(self, statement: bytes) -> None:
        """Forget a statement that has run alone and did no harm."""
        with self._lock:
            self._records.pop(statement, None)


class WorkerPool:
    """The worker processes of a gateway; safe to share between threads.

    Args:
        template: that they are forked from.
        count: of the workers.
        options: for each of them.
    """

    def __init__(self, template: Template, count: int, options: WorkerOptions) -> None:
        if count < 1:
            raise InvalidInputError(f"a pool of {count} workers: at least one is needed")
        self.options = options
        self._template = template
        self.fatal_statements = FatalStatements()
        self.statements: weakref.WeakValueDictionary[int, PreparedQuery] = weakref.WeakValueDictionary()
        """By number, those that workers may know."""
        self.deaths = dict.fromkeys(WorkerEnd, 0)
        """Workers that have ended unasked, by reason."""
        self.replacements = 0
        """Workers that were started in the place of others."""
        self._count = count
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._workers: list[WorkerProcess] = []
        self._alone: set[WorkerProcess] = set()
        self._recorded: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()
        self._failed_at = 0.0
        self._closed = threading.Event()
        for _ in range(count):
            self._workers.append(self._start())
        threading.Thread(target=self._watch, name="workers", daemon=True).start()

    def list_workers(self) -> tuple[WorkerProcess, ...]:
        """Return the present workers."""
        with self._changed:
            return (*self._workers, *self._alone)

    def wait_opened(self, until: float) -> None:
        """Wait until the present workers have opened the tables that they open ahead.

        Args:
            until: when to stop waiting, in seconds of the monotonic clock.
        """
        for worker in self.list_workers():
            worker.has_opened.wait(max(until - time.monotonic(), 0.0))

    def next_number(self) -> int:
        """Return a number for a statement."""
        return next(self._numbers)

    @contextmanager
    def lease(
        self, statement: bytes, favourite: WorkerProcess | None = None, *, is_bound: bool = False
    ) -> Iterator[tuple[WorkerProcess, Lease]]:
        """Give a worker to a statement for some requests.

        Args:
            statement: name of the statement.
            favourite: worker that is taken if it has no more to do than others.
            is_bound: whether it is taken in any case, as long as it takes statements.

        Raises:
            UnavailableError: no worker gets ready.
            InvalidInputError: the statement has ended workers before.
        """
        is_alone = self.fatal_statements.must_be_alone(statement)
        worker = self._take_alone() if is_alone else self._take(favourite, is_bound=is_bound)
        lease: Lease | None = None
        try:
            lease = Lease(worker, statement, next(self._numbers))
            yield worker, lease
            if is_alone:
                self.fatal_statements.forget(statement)
        except (WorkerEndedError, WorkerLostError):
            worker.is_ready = False  # as its listener will notice in a moment
            self._record_interrupted(worker)
            raise
        finally:
            if lease is not None:
                lease.close()
            if is_alone:
                self._retire(worker)

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], control: RunControl) -> Any:  # noqa: ANN401 - of the function
        """Call a function in a worker; see `planner.bridge.run_control`.

        Raises:
            LanceGatewayError: it fails, or is stopped.
            WorkerFailedError: an unexpected error occurred in the worker.
        """
        return self.ask(CallFunction(function, arguments), control)

    def ask(self, request: CallFunction | ReadWrite, control: RunControl) -> Any:  # noqa: ANN401 - depends on the request
        """Return the answer to a request that is about no statement that workers know.

        Raises:
            LanceGatewayError: it fails, or is stopped.
            WorkerFailedError: an unexpected error occurred in the worker.
        """
        with self.lease(blake2b(encode(request), digest_size=16).digest()) as (_, lease):
            for answer in lease.ask(request, control):
                if isinstance(answer, Failed):
                    raise answer.to_error()
                if isinstance(answer, Answered):
                    return answer.value
        raise AssertionError

    def close(self) -> None:
        """End all workers."""
        self._closed.set()
        for worker in self.list_workers():
            worker.retire()
        for worker in self.list_workers():
            worker.join()

    def _start(self) -> WorkerProcess:
        return WorkerProcess(self._template, self.options, self._read_system, self._note_change)

    def _read_system(self, statement: int, table: str) -> object:
        query = self.statements.get(statement)
        if query is None:
            return NotFoundError("the statement has ended")
        try:
            return query.catalog.system_table(table).read(query.access)
        except LanceGatewayError as error:
            return copy_error(error)
        except Exception as error:  # whatever it is, the worker waits for an answer
            logger.exception("system table %s can't be read", table)
            return UnavailableError(f"system table {table!r} can't be read: {type(error).__name__}")

    def _take(self, favourite: WorkerProcess | None, *, is_bound: bool) -> WorkerProcess:
        until = time.monotonic() + _START_SECONDS
        with self._changed:
            while True:
                if self._closed.is_set():
                    raise UnavailableError("the gateway is stopping; run the query again elsewhere")
                able = [one for one in self._workers if one.is_ready and one.hung_since is None]
                if able:
                    ready = [one for one in able if one.resting_at is None] or able
                    least = min(ready, key=lambda one: len(one.running))
                    if (
                        favourite is not None
                        and favourite in ready
                        and (is_bound or len(favourite.running) <= len(least.running))
                    ):
                        return favourite
                    return least
                if not self._changed.wait(until - time.monotonic()):
                    raise UnavailableError(
                        f"no worker became ready within {_START_SECONDS:g} s: the log says why; try again"
                    )

    def _take_alone(self) -> WorkerProcess:
        worker = self._start()
        with self._changed:
            self._alone.add(worker)
            self._changed.wait_for(lambda: worker.is_ready or not worker.is_alive, _START_SECONDS)
        if not worker.is_ready:
            self._retire(worker)
            raise WorkerLostError("no worker became ready: the log says why; try again")
        return worker

    def _retire(self, worker: WorkerProcess) -> None:
        worker.retire()
        with self._changed:
            self._alone.discard(worker)

    def _note_change(self, worker: WorkerProcess) -> None:
        """Wake up those who wait for a worker, and replace one that has ended."""
        if not worker.is_ready and not self._closed.is_set():
            self._note_death(worker)
        with self._changed:
            self._changed.notify_all()

    def _record_interrupted(self, worker: WorkerProcess) -> None:
        """Record a death for the statements that a worker held when it ended, once."""
        with self._changed:
            is_known = worker in self._recorded
            self._recorded.add(worker)
        interrupted = worker.find_interrupted()
        if is_known or worker.was_retired:
            return
        self.deaths[worker.end] += 1
        logger.error(
            "worker %d has ended (%s) with %d requests", worker.pid, worker.exit_text, len(interrupted)
        )
        for lease in interrupted:
            was_alone = len(interrupted) == 1 and not worker.was_killed_by_others
            self.fatal_statements.record_death(lease.statement, worker.exit_text, was_alone=was_alone)

    def _replace(self, worker: WorkerProcess) -> None:
        """End a worker that has no statements, and start another one."""
        with self._changed:
            if worker not in self._workers or worker.running:
                return
            self._workers.remove(worker)
        worker.retire()
        self._start_another()

    def _start_another(self) -> None:
        replacement = self._start()
        with self._changed:
            self._workers.append(replacement)
            self.replacements += 1

    def _note_death(self, worker: WorkerProcess) -> None:
        self._record_interrupted(worker)
        with self._changed:
            if worker not in self._workers:
                return
            self._workers.remove(worker)
        pause = self._failed_at + _RESTART_SECONDS - time.monotonic()
        if pause > 0 and not worker.find_interrupted():
            self._closed.wait(pause)  # One that fails at its start must not fail all the time.
        self._failed_at = time.monotonic()
        if not self._closed.is_set():
            self._start_another()

    def _watch(self) -> None:
        """Look after abandoned statements, memory, and workers that hang."""
        while not self._closed.wait(_LOOK_SECONDS):
            now = time.monotonic()
            for worker in self.list_workers():
                hanging = False
                for lease in list(worker.running.values()):
                    if lease.abandoned_at is None or lease.drain():
                        continue
                    hanging = hanging or now - lease.abandoned_at > _HANG_SECONDS
                self._judge(worker, now, hanging=hanging)

    def _judge(self, worker: WorkerProcess, now: float, *, hanging: bool) -> None:
        limit = self.options.memory_bytes
        used = worker.read_memory_bytes()
        if used > limit:
            worker.kill(
                WorkerEnd.MEMORY, f"{used >> 20} MiB of memory, of {limit >> 20} MiB that it may have"
            )
            return
        if not hanging:
            worker.hung_since = None
            if not worker.check_rest(now):
                logger.warning("worker %d goes on with a statement that was stopped: ending it", worker.pid)
                self._replace(worker)
            return
        if worker.hung_since is None:
            worker.hung_since = now
            logger.warning("worker %d does not stop a statement", worker.pid)
        others = [one for one in list(worker.running.values()) if one.abandoned_at is None]
        if not others or now - worker.hung_since > _LAST_SECONDS:
            worker.kill(WorkerEnd.HANG, "a statement that could not be stopped")
