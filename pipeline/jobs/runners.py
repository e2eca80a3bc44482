"""Where the parts of a job run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Protocol, TypeVar

from memwal.errors import InvalidInputError

Part = TypeVar("Part")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs independent parts, each of which may run more than once and must be safe to repeat."""

    def run(
        self, function: Callable[[Part], Result], parts: Sequence[Part], *, name: str
    ) -> Iterator[Result]:
        """Call a function for every part, and give results as they come.

        Function, parts and results may travel to other processes: they can be pickled.

        Args:
            function: a module-level function or an instance of a frozen dataclass with `__call__`.
            parts: what it is called with.
            name: of the job, for whoever watches.

        Raises:
            LanceGatewayError: the first error of a part; parts that were not begun are left.
        """


@dataclass(frozen=True, slots=True)
class Threads:
    """Runs parts in threads of this process.

    Attributes:
        count: how many at a time.
    """

    count: int = os.cpu_count() or 1

    def __post_init__(self) -> None:
        if self.count < 1:
            msg = f"{self.count} threads run nothing: give 1 or more"
            raise InvalidInputError(msg)

    def run(
        self, function: Callable[[Part], Result], parts: Sequence[Part], *, name: str
    ) -> Iterator[Result]:
        """As `Runner.run`."""
        with ThreadPoolExecutor(min(self.count, max(len(parts), 1)), thread_name_prefix=name) as pool:
            futures = [pool.submit(function, part) for part in parts]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()
