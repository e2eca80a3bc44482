"""One execution of a statement as its owner sees it: it can be stopped, and tells what it reads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from execnodes import ExecNode, MetricsSet
from memwal.errors import LanceGatewayError

T = TypeVar("T")
SEARCH_KINDS = ("vector", "text", "hybrid")


class _Interrupted(BaseException):
    """Raised in a thread that waits for DataFusion, to wake it up; never leaves `RunControl.wait`."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """What one table reference came down to.

    Attributes:
        table: its name.
        regions_kept: regions that were read.
        regions: regions that the table has.
        is_restricted: whether an access policy applied; the numbers tell of what it hides, then.
        search: one of `SEARCH_KINDS` where rows were found by a search; None where they were read.
    """

    table: str
    regions_kept: int
    regions: int
    is_restricted: bool
    search: str | None = None


class RunningScan(Protocol):
    """A table reference of a running statement, as its owner sees it."""

    @property
    def read(self) -> TableRead | None:
        """What it came down to; None for a scan that never ran."""

    @property
    def planned_tree(self) -> ExecNode | None:
        """The exec nodes that read the rows; None for a scan that never ran."""


class Run(Protocol):
    """The scans of one statement."""

    @property
    def scans(self) -> Sequence[RunningScan]:
        """One per table reference that is read."""


class RunControl:
    """Safe to share between threads; serves one execution.

    Args:
        metrics: collects what the nodes do, where somebody asks.
    """

    def __init__(self, metrics: MetricsSet | None = None) -> None:
        self.metrics = metrics
        self.runs: list[Run] = []
        self.error: LanceGatewayError | None = None
        """Why the execution was stopped; None while it may go on."""
        self._lock = threading.Lock()
        self._waiting: int | None = None

    @property
    def reads(self) -> tuple[TableRead, ...]:
        """What was read so far."""
        return tuple(read for scan in self.scans if (read := scan.read) is not None)

    def end(self) -> tuple[tuple[TableRead, ...], tuple[RunningScan, ...]]:
        """Let go of snapshots, and of what an error's traceback holds; return what was read, and by what."""
        ended = self.reads, self.scans
        self.runs = []
        self.error = None
        return ended

    @property
    def scans(self) -> tuple[RunningScan, ...]:
        """The table references that were read so far."""
        return tuple(scan for run in self.runs for scan in run.scans)

    def cancel(self, error: LanceGatewayError) -> None:
        """Stop the execution: within about a second its reader meets `error`. The first call decides."""
        with self._lock:
            if self.error is None:
                self.error = error
            if self._waiting is not None:
                # DataFusion's bindings run a bit of Python every second while they wait for a batch: an
                # exception that is pending for the thread ends the wait, and dropping the stream the work.
                _raise_in(self._waiting, _Interrupted)

    def check(self) -> None:
        """Between two batches: may the execution go on?

        Raises:
            LanceGatewayError: it was stopped.
        """
        if self.error is not None:
            raise self.error

    def wait(self, step: Callable[[], T]) -> T:
        """Run one step of DataFusion that may take long; cancelling interrupts it.

        Raises:
            LanceGatewayError: the execution was stopped.
        """
        with self._lock:
            self.check()
            self._waiting = threading.get_ident()
        try:
            try:
                return step()
            finally:
                self._end_wait()
        except _Interrupted:
            self._end_wait()
        except Exception:
            # A wait that was interrupted inside a Python node comes back as DataFusion's error.
            if self.error is None:
                raise
        # Not while one of them is handled: its traceback holds the stream, and the work would go on.
        self.check()
        raise AssertionError

    def _end_wait(self) -> None:
        with self._lock:
            if self._waiting is not None and self.error is not None:
                # What is pending would meet whatever the thread does next.
                _raise_in(self._waiting, None)
            self._waiting = None

    def undisturbed(self, step: Callable[[], T]) -> T:
        """Run a step of our own that DataFusion asks for, maybe inside `wait`: cancelling does not tear it.

        What others share (caches, locks, what several statements wait for) must never be left half made.

        Raises:
            LanceGatewayError: the execution was stopped, before the step or during it.
        """
        thread_id = threading.get_ident()
        with self._lock:
            self.check()
            interruptible = self._waiting == thread_id
            if interruptible:
                self._waiting = None
        try:
            made = step()
        finally:
            if interruptible:
                with self._lock:
                    self._waiting = thread_id
        if self.error is not None:
            # The traceback of what is raised next holds this frame, and must not hold a stream.
            del made
            self.check()
        return made

    def undisturbed_each(self, open_steps: Callable[[], Iterator[T]]) -> Iterator[T]:
        """Yield what an iterator of our own gives up to its first None: each of its steps is undisturbed."""
        steps: Iterator[T] | None = None

        def step() -> T | None:
            nonlocal steps
            if steps is None:
                steps = open_steps()
            return next(steps, None)

        while (made := self.undisturbed(step)) is not None:
            yield made

    def wait_for_each(self, held: list[Iterator[T]]) -> Iterator[T]:
        """Yield what the only iterator in a list gives; cancelling interrupts each of its steps.

        The list is emptied at the end: the traceback of an error holds the variables of this function.
        """
        try:
            while (made := self.wait(lambda: next(held[0], None))) is not None:
                yield made
        finally:
            held.clear()


def _raise_in(thread_id: int, kind: type[BaseException] | None) -> None:
    """Let `kind` be raised in a thread as soon as it runs Python; None takes back what is pending."""
    pending = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), pending)
