"""Several pieces of work at a time: Lance and numpy release the interpreter while they search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import pyarrow as pa

from execnodes.node import TaskContext
from execnodes.union import UnionExec

SEARCHERS = 8
"""Threads that all searches share; each search also works on its own thread, so none waits for them."""
HELPERS = 3
"""Of these, so many work for one search."""

Result = TypeVar("Result")


def side_by_side(tasks: Sequence[Callable[[], Result]]) -> list[Result]:
    """Run tasks on this thread and on helpers; the results are in the order of the tasks.

    Raises:
        Exception: what a task raised; those that were not begun are left.
    """
    waiting = deque(enumerate(tasks))
    results: dict[int, Result] = {}

    def work() -> None:
        while True:
            try:
                number, task = waiting.popleft()
            except IndexError:
                return
            try:
                results[number] = task()
            except BaseException:
                waiting.clear()
                raise

    helpers: list[Future[None]] = [_searchers().submit(work) for _ in range(min(len(tasks) - 1, HELPERS))]
    try:
        work()
    finally:
        begun = [helper for helper in helpers if not helper.cancel()]
        failed = [error for helper in begun if (error := helper.exception()) is not None]
    if failed:
        raise failed[0]
    return [results[number] for number in range(len(tasks))]


@cache
def _searchers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(SEARCHERS, thread_name_prefix="searcher")


@dataclass(frozen=True, eq=False)
class ConcurrentUnionExec(UnionExec):
    """All rows of all inputs, which run at the same time; what each gives must be small."""

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Run the inputs; their batches come in the order of the inputs."""
        tasks = [lambda node=node: list(node.execute(partition, context)) for node in self.inputs]
        for batches in side_by_side(tasks):
            yield from batches
