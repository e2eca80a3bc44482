"""Jobs that run, and how far they are: those of this process, and records that others leave in the root.

A job that has run for a second leaves a small file below `_gateway/jobs` of the root, which its process
writes again at intervals and removes at the end. A record that was not written for a minute is that of a
process that is gone: nobody shows it, and whoever leaves the next record removes it.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Final, TypeAlias

from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.memwal.storage.files import Entry, Storage
from lance_gateway.memwal.storage.table_names import TableName

JOBS: Final = "_gateway/jobs"
"""Directory of the records, below the root."""
EXPIRY_SECONDS: Final = 60.0
USER_VARIABLE: Final = "LANCE_GATEWAY_JOB_USER"
"""Environment variable that says for whom a process runs its jobs, other than the user of the process."""
MAX_RECORDS: Final = 256
"""More jobs than that run without a record."""
_SUFFIX: Final = ".json"
_QUIET_SECONDS: Final = 1.0
"""Jobs that are shorter leave no record."""
_TICK_SECONDS: Final = 1.0
_REWRITE_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The state of a running job.

    Attributes:
        job_id: identifies the job.
        kind: what it does: "merge", "optimize".
        table: of which table; its name as `TableName.parse` reads it.
        phase: the part of the work that is under way; empty before the first.
        done: units of the phase that are done.
        total: units of the phase; None if that is not known.
        unit: one unit of the phase: "generation", "row".
        started_at: Unix time in seconds.
        user: who started it.
        host: machine that it runs on.
        pid: process that it runs in.
    """

    job_id: str
    kind: str
    table: str
    phase: str
    done: int
    total: int | None
    unit: str
    started_at: float
    user: str
    host: str
    pid: int

    def __post_init__(self) -> None:
        if not self.job_id or not self.kind or not self.table:
            msg = f"a job needs an id, a kind and a table: {self.job_id!r}, {self.kind!r}, {self.table!r}"
            raise InvalidInputError(msg)
        texts = (self.job_id, self.kind, self.table, self.phase, self.unit, self.user, self.host)
        numbers = (self.done, self.total or 0, self.pid)
        is_typed = all(isinstance(one, str) for one in texts) and all(isinstance(one, int) for one in numbers)
        if not is_typed or not isinstance(self.started_at, int | float):
            msg = f"the record of job {self.job_id!r} has values of other types than the fields of a job"
            raise InvalidInputError(msg)

    def encode(self) -> bytes:
        """Return the content of its file."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(data: bytes) -> JobRecord | None:
        """Read the content of a file; None if another version, or somebody else, wrote it."""
        try:
            record = JobRecord(**json.loads(data))
            TableName.parse(record.table)
        except (ValueError, TypeError, InvalidInputError):
            return None
        return record


Watch: TypeAlias = Callable[[JobRecord], object]
"""Called about once a second with the state of a running job."""


def ignore_ticks(_record: JobRecord) -> None:
    """Do nothing."""


class Job:
    """A running job of this process; safe to share between threads.

    Args:
        record: its state at the beginning.
        watch: is told its state while it runs.
    """

    def __init__(self, record: JobRecord, watch: Watch = ignore_ticks) -> None:
        self._record = record
        self._lock = threading.Lock()
        self.watch = watch
        self.began = time.monotonic()

    @property
    def record(self) -> JobRecord:
        """Its present state."""
        return self._record

    def begin(self, phase: str, total: int | None, unit: str) -> None:
        """Begin a phase of which nothing is done.

        Args:
            phase: what is done: "compact files".
            total: number of units; None if that is not known.
            unit: one unit: "file".
        """
        self.show(phase, 0, total, unit)

    def advance(self, done: int) -> None:
        """Count units that were done."""
        with self._lock:
            self._record = replace(self._record, done=self._record.done + done)

    def show(self, phase: str, done: int, total: int | None, unit: str) -> None:
        """Set the phase and how far it is."""
        with self._lock:
            self._record = replace(self._record, phase=phase, done=done, total=total, unit=unit)


class _LeftRecord:
    """The file of one job."""

    def __init__(self, root: Storage | None, job: Job) -> None:
        self._root = root
        self._job = job
        self._path = f"{JOBS}/{job.record.job_id}{_SUFFIX}"
        self._lock = threading.Lock()
        self._written_at: float | None = None
        self._ends = False

    def write(self) -> None:
        """Write the state of the job, unless that was done lately or there is no room."""
        now = time.monotonic()
        with self._lock:
            if self._root is None or self._ends:
                return
            if self._written_at is not None:
                if now - self._written_at >= _REWRITE_SECONDS:
                    self._root.put(self._path, self._job.record.encode())
                    self._written_at = now
            elif _make_room(self._root):
                self._root.put_if_absent(self._path, self._job.record.encode())
                self._written_at = now

    def remove(self) -> None:
        """Remove the file for good."""
        with self._lock:
            self._ends = True
            if self._root is not None and self._written_at is not None:
                self._root.delete(self._path)


class RunningJobs:
    """The running jobs of this process, and those of other processes that have the same root.

    Args:
        root: directory of all tables; None where no records are kept.
        quiet_seconds: how long a job runs before it leaves a record.
        tick_seconds: from one look at the jobs of this process to the next.
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        root: Storage | None,
        *,
        quiet_seconds: float = _QUIET_SECONDS,
        tick_seconds: float = _TICK_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._quiet_seconds = quiet_seconds
        self._tick_seconds = tick_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, tuple[Job, _LeftRecord]] = {}
        self._ticking = False

    @contextmanager
    def run(
        self, kind: str, table: TableName, user: str | None = None, watch: Watch = ignore_ticks
    ) -> Iterator[Job]:
        """Show a job while the block runs.

        Args:
            kind: what it does.
            table: of which table.
            user: who started it; None for the user of this process.
            watch: is told its state while it runs.
        """
        user = _find_user() if user is None else user
        started = self._clock()
        record = JobRecord(
            uuid.uuid4().hex, kind, table, "", 0, None, "", started, user, _find_host(), os.getpid()
        )
        job = Job(record, watch)
        left = _LeftRecord(self._root, job)
        with self._lock:
            self._jobs[record.job_id] = job, left
            if not self._ticking:
                self._ticking = True
                threading.Thread(target=self._tick, name="jobs", daemon=True).start()
        try:
            yield job
        finally:
            with self._lock:
                del self._jobs[record.job_id]
            try:
                left.remove()
            except UnavailableError as error:
                logger.info("the record of job %s will expire, since it can't be removed: %s", kind, error)

    def list_all(self) -> tuple[JobRecord, ...]:
        """Return the state of all jobs that run, by the time when they were started.

        Raises:
            UnavailableError: storage failed to answer.
        """
        with self._lock:
            found = {job_id: job.record for job_id, (job, _) in self._jobs.items()}
        if self._root is not None:
            others = [
                f"{JOBS}/{entry.name}"
                for entry in _list_records(self._root)
                if not _is_expired(entry, self._clock()) and entry.name.removesuffix(_SUFFIX) not in found
            ]
            for record in self._root.each(self._read, others[:MAX_RECORDS]):
                if record is not None:
                    found[record.job_id] = record
        return tuple(sorted(found.values(), key=lambda record: (record.started_at, record.job_id)))

    def _read(self, path: str) -> JobRecord | None:
        assert self._root is not None  # noqa: S101 - it listed the file
        try:
            return JobRecord.decode(self._root.read(path))
        except FileNotFoundError:
            return None  # The job has ended since.

    def _tick(self) -> None:
        """Tell of the jobs at intervals, until there are none."""
        pause = threading.Event()
        while True:
            pause.wait(self._tick_seconds)
            with self._lock:
                jobs = tuple(self._jobs.values())
                if not jobs:
                    self._ticking = False
                    return
            for job, left in jobs:
                job.watch(job.record)
                if time.monotonic() - job.began >= self._quiet_seconds:
                    try:
                        left.write()
                    except UnavailableError as error:
                        logger.info("job %s leaves no record: %s", job.record.kind, error)


def _list_records(root: Storage) -> list[Entry]:
    return [entry for entry in root.list(JOBS) if entry.name.endswith(_SUFFIX)]


def _is_expired(entry: Entry, now: float) -> bool:
    return now - entry.written / 1e9 > EXPIRY_SECONDS


def _make_room(root: Storage) -> bool:
    """Remove records of processes that are gone; return whether there is room for another record."""
    records = _list_records(root)
    expired = [entry for entry in records if _is_expired(entry, time.time())]
    root.delete_each([f"{JOBS}/{entry.name}" for entry in expired])
    return len(records) - len(expired) < MAX_RECORDS


@cache
def _find_host() -> str:
    return socket.gethostname()


@cache
def _find_user() -> str:
    try:
        return os.environ.get(USER_VARIABLE) or getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # as in containers, whose users have no names
