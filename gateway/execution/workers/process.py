"""One worker process, as the front process sees it."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

import pyarrow as pa

from lance_gateway.gateway.execution.workers.channel import Channel, ChannelClosedError
from lance_gateway.gateway.execution.workers.messages import (
    FINAL,
    Answer,
    CallFunction,
    Cancel,
    MeasureMemory,
    MemoryMeasured,
    OpenChannel,
    Opened,
    ReadSystemTable,
    ReadWrite,
    Ready,
    Request,
    SystemRows,
    WorkerOptions,
)
from lance_gateway.gateway.execution.workers.segments import SegmentReader, StoredBatch, Trimmed
from lance_gateway.gateway.execution.workers.template import Template
from lance_gateway.memwal.errors import LanceGatewayError, ResourcesExhaustedError, UnavailableError
from lance_gateway.planner.bridge.run_control import RunControl

logger = logging.getLogger(__name__)

_MAX_IDLE_CHANNELS = 16
_LOOK_SECONDS = 0.1
_MEASURE_SECONDS = 0.5
_GRACE_SECONDS = 1.0
"""How long a statement that was stopped may take to end, before its client is answered all the same."""
_TICKS = os.sysconf("SC_CLK_TCK")
_REST_SECONDS = 0.5
_IDLE_SHARE = 0.2

ReadSystem = Callable[[int, str], object]
"""Returns the rows of a system table for a statement, or the error."""


class WorkerEnd(Enum):
    """Why a worker ended unasked."""

    MEMORY = "memory"
    """It had more memory than it may have."""
    HANG = "hang"
    """It did not stop a statement."""
    CRASH = "crash"
    """By itself."""
    KILLED = "killed"
    """Somebody else killed it, such as the kernel for want of memory."""


class WorkerLostError(UnavailableError):
    """The process that ran a statement has ended, for whatever reason; the statement may be run again."""


class WorkerEndedError(ResourcesExhaustedError):
    """The statement has ended the process that ran it."""


class WorkerProcess:
    """A worker process.

    Attributes:
        running: names of the statements that it runs.
        is_ready: whether it takes statements.
        hung_since: when it was found to hang, in seconds of the monotonic clock; None if it was not.
        why: why it was killed; "" if it was not.
        resting_at: since when it takes no statements, though it could; None if it takes them.
        was_retired: whether it was ended since it was not needed any more.
        has_opened: set when it has opened the tables that it opens ahead, or has ended.

    Args:
        template: that it is forked from.
        options: for the worker.
        read_system: reads system tables for it.
        on_change: called when it gets ready, and when it has ended.

    Raises:
        UnavailableError: the template has ended.
    """

    def __init__(
        self,
        template: Template,
        options: WorkerOptions,
        read_system: ReadSystem,
        on_change: Callable[["WorkerProcess"], None],
    ) -> None:
        self.running: dict[int, Lease] = {}
        self.is_ready = False
        self.hung_since: float | None = None
        self.why = ""
        self._killed_for: WorkerEnd | None = None
        self.was_retired = False
        self.has_opened = threading.Event()
        self.resting_at: float | None = None
        self._cpu_before: float | None = None
        self._read_system = read_system
        self._on_change = on_change
        self._exit_code = 0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._interrupted: tuple[Lease, ...] | None = None
        self._idle: list[tuple[Channel, SegmentReader]] = []
        self._control, theirs = Channel.create_pair()
        with theirs:
            self._process = template.start(options, theirs)
        self._listener = threading.Thread(target=self._listen, name="worker", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process runs."""
        return not self._ended.is_set()

    @property
    def was_killed_by_others(self) -> bool:
        """Return whether somebody else killed the process, such as the kernel for want of memory."""
        return not self.why and self._exit_code == -signal.SIGKILL

    @property
    def end(self) -> WorkerEnd:
        """Return why the process has ended, if it was not retired."""
        if self._killed_for is not None:
            return self._killed_for
        return WorkerEnd.KILLED if self.was_killed_by_others else WorkerEnd.CRASH

    @property
    def exit_text(self) -> str:
        """Return how the process ended, for messages."""
        code = self._exit_code
        return self.why or (f"signal {-code}" if code < 0 else f"exit code {code}")

    @property
    def state(self) -> str:
        """Return "starting", "ready", "resting", "hanging" or "ended"."""
        if not self.is_alive:
            return "ended"
        if self.hung_since is not None:
            return "hanging"
        if self.resting_at is not None:
            return "resting"
        return "ready" if self.is_ready else "starting"

    def read_memory_bytes(self) -> int:
        """Return the memory of the process that is not shared with others."""
        with suppress(OSError, ValueError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) << 10
        return 0

    def read_cpu_seconds(self) -> float:
        """Return the processor time that the process has used."""
        with suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS
        return 0.0

    def rest(self) -> None:
        """Take no statements until the process is found to be idle: one that was stopped may go on."""
        self.resting_at, self._cpu_before = time.monotonic(), None

    def check_rest(self, now: float) -> bool:
        """Return False if the process computes though it has nothing to do.

        Args:
            now: seconds of the monotonic clock.
        """
        if self.resting_at is None:
            return True
        if self.running:
            self._cpu_before = None
            return True
        used = self.read_cpu_seconds()
        if self._cpu_before is None:
            self.resting_at, self._cpu_before = now, used
            return True
        elapsed = now - self.resting_at
        if elapsed < _REST_SECONDS:
            return True
        is_idle = used - self._cpu_before < elapsed * _IDLE_SHARE
        if is_idle:
            self.resting_at = None
        return is_idle

    def kill(self, end: WorkerEnd, why: str) -> None:
        """End the process at once, unless it has ended by itself."""
        if self.is_alive:
            self.why = self.why or why
            self._killed_for = self._killed_for or end
            self._process.kill()

    def retire(self) -> None:
        """End the process, which is not needed any more."""
        self.was_retired = self.is_alive
        self._process.kill()

    def find_interrupted(self) -> tuple["Lease", ...]:
        """Return the requests that a process held when it was first found to have ended."""
        with self._lock:
            if self._interrupted is None:
                self._interrupted = tuple(self.running.values())
            return self._interrupted

    def join(self) -> None:
        """Wait for the end of the process, which was killed."""
        self._listener.join()

    def open_channel(self) -> tuple[Channel, SegmentReader]:
        """Return a channel that nobody uses.

        Raises:
            WorkerLostError: the process has ended.
        """
        with self._lock:
            if self._idle:
                return self._idle.pop()
        ours, theirs = Channel.create_pair()
        try:
            self._control.send(OpenChannel(), theirs.fileno())
        except ChannelClosedError:
            raise self.died_error() from None
        finally:
            theirs.close()
        return ours, SegmentReader()

    def keep_channel(self, channel: Channel, segments: SegmentReader) -> None:
        """Keep a channel for the next statement."""
        with self._lock:
            if self.is_ready and len(self._idle) < _MAX_IDLE_CHANNELS:
                self._idle.append((channel, segments))
                return
        channel.close()

    def died_error(self) -> LanceGatewayError:
        """Return the error for a statement that the process held when it ended."""
        is_alone = len(self.find_interrupted()) == 1
        self._ended.wait(_GRACE_SECONDS)
        if is_alone and not self.was_killed_by_others:
            return WorkerEndedError(
                f"the statement has ended the process that ran it ({self.exit_text}), and changed nothing: "
                "ask for less at once; if it is sent again, it runs in a process of its own"
            )
        return WorkerLostError(
            f"the process that ran the statement has ended ({self.exit_text}); it changed nothing, and may "
            "be sent again"
        )

    def _listen(self) -> None:
        with suppress(ChannelClosedError):
            while True:
                match self._control.receive():
                    case Ready():
                        self.is_ready = True
                        self._on_change(self)
                    case Opened():
                        self.has_opened.set()
                    case ReadSystemTable(request, statement, table):
                        # Not here: the rows may take a while.
                        threading.Thread(
                            target=self._send_rows, args=(request, statement, table), daemon=True
                        ).start()
        self._control.close()
        self._exit_code = self._process.wait()
        self._ended.set()
        self.has_opened.set()
        self.is_ready = False
        with self._lock:
            idle, self._idle = self._idle, []
        for channel, _ in idle:
            channel.close()
        self._on_change(self)

    def _send_rows(self, request: int, statement: int, table: str) -> None:
        with suppress(ChannelClosedError):
            self._control.send(SystemRows(request, self._read_system(statement, table)))


class Lease:
    """One request to a worker, from its first message to its last.

    Args:
        worker: that is asked.
        statement: name of the statement, for those who look for what a worker was doing when it died.
        number: of the lease.
    """

    def __init__(self, worker: WorkerProcess, statement: bytes, number: int) -> None:
        self.statement = statement
        self._worker = worker
        self._number = number
        self.channel, self.segments = worker.open_channel()
        self._is_over = True
        self._grace = _GRACE_SECONDS
        self.abandoned_at: float | None = None
        worker.running[number] = self

    def ask(self, request: Request, control: RunControl) -> Iterator[Answer]:
        """Send a request, and yield its answers; the last one is final.

        Raises:
            LanceGatewayError: the control was cancelled, or the worker has died.
        """
        self._is_over = False
        # Neither looks whether it was stopped: there is nothing to wait for.
        self._grace = 0.0 if isinstance(request, CallFunction | ReadWrite) else _GRACE_SECONDS
        cancelled_at: float | None = None
        measure_at = time.monotonic() + _MEASURE_SECONDS
        try:
            self.channel.send(request)
            while not self._is_over:
                if (now := time.monotonic()) > measure_at:
                    self.channel.send(MeasureMemory())
                    measure_at = now + _MEASURE_SECONDS
                if not self.channel.is_ready(_LOOK_SECONDS):
                    self.segments.ask_for_more()
                    cancelled_at = self._follow(control, cancelled_at)
                    continue
                if cancelled_at is None and control.error is not None:
                    cancelled_at = self._follow(control, None)
                answer = self.channel.receive()
                self._is_over = isinstance(answer, FINAL)
                if isinstance(answer, MemoryMeasured):
                    control.memory.note(answer.use)
                    continue
                if control.error is None and not isinstance(answer, Trimmed):
                    yield answer
                else:
                    self.segments.release(answer, self.channel.take_descriptor)
        except ChannelClosedError:
            self._is_over = True
            raise self._worker.died_error() from None
        control.check()

    def read(self, stored: StoredBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return a batch that an answer tells of."""
        return self.segments.read(stored, self.channel.take_descriptor, schema)

    def close(self) -> None:
        """End the request; one that is not over is stopped, and its channel watched until it is."""
        if not self._is_over:
            with suppress(ChannelClosedError):
                self.channel.send(Cancel(UnavailableError("the client has left")))
            self._worker.rest()
            self.abandoned_at = time.monotonic()
            return
        self._worker.running.pop(self._number, None)
        self._worker.keep_channel(self.channel, self.segments)

    def drain(self) -> bool:
        """Read what an abandoned request still answers; return whether it is over."""
        try:
            while not self._is_over and self.channel.is_ready(0):
                self._is_over = isinstance(answer := self.channel.receive(), FINAL)
                self.segments.release(answer, self.channel.take_descriptor)
        except ChannelClosedError:
            self._is_over = True
        if self._is_over:
            self.close()
        return self._is_over

    def _follow(self, control: RunControl, cancelled_at: float | None) -> float | None:
        """Pass on that the statement was stopped; give up on a worker that does not stop it.

        Raises:
            LanceGatewayError: why it was stopped.
        """
        if control.error is None:
            return None
        now = time.monotonic()
        if cancelled_at is None:
            self.channel.send(Cancel(control.error))
            self._worker.rest()
            cancelled_at = now
        if now - cancelled_at >= self._grace:
            raise control.error
        return cancelled_at
