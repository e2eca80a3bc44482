"""The jobs that users have started on this gateway: bounded in number and time, and ended with it."""

import json
import logging
import secrets
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from lance_gateway.gateway.observability.console.jobs.child import GRACE_SECONDS, Child
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
