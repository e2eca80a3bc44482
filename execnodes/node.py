"""The base classes of physical operators, and the operators that combine scans."""

from __future__ import annotations

import itertools
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from lance_gateway.execnodes.rows.keys import KeySet
from lance_gateway.execnodes.rows.lance_filter import RowFilter
from lance_gateway.execnodes.rows.row_mask import EVERYTHING_VISIBLE, RowMask

ROW_ADDRESS = "_rowaddr"
"""Lance's row address, uint64: fragment id in the upper 32 bits, offset within the fragment in the lower."""


@dataclass(slots=True)
class Metrics:
    """Metrics of one node under DataFusion's names, plus counters of the node's own."""

    output_rows: int = 0
    output_batches: int = 0
    elapsed: float = 0.0
    """Seconds, the node's inputs included; `elapsed_compute` is what remains without them."""
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasuredNode:
    """What one node of a plan did, for another process.

    Attributes:
        name: of its class.
        description: as EXPLAIN shows it.
        metrics: of the node.
        elapsed_compute: seconds spent in the node itself.
        inputs: those that ran.
    """

    name: str
    description: str
    metrics: Metrics
    elapsed_compute: float
    inputs: tuple[MeasuredNode, ...]


class MetricsSet:
    """Metrics of all nodes of a plan, summed over partitions; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[ExecNode, Metrics] = {}

    def add(self, node: ExecNode, *, rows: int = 0, batches: int = 0, elapsed: float = 0.0) -> None:
        """Add the output of one partition of `node` since the last call."""
        with self._lock:
            metrics = self._of.setdefault(node, Metrics())
            metrics.output_rows += rows
            metrics.output_batches += batches
            metrics.elapsed += elapsed

    def count(self, node: ExecNode, counter: str, amount: int = 1) -> None:
        """Add `amount` to a counter of the node."""
        with self._lock:
            counters = self._of.setdefault(node, Metrics()).counters
            counters[counter] = counters.get(counter, 0) + amount

    def of(self, node: ExecNode) -> Metrics | None:
        """Return the node's metrics; None if it never ran."""
        return self._of.get(node)

    def elapsed_compute(self, node: ExecNode) -> float:
        """Return the seconds spent in the node itself."""
        own = self._of.get(node)
        if own is None:
            return 0.0
        inputs = sum(child.elapsed for n in node.children() if (child := self._of.get(n)))
        return max(own.elapsed - inputs, 0.0)

    def measure(self, node: ExecNode) -> MeasuredNode | None:
        """Return what a node and its inputs did; None if it never ran."""
        metrics = self._of.get(node)
        if metrics is None:
            return None
        inputs = tuple(found for one in node.children() if (found := self.measure(one)) is not None)
        return MeasuredNode(type(node).__name__, node.describe(), metrics, self.elapsed_compute(node), inputs)


def never_stop() -> None:
    """Do nothing: the check of an execution that can't be stopped."""


def no_floor() -> float:
    """Return minus infinity, below every score."""
    return -math.inf


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The state of one execution, handed down the plan.

    Attributes:
        keys: those that are still wanted, in a point lookup.
        metrics: where nodes are measured, if anybody asked.
        check: raises once the execution was stopped; a node that may work long without a batch calls it.
        floor: the score that a candidate must exceed by now to be among the best of a text search.
    """

    keys: KeySet | None = None
    metrics: MetricsSet | None = None
    check: Callable[[], None] = never_stop
    floor: Callable[[], float] = no_floor

    def count(self, node: ExecNode, counter: str, amount: int = 1) -> None:
        """Add to a counter of `node` if metrics are collected."""
        if self.metrics is not None:
            self.metrics.count(node, counter, amount)


class ExecNode(ABC):
    """A physical operator. Subclasses are frozen dataclasses, compared by identity."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Schema of the batches, known without execution."""

    def children(self) -> tuple[ExecNode, ...]:
        """Return the inputs in reading order; a leaf has none."""
        return ()

    @abstractmethod
    def describe(self) -> str:
        """Return one line for EXPLAIN, which starts with the node's name."""

    def list_facts(self) -> Mapping[str, object]:
        """Return what else is known after execution, by name, as JSON has it."""
        return {}

    @abstractmethod
    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the batches of one partition; called through `execute`."""

    def execute(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Lazily produce the batches of one partition, and measure them if metrics are collected."""
        produced = self.batches(partition, context)
        return produced if context.metrics is None else measure_batches(self, produced, context.metrics)


class UnaryExec(ExecNode):
    """An operator with one input; by default it keeps the input's schema."""

    input: ExecNode

    @cached_property
    def schema(self) -> pa.Schema:
        """The input's schema."""
        return self.input.schema

    def children(self) -> tuple[ExecNode, ...]:
        """Return the input."""
        return (self.input,)


def measure_batches(
    node: ExecNode, batches: Iterator[pa.RecordBatch], metrics: MetricsSet
) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, and add rows, batches and seconds to the node's metrics."""
    while True:
        started = time.perf_counter()
        batch = next(batches, None)
        elapsed = time.perf_counter() - started
        if batch is None:
            metrics.add(node, elapsed=elapsed)
            return
        metrics.add(node, rows=batch.num_rows, batches=1, elapsed=elapsed)
        yield batch


def rows_without_columns(count: int) -> pa.RecordBatch:
    """Return a batch of `count` rows and no columns, as ``count(*)`` reads it."""
    return pa.record_batch([pa.nulls(count)], names=["_"]).select([])


TARGET_ROWS = 32_768
TARGET_BYTES = 8 << 20


def coalesce_batches(
    batches: Iterator[pa.RecordBatch], target_rows: int = TARGET_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of at least half of `target_rows` or `TARGET_BYTES`, except the last.

    Each batch that leaves Python has a fixed cost. Large batches pass unchanged, ahead of waiting ones.
    """
    waiting: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        if not batch.num_columns:
            waiting.append(batch)
            rows += batch.num_rows
            continue
        size = batch.nbytes
        if batch.num_rows * 2 >= target_rows or size * 2 >= TARGET_BYTES:
            yield batch
            continue
        waiting.append(batch)
        rows += batch.num_rows
        nbytes += size
        if rows >= target_rows or nbytes >= TARGET_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, nbytes = [], 0, 0
    if not rows:
        return
    if len(waiting) == 1:
        yield waiting[0]
    else:
        yield pa.concat_batches(waiting) if waiting[0].num_columns else rows_without_columns(rows)


@dataclass(frozen=True, eq=False)
class UnionExec(ExecNode):
    """Concatenates the rows of all inputs.

    Args:
        inputs: nodes of one schema, at least one.
    """

    inputs: tuple[ExecNode, ...]

    def __post_init__(self) -> None:
        if not self.inputs:
            msg = "UnionExec needs at least one input"
            raise ValueError(msg)
        schema = self.inputs[0].schema
        names = schema.names
        for node in self.inputs[1:]:
            if node.schema is not schema and node.schema.names != names:
                msg = f"UnionExec inputs differ: {names} and {node.schema.names} ({node.describe()})"
                raise ValueError(msg)

    @cached_property
    def schema(self) -> pa.Schema:
        """The inputs' common schema."""
        return self.inputs[0].schema

    def children(self) -> tuple[ExecNode, ...]:
        """Return the inputs."""
        return self.inputs

    def describe(self) -> str:
        """Return the number of inputs."""
        return f"UnionExec: inputs={len(self.inputs)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Execute one input after another."""
        for node in self.inputs:
            yield from node.execute(partition, context)


class ScanExec(ExecNode):
    """A leaf that reads the rows of one source."""

    columns: tuple[str, ...]
    row_filter: RowFilter | None
    by_key: bool

    def format_description(self, label: str, size: str) -> str:
        """Return the line for EXPLAIN: source, projection, filter, and size."""
        parts = [label, f"columns=[{', '.join(self.columns)}]"]
        if self.row_filter is not None:
            parts.append(f"filter={self.row_filter}")
        if self.by_key:
            parts.append("by key")
        return f"{type(self).__name__}: {', '.join([*parts, size])}"

    @abstractmethod
    def rows(self, mask: RowMask, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the rows that the mask shows and the filter passes."""

    def rows_of_each(
        self, scans: Sequence[tuple[ScanExec, RowMask]], partition: int, context: TaskContext
    ) -> Iterator[pa.RecordBatch]:
        """Produce the rows of scans of this kind, of which this is one; some may be read together."""
        for scan, mask in scans:
            yield from scan.rows(mask, partition, context)

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce all rows that the filter passes."""
        return self.rows(EVERYTHING_VISIBLE, partition, context)


class RowPolicy(Protocol):
    """A row filter and column masks of one principal."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the visible rows of a batch, with masked values in place of true ones."""


@dataclass(frozen=True, eq=False)
class SecurityBarrierExec(UnaryExec):
    """Applies a policy to its input, then the filters of a statement that may see only visible values.

    Args:
        input: rows in their newest version, with all columns that the policy reads.
        policy: says what is visible.
        output: fields to produce.
        row_filter: applied to visible rows and masked values, exactly; None keeps them all.
    """

    input: ExecNode
    policy: RowPolicy
    output: pa.Schema
    row_filter: RowFilter | None = None

    @property
    def schema(self) -> pa.Schema:
        """The requested visible columns."""
        return self.output

    def describe(self) -> str:
        """Return the columns, but nothing of the policy."""
        return f"SecurityBarrierExec: columns=[{', '.join(self.output.names)}]"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the visible rows of one partition, in large batches: each evaluation has a fixed cost."""
        for batch in coalesce_batches(self.input.execute(partition, context)):
            visible = self.policy.apply(batch)
            if self.row_filter is not None and visible.num_rows:
                visible = visible.filter(self.row_filter.matches(visible))
            if visible.num_rows:
                yield visible.select(self.output.names)


@dataclass(frozen=True, eq=False)
class DeduplicateExec(UnaryExec):
    """Removes superseded rows and tombstones from a union of sources.

    What is newest was decided once per immutable pair of sources, by key; here a row's address is all it
    takes, so a filter may run below this node without reviving an older version of a row. Each scan applies
    the mask of its own source, where rows still have their place.

    Args:
        input: union of scans.
        masks: one visibility mask per scan.
    """

    input: UnionExec
    masks: tuple[RowMask, ...]

    def __post_init__(self) -> None:
        if len(self.masks) != len(self.input.inputs):
            msg = f"{len(self.input.inputs)} sources need as many masks, not {len(self.masks)}"
            raise ValueError(msg)
        for node in self.input.inputs:
            if not isinstance(node, ScanExec):
                msg = f"DeduplicateExec masks the rows of scans, and this is none: {node.describe()}"
                raise TypeError(msg)

    def describe(self) -> str:
        """Return the number of hidden rows."""
        return f"DeduplicateExec: by visibility mask, hidden_rows={sum(m.hidden_rows for m in self.masks)}"

    def batches(self, partition: int, context: TaskContext) -> Iterator[pa.RecordBatch]:
        """Produce the visible rows of all sources."""
        scans = [
            (scan, mask)
            for scan, mask in zip(self.input.inputs, self.masks, strict=True)
            if isinstance(scan, ScanExec)
        ]
        if context.metrics is None:
            for _, same in itertools.groupby(scans, lambda one: type(one[0])):
                of_a_kind = list(same)
                yield from of_a_kind[0][0].rows_of_each(of_a_kind, partition, context)
            return
        for scan, mask in scans:
            for batch in measure_batches(scan, scan.rows(mask, partition, context), context.metrics):
                # Drained here, one mask each; what passes through is the union's output all the same.
                context.metrics.add(self.input, rows=batch.num_rows, batches=1)
                yield batch
