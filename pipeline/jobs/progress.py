"""Progress of jobs: bars on a terminal, lines elsewhere, and `system.jobs` of all gateways of the root."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from lance_gateway.memwal.storage.jobs import JobRecord, RunningJobs, ignore_ticks
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.jobs.runners import Advance, Progress, format_count, ignore_progress

LINE_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)

Track: TypeAlias = Callable[[str, TableName], AbstractContextManager[Progress]]
"""Context manager around a job, from its kind and its table; gives what shows the progress of its parts."""


@contextmanager
def ignore_job(_kind: str, _table: TableName) -> Iterator[Progress]:
    """Show nothing."""
    yield ignore_progress


class Lines:
    """Writes at intervals how far a job is.

    Args:
        write: is given each line.
        period_seconds: from one line to the next, and from the start to the first.
    """

    def __init__(self, write: Callable[[str], object], period_seconds: float) -> None:
        self._write = write
        self._period_seconds = period_seconds
        self._began = self._told_at = time.monotonic()

    def __call__(self, record: JobRecord) -> None:
        """Write how far the job is, if it is time."""
        now = time.monotonic()
        if record.phase and now - self._told_at >= self._period_seconds:
            self._told_at = now
            self._write(f"{format_progress(record)}, {now - self._began:.0f} s")


def format_progress(record: JobRecord) -> str:
    """Format how far a job is: ``merge orders: 12 of 40 generations``."""
    if record.total is None:
        return f"{record.phase}: {format_count(record.done, record.unit)}"
    return f"{record.phase}: {record.done:,} of {format_count(record.total, record.unit)}"


class JobTracker:
    """Shows the jobs of a process; `track` and the progress that it gives are what jobs take.

    Args:
        jobs: the running jobs of the process.
        write: is given a line about a job at intervals; None shows bars on the terminal.
        period_seconds: from one line to the next.
    """

    def __init__(
        self, jobs: RunningJobs, write: Callable[[str], object] | None, period_seconds: float = LINE_SECONDS
    ) -> None:
        self._jobs = jobs
        self._write = write
        self._period_seconds = period_seconds

    @staticmethod
    def of_command(jobs: RunningJobs) -> JobTracker:
        """Return the tracker of a command: bars if stderr is a terminal, else lines on stderr."""
        is_terminal = Console(stderr=True).is_terminal
        return JobTracker(jobs, None if is_terminal else lambda line: typer.echo(line, err=True))

    @contextmanager
    def track(self, kind: str, table: TableName) -> Iterator[Progress]:
        """Show a job while the block runs.

        Args:
            kind: what it does: "merge".
            table: of which table.
        """
        watch = ignore_ticks if self._write is None else Lines(self._write, self._period_seconds)
        with self._jobs.run(kind, table, watch=watch) as job:

            @contextmanager
            def show(title: str, total: int, unit: str) -> Iterator[Advance]:
                job.begin(title, total, unit)
                with _show_bar(title, total, is_shown=self._write is None) as advance:

                    def count(done: int) -> None:
                        job.advance(done)
                        advance(done)

                    yield count

            yield show


@contextmanager
def _show_bar(title: str, total: int, *, is_shown: bool) -> Iterator[Advance]:
    """Show a progress bar on stderr if the total is more than one."""
    if not is_shown or total < 2:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done: bars.advance(task, done)
