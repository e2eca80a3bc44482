"""Several pieces of work at a time: Lance and numpy release the interpreter while they search."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import pyarrow as pa

from execnodes.node import ExecNode, TaskContext, UnionExec
from execnodes.search.source import SearchSource
from execnodes.storage.source import LanceSource

SEARCHERS = 8
"""Threads that all searches share; each search also works on its own thread, so none waits for them."""
HELPERS = max(min((os.cpu_count() or 1) - 1, 3), 1)
"""Of these, so many work for one search of local files: more than processors stand in each other's way."""
WAITING_HELPERS = 7
"""So many work for one search whose files lie far away."""

Result = TypeVar("Result")


def helpers_for(sources: Iterable[SearchSource]) -> int:
    """How many threads are to help one that searches these sources."""
    datasets: list[Any] = [one.rows.dataset for one in sources if isinstance(one.rows, LanceSource)]
    return WAITING_HELPERS if any("://" in dataset.uri for dataset in datasets) else HELPERS


def side_by_side(tasks: Sequence[Callable[[], Result]], helpers: int = HELPERS) -> list[Result]:
    """Run tasks on this thread and on helpers; the results are in the order of the tasks.

    Args:
        tasks: what to do.
        helpers: threads besides this one, at most.

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

    count = min(len(tasks) - 1, helpers)
    submitted: list[Future[None]] = [_searchers().submit(work) for _ in range(count)]
    try:
        work()
    finally:
        begun = [helper for helper in submitted if not helper.cancel()]
        failed = [error for helper in begun if (error := helper.exception()) is not None]
    if failed:
        raise failed[0]
    return [results[number] for number in range(len(tasks))]


@cache
def _searchers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(SEARCHERS, thread_name_prefix="searcher")


@dataclass(frozen=True, eq=False)
class ConcurrentUnionExec(UnionExec):
    """All rows of all inputs, which run at the same time; what each gives must be small.

    Args:
        groups: numbers of inputs that one thread runs one after another, because to hand each to a thread of
            its own would cost more; every input is in one. () for each by itself.
        helpers: threads besides the one that asks.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    helpers: int = HELPERS

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Run the inputs; their batches come in the order of the inputs."""
        for batches in self.each(lambda node: list(node.execute(partition, context))):
            yield from batches

    def each(self, work: Callable[[ExecNode], Result]) -> list[Result]:
        """Do the same with every input; results in the order of the inputs."""
        groups = self.groups or tuple((number,) for number in range(len(self.inputs)))
        tasks = [partial(_in_turn, work, [self.inputs[number] for number in group]) for group in groups]
        found = zip(
            itertools.chain(*groups), itertools.chain(*side_by_side(tasks, self.helpers)), strict=True
        )
        return [result for _, result in sorted(found, key=lambda one: one[0])]


def _in_turn(work: Callable[[ExecNode], Result], nodes: Iterable[ExecNode]) -> list[Result]:
    return [work(node) for node in nodes]
