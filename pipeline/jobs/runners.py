"""Runners of the parts of jobs, and progress."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from lance_gateway.memwal.errors import InvalidInputError


def format_count(count: int, what: str) -> str:
    """Format a count with its noun in the singular or plural.

    >>> counted(1, "region"), counted(2000, "row"), counted(0, "index")
    ('1 region', '2,000 rows', '0 indexes')
    """
    ending = "" if count == 1 else "es" if what.endswith(("x", "s", "sh", "ch")) else "s"
    return f"{count:,} {what}{ending}"


Advance: TypeAlias = Callable[[int], object]
"""Called with the number of units that were completed."""
Progress: TypeAlias = Callable[[str, int, str], AbstractContextManager[Advance]]
"""Context manager that shows the progress of a part of a job, from its title, the total number of units, and
what one unit is."""


@contextmanager
def ignore_progress(_title: str, _total: int, _unit: str) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda _done: None


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
