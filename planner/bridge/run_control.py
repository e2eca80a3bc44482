"""Controls one execution of a statement: stops it, and reports what it reads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa
from datafusion import DataFrame, RecordBatch

from execnodes import ExecNode, MeasuredNode, MetricsSet
from memwal.errors import LanceGatewayError, PanicError, is_panic

T = TypeVar("T")
SEARCH_KINDS = ("vector", "text", "hybrid")


def raise_panics(step: Callable[[], T]) -> T:
    """Run one step of DataFusion; a panic becomes an exception that can be handled like others.

    Raises:
        PanicError: DataFusion panicked.
    """
    try:
        return step()
    except BaseException as error:
        if not is_panic(error):
            raise
        raise PanicError(f"DataFusion panicked: {error}") from None


class _Interrupted(BaseException):
    """Raised in a thread that waits for DataFusion to interrupt it; never leaves `RunControl.wait`."""


@dataclass(frozen=True, slots=True)
class TableRead:
    """What was read for one table reference.

    Attributes:
        table: its name.
        regions_kept: number of regions that were read.
        regions: number of regions of the table.
        is_restricted: whether an access policy applied; the numbers then include hidden rows.
        search: one of `SEARCH_KINDS`; None if the table was scanned.
    """

    table: str
    regions_kept: int
    regions: int
    is_restricted: bool
    search: str | None = None


class RunningScan(Protocol):
    """A table reference of a running statement."""

    @property
    def read(self) -> TableRead | None:
        """Return what was read; None for a scan that never ran."""

    @property
    def planned_tree(self) -> ExecNode | None:
        """Return the exec nodes that read the rows; None if it ran in no process, or in another one."""

    def measure(self, metrics: MetricsSet) -> MeasuredNode | None:
        """Return what the exec nodes did; None for a scan that never ran, or was not measured."""


class Run(Protocol):
    """The scans of one statement."""

    @property
    def scans(self) -> Sequence[RunningScan]:
        """Return one scan per table reference that is read."""


class RunControl:
    """Controls one execution; safe to share between threads.

    Args:
        metrics: collects metrics of the exec nodes, if they are needed.
    """

    def __init__(self, metrics: MetricsSet | None = None) -> None:
        self.metrics = metrics
        self.runs: list[Run] = []
        self.error: LanceGatewayError | None = None
        """The reason why the execution was stopped; None if it was not."""
        self.is_writing = False
        """Whether the execution has begun to write."""
        self._lock = threading.Lock()
        self._waiting: int | None = None

    @property
    def reads(self) -> tuple[TableRead, ...]:
        """Return what was read so far."""
        return tuple(read for scan in self.scans if (read := scan.read) is not None)

    def end(self, *, keeps_error: bool = False) -> tuple[tuple[TableRead, ...], tuple[RunningScan, ...]]:
        """Release snapshots and the traceback of an error; return what was read, and the scans.

        Args:
            keeps_error: where a thread is still at work, which has to stop; it ends the control again.
        """
        result = self.reads, self.scans
        self.runs = []
        if not keeps_error:
            self.error = None
        return result

    def begin_writing(self) -> None:
        """Say that the execution writes from now on.

        Raises:
            LanceGatewayError: the execution was stopped before.
        """
        with self._lock:
            self.check()
            self.is_writing = True

    @property
    def scans(self) -> tuple[RunningScan, ...]:
        """Return the scans of all runs so far."""
        return tuple(scan for run in self.runs for scan in run.scans)

    def cancel(self, error: LanceGatewayError) -> None:
        """Stop the execution: within about a second, its reader gets the error of the first call."""
        with self._lock:
            if self.error is None:
                self.error = error
            if self._waiting is not None:
                # DataFusion's bindings run Python every second while they wait for a batch: a pending
                # exception of the thread ends the wait, and dropping the stream stops the execution.
                _raise_in(self._waiting, _Interrupted)

    def check(self) -> None:
        """Raise the error of an execution that was stopped; called between batches.

        Raises:
            LanceGatewayError: the execution was stopped.
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
                return raise_panics(step)
            finally:
                self._end_wait()
        except _Interrupted:
            self._end_wait()
        except Exception:
            # A wait that was interrupted inside a Python node comes back as DataFusion's error.
            if self.error is None:
                raise
        # Not raised in a handler above: its traceback would keep the stream, and the execution running.
        self.check()
        raise AssertionError

    def _end_wait(self) -> None:
        with self._lock:
            if self._waiting is not None and self.error is not None:
                # A pending exception would be raised in later code of the thread.
                _raise_in(self._waiting, None)
            self._waiting = None

    def run_uninterrupted(self, step: Callable[[], T]) -> T:
        """Run a step that DataFusion calls, maybe inside `wait`, without interrupting it.

        State that statements share, such as caches and locks, must not be left inconsistent.

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
            result = raise_panics(step)
        finally:
            if interruptible:
                with self._lock:
                    self._waiting = thread_id
        if self.error is not None:
            # The traceback of the next error has this frame, and must not keep a stream.
            del result
            self.check()
        return result

    def iterate_uninterrupted(self, open_steps: Callable[[], Iterator[T]]) -> Iterator[T]:
        """Yield the items of an iterator up to its first None, without interrupting its steps."""
        steps: Iterator[T] | None = None

        def step() -> T | None:
            nonlocal steps
            if steps is None:
                steps = open_steps()
            return next(steps, None)

        while (item := self.run_uninterrupted(step)) is not None:
            yield item

    def wait_for_each(self, iterators: list[Iterator[T]]) -> Iterator[T]:
        """Yield the items of the only iterator in a list; cancelling interrupts each of its steps.

        The list is cleared at the end, since the traceback of an error keeps the variables of this function.
        """
        try:
            while (item := self.wait(lambda: next(iterators[0], None))) is not None:
                yield item
        finally:
            iterators.clear()


def _raise_in(thread_id: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread as soon as it runs Python; None removes a pending one."""
    pending = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), pending)


def stream_batches(frame: DataFrame, control: RunControl) -> Iterator[pa.RecordBatch]:
    """Execute a plan, and return its batches.

    DataFusion's own stream is used, not an Arrow one: only dropping the former stops the execution.
    """
    # Physical planning is not interrupted: it panics if a leaf fails to give its columns.
    stream = control.run_uninterrupted(frame.execute_stream)
    streams: list[Iterator[pa.RecordBatch]] = [map(RecordBatch.to_pyarrow, stream)]
    del stream  # only the list keeps it, which `wait_for_each` clears
    return control.wait_for_each(streams)
