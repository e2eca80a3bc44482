"""Runners of the parts of jobs, and progress."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from memwal.errors import InvalidInputError


def format_count(count: int, what: str) -> str:
    """Format a count with its noun in the singular or plural.

    >>> counted(1, "region"), counted(2000, "row"), counted(0, "index")
    ('1 region', '2,000 rows', '0 indexes')
    """
    ending = "" if count == 1 else "es" if what.endswith(("x", "s", "sh", "ch")) else "s"
    return f"{count:,} {what}{ending}"


Advance: TypeAlias = Callable[[int], object]
"""Called with the number of units that were completed."""
Progress: TypeAlias = Callable[[str, int], AbstractContextManager[Advance]]
"""Context manager that shows the progress of a job, from its title and the total number of units."""


@contextmanager
def ignore_progress(_title: str, _total: int) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda _done: None


@contextmanager
def show_progress(title: str, total: int) -> Iterator[Advance]:
    """Show a progress bar on stderr, if that is a terminal and the total is more than one."""
    console = Console(stderr=True)
    if not console.is_terminal or total < 2:
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=total)
        yield lambda done: bars.advance(task, done)


Part = TypeVar("Part")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs independent parts; each may run more than once and must be safe to repeat."""

    def run(
        self, function: Callable[[Part], Result], parts: Sequence[Part], *, name: str
    ) -> Iterator[Result]:
        """Call a function for every part, and yield results as they arrive.

        Function, parts and results may be sent to other processes, so they can be pickled.

        Args:
            function: a module-level function or an instance of a frozen dataclass with `__call__`.
            parts: arguments of the calls.
            name: name of the job.

        Raises:
            LanceGatewayError: the first error of a part; parts that have not started are skipped.
        """


@dataclass(frozen=True, slots=True)
class Threads:
    """Runs parts in threads of this process."""

    count: int = os.cpu_count() or 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInputError(f"{self.count} threads run nothing: give 1 or more")

    def run(
        self, function: Callable[[Part], Result], parts: Sequence[Part], *, name: str
    ) -> Iterator[Result]:
        """Call a function for every part in a thread pool."""
        with ThreadPoolExecutor(min(self.count, max(len(parts), 1)), thread_name_prefix=name) as pool:
            futures = [pool.submit(function, part) for part in parts]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()
