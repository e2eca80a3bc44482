"""Controls one execution of a statement: stops it, and reports what it reads.

Small steps of DataFusion over a client's text run in this process, or in one that may end: a gateway with
worker processes sets the runner when it starts. The functions of such steps get and return values that can be
pickled, and depend on nothing else.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, TypeVarTuple

import pyarrow as pa
from datafusion import DataFrame, RecordBatch

from lance_gateway.execnodes import ExecNode, MeasuredNode, MetricsSet
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, PanicError, is_panic
from lance_gateway.planner.bridge.memory_use import MemoryMeter
from lance_gateway.planner.sql.text.limits import find_makers

Arguments = TypeVarTuple("Arguments")
T = TypeVar("T")
# What Rust's own libraries say when they are asked for more memory than there can be.
_TOO_LARGE = re.compile(r"capacity overflow|LayoutError|with overflow|offset overflow")
# What the functions that lengthen lists say of an end that is not an offset.
_NO_OFFSET = re.compile(r"`Option::unwrap\(\)`")
_RESIZERS = frozenset({"array_resize", "list_resize"})
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


@contextmanager
def describe_panics(sql: str) -> Iterator[None]:
    """Turn a panic of DataFusion that is the statement's fault into an error of the statement.

    That are those about the size of a value, in a statement that calls functions which make values of a given
    length. Any other panic passes: nothing in it says whose fault it is.

    Args:
        sql: the statement.

    Raises:
        InvalidInputError: in place of the panic.
    """
    try:
        yield
    except BaseException as error:
        makers = _find_culprits(sql, str(error)) if is_panic(error) else ()
        if not makers:
            raise
        raise InvalidInputError(describe_too_large(makers)) from error


def describe_too_large(functions: Iterable[str]) -> str:
    """Explain that one of some functions was to make too large a value."""
    names = " or ".join(map(repr, functions))
    return f"the function {names} was asked for a value larger than any can be: ask for a smaller one"


def _find_culprits(sql: str, panic: str) -> Sequence[str]:
    """Return the functions of a statement that may have been asked for too large a value; () if none was."""
    makers = find_makers(sql)
    if _NO_OFFSET.search(panic):
        return [name for name in makers if name in _RESIZERS]
    return makers if _TOO_LARGE.search(panic) else ()


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
        columns: that were scanned; None if rows were searched, or looked up by their keys.
    """

    table: str
    regions_kept: int
    regions: int
    is_restricted: bool
    search: str | None = None
    columns: tuple[str, ...] | None = None


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
        self.transaction: Any = None
        """The `Transaction` (`planner.writes.transactions`) that the execution is part of; in workers, what
        they were told of it. None for none."""
        self.is_writing = False
        """Whether the execution has begun to write."""
        self.memory = MemoryMeter()
        self._lock = threading.Lock()
        self._waiting: int | None = None

    @property
    def reads(self) -> tuple[TableRead, ...]:
        """Return what was read so far."""
        return _list_reads(self.scans)

    def end(self, *, keeps_error: bool = False) -> tuple[tuple[TableRead, ...], tuple[RunningScan, ...]]:
        """Release snapshots and the traceback of an error; return what was read, and the scans.

        Args:
            keeps_error: where a thread is still at work, which has to stop; it ends the control again.
        """
        scans = self.scans
        reads = _list_reads(scans)
        self.runs = []
        if not keeps_error:
            self.error = None
        return reads, scans

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


def _list_reads(scans: Sequence[RunningScan]) -> tuple[TableRead, ...]:
    return tuple(read for scan in scans if (read := scan.read) is not None)


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
    return _measure(frame, control, streams)


def _measure(
    frame: DataFrame, control: RunControl, streams: list[Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    number = control.memory.begin(frame)
    del frame  # which the traceback of an error would keep
    try:
        yield from control.wait_for_each(streams)
    finally:
        control.memory.end(number)


Runner = Callable[[Callable[..., Any], tuple[Any, ...], RunControl], Any]
"""Runs a function with its arguments, under a control."""


def _run_in_this_process(
    function: Callable[..., Any], arguments: tuple[Any, ...], control: RunControl
) -> Any:  # noqa: ANN401 - of the function
    """Run a function in this process."""
    # No snapshot can change under it: what it reads is in memory.
    return control.run_uninterrupted(lambda: function(*arguments))


_runner: Runner = _run_in_this_process


def set_runner(runner: Runner) -> None:
    """Set what runs the functions of this process from now on."""
    global _runner  # noqa: PLW0603 - of the process, like its workers
    _runner = runner


def run_isolated(
    control: RunControl | None, function: Callable[[*Arguments], T], *arguments: *Arguments
) -> T:
    """Run a function in a worker process, if there are any.

    Args:
        control: stops it; None if nobody will.
        function: of a module, or a method of an object that can be pickled.
        arguments: of the function.

    Raises:
        Exception: whatever the function raises.
        LanceGatewayError: it was stopped.
    """
    result: T = _runner(function, arguments, control or RunControl())
    return result
