"""Operators over candidates of any search: union, sort, limit, fallback, and empty."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from lance_gateway.execnodes.node import ROW_ADDRESS, ExecNode, TaskContext, UnaryExec, UnionExec
from lance_gateway.execnodes.search.source import QUERY_INDEX, SOURCE, SearchSource
from lance_gateway.memwal.errors import InvalidInputError

SEARCHERS = 8
"""Threads that all searches share; each search also works on its own thread, so none waits for them."""
HELPERS = max(min((os.cpu_count() or 1) - 1, 3), 1)
"""Of these, so many work for one search of local files: more than processors stand in each other's way."""
WAITING_HELPERS = 7
"""So many work for one search whose files lie far away."""

Result = TypeVar("Result")


def choose_helper_count(sources: Iterable[SearchSource]) -> int:
    """Return the number of helper threads for a search of these sources."""
    return WAITING_HELPERS if any(source.is_far for source in sources) else HELPERS


def run_concurrently(tasks: Sequence[Callable[[], Result]], helpers: int = HELPERS) -> list[Result]:
    """Run tasks on this thread and on helpers; return the results in the order of the tasks.

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
    submitted: list[Future[None]] = [_get_searchers().submit(work) for _ in range(count)]
    try:
        work()
    finally:
        begun = [helper for helper in submitted if not helper.cancel()]
        failed = [error for helper in begun if (error := helper.exception()) is not None]
    if failed:
        raise failed[0]
    return [results[number] for number in range(len(tasks))]


@cache
def _get_searchers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(SEARCHERS, thread_name_prefix="searcher")


@dataclass(frozen=True, eq=False)
class ConcurrentUnionExec(UnionExec):
    """Concatenates the rows of all inputs, which run at the same time; each output must be small.

    Args:
        groups: numbers of inputs that one thread runs one after another, because to hand each to a thread of
            its own would cost more; every input is in one. () for each by itself.
        helpers: threads besides the one that asks.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    helpers: int = HELPERS

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Execute the inputs; yield their batches in the order of the inputs."""
        for batches in self.each(lambda node: list(node.execute(partition, context))):
            yield from batches

    def each(self, work: Callable[[ExecNode], Result]) -> list[Result]:
        """Apply a function to every input; return the results in the order of the inputs."""
        groups = self.groups or tuple((number,) for number in range(len(self.inputs)))
        tasks = [partial(_run_in_order, work, [self.inputs[number] for number in group]) for group in groups]
        results = zip(
            itertools.chain(*groups), itertools.chain(*run_concurrently(tasks, self.helpers)), strict=True
        )
        return [result for _, result in sorted(results, key=lambda pair: pair[0])]


def _run_in_order(work: Callable[[ExecNode], Result], nodes: Iterable[ExecNode]) -> list[Result]:
    return [work(node) for node in nodes]


@dataclass(frozen=True, eq=False)
class FallbackExec(ExecNode):
    """Returns the rows of the first input if there are enough, else those of the second; in one partition.

    Args:
        few: gives the rows that are wanted, unless there are too few of their kind.
        all: gives these, and others.
        enough: rows.
        partitions: of `all`.
    """

    few: ExecNode
    all: ExecNode
    enough: int
    partitions: int

    def __post_init__(self) -> None:
        if not self.few.schema.equals(self.all.schema):
            msg = f"{self.few.schema} and {self.all.schema} differ: one must stand for the other"
            raise InvalidInputError(msg)

    @property
    def schema(self) -> pa.Schema:
        """The schema of both inputs."""
        return self.few.schema

    def children(self) -> tuple[ExecNode, ...]:
        """Return both inputs."""
        return (self.few, self.all)

    def describe(self) -> str:
        """Return the number of rows that is enough."""
        return f"FallbackExec: all rows unless there are {self.enough}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the rows in partition 0."""
        if partition:
            return
        few_batches = list(self.few.execute(0, context))
        if sum(batch.num_rows for batch in few_batches) >= self.enough:
            yield from few_batches
            return
        for number in range(self.partitions):
            yield from self.all.execute(number, context)


@dataclass(frozen=True, eq=False)
class EmptyExec(ExecNode):
    """A leaf without rows.

    Args:
        columns: its schema.
    """

    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """The given columns."""
        return self.columns

    def describe(self) -> str:
        """Return the node's name."""
        return "EmptyExec"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Produce nothing."""
        return iter(())


def concat_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Return all rows of the batches in one batch."""
    parts = list(batches)
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


@dataclass(frozen=True, eq=False)
class SortExec(UnaryExec):
    """Sorts candidates by query, best first, then by source and row address.

    Args:
        input: candidates.
        column: that says how well a candidate matches.
        descending: whether more is better.
    """

    input: ExecNode
    column: str
    descending: bool = False

    def __post_init__(self) -> None:
        if self.column not in self.input.schema.names:
            msg = f"candidates can't be sorted by {self.column!r}; they have {self.input.schema.names}"
            raise ValueError(msg)

    def describe(self) -> str:
        """Return column and direction."""
        return f"SortExec: {self.column} {'DESC' if self.descending else 'ASC'}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch with all rows."""
        rows = concat_batches(self.input.execute(partition, context), self.schema)
        if not rows.num_rows:
            return
        quality = rows.column(self.column).to_numpy(zero_copy_only=False)
        keys = [rows.column(name).to_numpy() for name in (ROW_ADDRESS, SOURCE)]
        order = np.lexsort(
            (*keys, -quality if self.descending else quality, rows.column(QUERY_INDEX).to_numpy())
        )
        yield rows.take(pa.array(order))


@dataclass(frozen=True, eq=False)
class LimitExec(UnaryExec):
    """Keeps at most k candidates of every query.

    Args:
        input: candidates, those of one query together.
        k: how many.
    """

    input: ExecNode
    k: int

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"k={self.k} is not a number of rows to keep: give 1 or more")

    def describe(self) -> str:
        """Return k."""
        return f"LimitExec: k={self.k}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce one batch with the first rows of every query."""
        rows = concat_batches(self.input.execute(partition, context), self.schema)
        if rows.num_rows <= self.k:
            if rows.num_rows:
                yield rows
            return
        queries = rows.column(QUERY_INDEX).to_numpy()
        starts = np.flatnonzero(np.diff(queries, prepend=queries[0] - 1))
        counts = np.diff(starts, append=len(queries))
        places = np.arange(len(queries)) - np.repeat(starts, counts)
        yield rows.filter(pa.array(places < self.k)) if len(starts) > 1 else rows.slice(0, self.k)
