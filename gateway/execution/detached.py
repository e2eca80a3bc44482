"""Threads for work that nothing interrupts, so that its call can end before it does.

A thread that waits for storage, or for a lock behind which another one waits, can't be stopped. So the
thread that serves the call hands such work to another one and waits: for its end, or for the statement to be
stopped. In the second case the client is answered, and the work is abandoned: it goes on until storage
answers or its time limits pass, and stops at its next look at the statement's control.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Generic, TypeVar

from lance_gateway.gateway.execution.query import Query, run_here, serve_in_this_thread, stop_serving
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError, copy_error

T = TypeVar("T")
# How often the thread of a call looks whether its statement was stopped.
_LOOK_SECONDS: Final = 0.1
# How long work may take to end by itself when its statement is stopped, which is the cleaner way.
_GRACE_SECONDS: Final = 0.4
# The same for work that writes: afterwards nobody can tell its client what was written.
_WRITING_GRACE_SECONDS: Final = 5.0
_MAX_ABANDONED: Final = 64
_IDLE_SECONDS: Final = 60.0


class DetachedSteps:
    """Runs work of statements in threads of its own, which are kept for a while; safe to share."""

    def __init__(self) -> None:
        self._idle: deque[_Thread] = deque()
        self._lock = threading.Lock()
        self._abandoned = 0

    def run(self, query: Query, step: Callable[[], T], on_abandoned: Callable[[], object] | None = None) -> T:
        """Run a step, and wait until it ends or its statement is stopped.

        Args:
            query: the statement.
            step: may call `query.relay` for what only the calling thread may do.
            on_abandoned: is called behind a step that was abandoned, in its thread.

        Raises:
            LanceGatewayError: an error of the step; or the statement was stopped.
            UnavailableError: too many abandoned steps are still at work.
        """
        if self._abandoned >= _MAX_ABANDONED:
            raise UnavailableError(
                f"the work of {self._abandoned} statements that were stopped still waits for storage, which "
                "is as many as may: try again when storage answers"
            )
        task = _Task(query, step, on_abandoned or _do_nothing)
        query.relay = task.relay
        self._take_thread().start(task)
        try:
            return self._wait(task)
        finally:
            if not query.is_abandoned:
                query.relay = run_here

    def iterate(self, query: Query, steps: Generator[T]) -> Iterator[T]:
        """Yield the items of a generator up to its first None, each step as `run` does."""
        try:
            while (item := self.run(query, lambda: next(steps, None), steps.close)) is not None:
                yield item
        finally:
            if not query.is_abandoned:  # otherwise its thread closes it
                steps.close()

    def put_back(self, thread: "_Thread") -> None:
        """Keep a thread that has ended its work."""
        with self._lock:
            self._idle.append(thread)

    def discard(self, thread: "_Thread") -> bool:
        """Forget a thread that was idle for long; return False if it was just taken."""
        with self._lock:
            try:
                self._idle.remove(thread)
            except ValueError:
                return False
            return True

    def count_abandoned(self, change: int) -> None:
        """Count a step that is abandoned (1), or has ended after all (-1)."""
        with self._lock:
            self._abandoned += change

    def _take_thread(self) -> "_Thread":
        with self._lock:
            # The one that worked last: the others may become idle enough to end.
            return self._idle.pop() if self._idle else _Thread(self)

    def _wait(self, task: "_Task[T]") -> T:
        control, waited = task.query.control, 0.0
        while True:
            if task.signal.acquire(timeout=_LOOK_SECONDS):
                if task.is_done:
                    return task.take_result()
                task.answer_relay()
                continue
            if control.error is None:
                continue
            waited += _LOOK_SECONDS
            grace = _WRITING_GRACE_SECONDS if control.is_writing else _GRACE_SECONDS
            if waited >= grace and task.abandon():
                self.count_abandoned(1)
                raise _describe_abandoned(task.query, control.error)


class _Task(Generic[T]):
    """One step, between the thread that serves the call and the one that does the work."""

    def __init__(self, query: Query, step: Callable[[], T], on_abandoned: Callable[[], object]) -> None:
        self.query = query
        self.signal = threading.Lock()
        """Released for the waiting thread when the step has ended, or asks for something."""
        self.signal.acquire()
        self.is_done = False
        self._step: Callable[[], T] | None = step
        self._on_abandoned = on_abandoned
        self._lock = threading.Lock()
        self._asked: Callable[[], Any] | None = None
        self._replied = threading.Lock()
        self._replied.acquire()
        self._reply: tuple[Any, BaseException | None] = (None, None)
        self._result: T | None = None
        self._error: BaseException | None = None

    def work(self) -> bool:
        """Run the step in the calling thread; return whether it was abandoned meanwhile."""
        assert self._step is not None  # noqa: S101 - a task is worked on once
        try:
            self._result = self._step()
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            self._error = error
        with self._lock:
            self._step = None
            self.is_done = True
            is_abandoned = self.query.is_abandoned
        if not is_abandoned:
            self.signal.release()
            return False
        self._result = self._error = None
        with contextlib.suppress(Exception):  # nobody is left to be told
            self._on_abandoned()
        self.query.control.end()
        return True

    def relay(self, function: Callable[[], T]) -> T:
        """Run a function in the thread that serves the call, and return what it returns.

        Raises:
            LanceGatewayError: the call has ended.
        """
        with self._lock:
            if self.query.is_abandoned:
                self.query.control.check()
            self._asked = function
        self.signal.release()
        self._replied.acquire()
        (result, error), self._reply = self._reply, (None, None)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def answer_relay(self) -> None:
        """Do what the step asks for."""
        function = self._asked
        assert function is not None  # noqa: S101 - the signal says so
        try:
            self._reply = function(), None
        except BaseException as error:  # noqa: BLE001 - raised again in the step
            self._reply = None, error
        self._asked = None
        self._replied.release()

    def abandon(self) -> bool:
        """Leave the step to itself; return False if it has ended, or asks for something."""
        with self._lock:
            if self.is_done or self._asked is not None:
                return False
            self.query.is_abandoned = True
            return True

    def take_result(self) -> T:
        """Return what the step returned, or raise what it raised."""
        (result, self._result), (error, self._error) = (self._result, None), (self._error, None)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        return result  # type: ignore[return-value]


class _Thread:
    """A thread."""

    def __init__(self, steps: DetachedSteps) -> None:
        self._steps = steps
        self._task: _Task[Any] | None = None
        self._wake = threading.Lock()
        self._wake.acquire()
        threading.Thread(target=self._run, name="work", daemon=True).start()

    def start(self, task: _Task[Any]) -> None:
        """Begin a step."""
        self._task = task
        self._wake.release()

    def _run(self) -> None:
        thread = threading.get_ident()
        while True:
            if not self._wake.acquire(timeout=_IDLE_SECONDS):
                if self._steps.discard(self):
                    return
                continue
            task, self._task = self._task, None
            assert task is not None  # noqa: S101 - `start` sets it
            query = task.query
            serve_in_this_thread(query)
            try:
                if task.work():
                    self._steps.count_abandoned(-1)
            finally:
                stop_serving(thread, query)
            del task, query
            self._steps.put_back(self)


def _describe_abandoned(query: Query, error: LanceGatewayError) -> LanceGatewayError:
    """Return a copy of an error, since its traceback must not keep what the work holds."""
    if query.control.is_writing:
        note = (
            "it had begun to write, and whether its rows arrive is not known: look, or send it again if the "
            "table has a primary key"
        )
    else:
        note = f"it was still waiting for storage or a plan in its phase {query.phase.value!r}"
    return copy_error(error, f"{error}; {note}")


def _do_nothing() -> None:
    pass
