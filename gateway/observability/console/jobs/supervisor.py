"""The jobs that users have started on this gateway, each in a process: bounded, and ended with it."""

import json
import logging
import os
import secrets
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import IO, Any, Final, TypeAlias

from lance_gateway.gateway.observability.console.jobs.commands import (
    JobKind,
    JobSettings,
    build_arguments,
    build_environment,
)
from lance_gateway.memwal.errors import (
    AlreadyExistsError,
    NotFoundError,
    PreconditionError,
    ResourcesExhaustedError,
    UnavailableError,
)
from lance_gateway.memwal.storage.table_names import TableName

_MAX_REPORT_BYTES: Final = 1 << 20
_MAX_LINES: Final = 50
_MAX_LINE_BYTES: Final = 2_000
_READ_BYTES: Final = 1 << 16
GRACE_SECONDS: Final = 10.0
"""How long a process may take to end in order: it can't be interrupted amid a call of Lance."""


class Child:
    """A process with a session of its own, whose output is kept to a bound.

    Args:
        arguments: of its command line.
        environment: all of its variables.
        shared: numbers of open files that it has, too.

    Raises:
        OSError: it can't be started.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], shared: Sequence[int] = ()
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the gateway's own command line
            arguments,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=shared,
        )
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)
        self._output = bytearray()
        self._is_complete = True
        streams = ((self._keep_output, self._process.stdout), (self._keep_lines, self._process.stderr))
        self._readers = [
            threading.Thread(target=keep, args=(stream,), name="job", daemon=True) for keep, stream in streams
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines that it wrote on stderr."""
        return tuple(self._lines)

    def read_report(self) -> dict[str, Any] | None:
        """Return the JSON object that it wrote on stdout; None where it wrote none, or more than is kept."""
        with suppress(ValueError):
            report = json.loads(self._output) if self._is_complete else None
            return report if isinstance(report, dict) else None
        return None

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code of the process and its output complete; None if it goes on after a while."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """End the process and what it started: in order if it does so in time, and by force otherwise."""
        self._signal(signal.SIGINT)
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # Once it was waited for, another process may have its number.
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _keep_output(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read(_READ_BYTES):
                self._is_complete = len(self._output) + len(chunk) <= _MAX_REPORT_BYTES
                if not self._is_complete:
                    self._output.clear()
                    break
                self._output += chunk
            while stream.read(_READ_BYTES):
                pass

    def _keep_lines(self, stream: IO[bytes]) -> None:
        with stream:
            # What is longer than a line may be comes in several.
            while line := stream.readline(_MAX_LINE_BYTES):
                self._lines.append(line.decode(errors="replace").rstrip())


_MAX_KEPT: Final = 20
_STOP_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)

CreateChild: TypeAlias = Callable[[Sequence[str], Mapping[str, str], Sequence[int]], Child]


class JobState(Enum):
    """States of a job; all but RUNNING are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"


@dataclass(slots=True, eq=False)
class StartedJob:
    """A job that runs or has run; only the thread that watches it changes its state.

    Attributes:
        job_id: nobody guesses it.
        kind: what it does.
        table: of which table.
        user: who started it.
        confirms: the look for garbage whose findings it removes; None where it removes none.
        child: its process.
        started_at: when.
        state: what became of it.
        finished_at: when it ended.
        report: what it says that it has done or found; None until then.
        stopped_as: what it will be once it was stopped; None where nobody stops it.
    """

    job_id: str
    kind: JobKind
    table: TableName
    user: str
    confirms: "StartedJob | None"
    child: Child
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    state: JobState = JobState.RUNNING
    finished_at: datetime | None = None
    report: Mapping[str, Any] | None = None
    stopped_as: JobState | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.state is JobState.RUNNING

    @property
    def may_be_confirmed(self) -> bool:
        """Whether it has found garbage that it did not remove."""
        is_look = self.kind is JobKind.CLEAN and self.confirms is None and self.state is JobState.DONE
        return is_look and self.report is not None and bool(self.report["garbage"])


class Supervisor:
    """Starts jobs, watches them, and remembers the last of them.

    Args:
        settings: how they run.
        create_child: starts a process, as `Child` does.
    """

    def __init__(self, settings: JobSettings, create_child: CreateChild = Child) -> None:
        self.settings = settings
        self._create_child = create_child
        self._lock = threading.Lock()
        self._jobs: dict[str, StartedJob] = {}
        self._watchers: list[threading.Thread] = []
        self._is_closed = False

    def start(
        self, kind: JobKind, table: TableName, user: str, confirms: StartedJob | None = None
    ) -> StartedJob:
        """Start a job, whoever may do so was asked before.

        Args:
            kind: what it does.
            table: of which table.
            user: who starts it.
            confirms: what found the garbage that is removed; None removes none.

        Raises:
            PreconditionError: jobs are off, or there is nothing to confirm.
            AlreadyExistsError: a job of the table runs.
            ResourcesExhaustedError: as many jobs run as may.
            UnavailableError: the gateway stops, or the process can't be started.
        """
        self.check_offered()
        if confirms is not None and not confirms.may_be_confirmed:
            raise PreconditionError(
                f"job {confirms.job_id} has found nothing that could be removed: look again, without confirms"
            )
        with self._lock:
            self._check_room(table)
            job = self._start(kind, table, user, confirms)
            self._jobs[job.job_id] = job
            self._forget_old_jobs()
            watcher = threading.Thread(target=self._watch, args=(job,), name="job", daemon=True)
            self._watchers = [one for one in self._watchers if one.is_alive()] + [watcher]
            watcher.start()
        logger.info("job %s: %s of table %r, started by %r", job.job_id, kind.value, table, user)
        return job

    def check_offered(self) -> None:
        """Check that jobs may be started here.

        Raises:
            PreconditionError: they may not.
        """
        if not self.settings.max_running:
            raise PreconditionError(
                "this gateway runs no jobs, since jobs.max_running is 0 or it is read-only: run "
                "lance-gateway pipeline beside it"
            )

    def list_all(self) -> tuple[StartedJob, ...]:
        """Return the jobs that run and the last that ran, the oldest first."""
        with self._lock:
            return tuple(self._jobs.values())

    def find(self, job_id: str) -> StartedJob:
        """Return a job.

        Raises:
            NotFoundError: there is none, or it is forgotten.
        """
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError(f"there is no job {job_id!r}, or it ended long ago: see /api/jobs")
        return job

    def cancel(self, job: StartedJob) -> None:
        """Stop a job; does nothing where it has ended."""
        self._stop(job, JobState.CANCELLED)

    def close(self) -> None:
        """Refuse new jobs, and end those that run."""
        with self._lock:
            self._is_closed = True
            running = [job for job in self._jobs.values() if job.is_running]
            watchers = tuple(self._watchers)
        stops = [
            threading.Thread(target=self._stop, args=(job, JobState.CANCELLED, _STOP_SECONDS))
            for job in running
        ]
        for stop in stops:
            stop.start()
        for thread in (*stops, *watchers):
            thread.join()

    def _check_room(self, table: TableName) -> None:
        if self._is_closed:
            raise UnavailableError("the gateway is stopping: start the job on another one")
        running = [job for job in self._jobs.values() if job.is_running]
        for job in running:
            if job.table == table:
                raise AlreadyExistsError(
                    f"{job.kind.value} of table {table!r} runs here already: wait for it, or cancel it"
                )
        if len(running) >= self.settings.max_running:
            raise ResourcesExhaustedError(
                f"{len(running)} jobs run, which is as many as may (jobs.max_running): wait for one to end"
            )

    def _start(self, kind: JobKind, table: TableName, user: str, confirms: StartedJob | None) -> StartedJob:
        with ExitStack() as opened:
            # Without a name, so that it goes with the last process that has it open.
            report = None if confirms is None else opened.enter_context(tempfile.TemporaryFile())
            if report is not None and confirms is not None:
                report.write(json.dumps(confirms.report).encode())
                report.seek(0)
            shared = () if report is None else (report.fileno(),)
            arguments = build_arguments(kind, table, *shared)
            try:
                child = self._create_child(arguments, build_environment(self.settings, user), shared)
            except OSError as error:
                raise UnavailableError(f"the job's process can't be started: {error.strerror}") from error
        return StartedJob(secrets.token_urlsafe(16), kind, table, user, confirms, child)

    def _forget_old_jobs(self) -> None:
        ended = [job for job in self._jobs.values() if not job.is_running]
        for job in ended[: max(0, len(self._jobs) - _MAX_KEPT)]:
            del self._jobs[job.job_id]

    def _watch(self, job: StartedJob) -> None:
        code = job.child.wait(self.settings.timeout_seconds or None)
        if code is None:
            self._stop(job, JobState.TIMED_OUT)
            code = job.child.wait()
        job.report = job.child.read_report()
        job.finished_at = datetime.now(UTC)
        # Last, as others look at it first. What ended well before it could be stopped is done.
        job.state = JobState.DONE if code == 0 else (job.stopped_as or JobState.FAILED)
        logger.info("job %s: %s of table %r is %s", job.job_id, job.kind.value, job.table, job.state.value)

    def _stop(self, job: StartedJob, state: JobState, grace_seconds: float = GRACE_SECONDS) -> None:
        if job.is_running:
            job.stopped_as = job.stopped_as or state
            job.child.stop(grace_seconds)
