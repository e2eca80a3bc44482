"""What the operators of a running plan hold in memory, from the metrics that they count while they run."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from datafusion import DataFrame
from datafusion.plan import ExecutionPlan

MEASURED_SECONDS = 0.1
"""A plan that runs for less is not measured at its end: that would cost a good part of what it took."""
# What joins and aggregates say that they hold, each at its peak.
_HELD = ("peak_mem_used", "build_mem_used")


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What a statement took for its joins, aggregates, sorts and exchanges.

    Rows of leaves, which the cache holds, and batches on their way are not counted.

    Attributes:
        held_bytes: in memory.
        spilled_bytes: written to disk.
    """

    held_bytes: int = 0
    spilled_bytes: int = 0

    def __add__(self, other: MemoryUse) -> MemoryUse:
        """Return what two plans take that run at the same time."""
        return MemoryUse(self.held_bytes + other.held_bytes, self.spilled_bytes + other.spilled_bytes)

    def most(self, other: MemoryUse) -> MemoryUse:
        """Return the larger of each number."""
        return MemoryUse(max(self.held_bytes, other.held_bytes), max(self.spilled_bytes, other.spilled_bytes))


def measure_plan(plan: ExecutionPlan) -> MemoryUse:
    """Return what a plan holds, which may be running.

    Joins and aggregates count it themselves. Sorts and exchanges, which are the other operators that can
    spill, hold what they have read and neither handed on nor spilled; where their input does not count bytes,
    as with tables in memory, that is not known and counts as nothing.
    """
    counters = count_metrics(plan)
    held = sum(counters[name] for name in _HELD)
    if "spilled_bytes" in counters and not held:
        read = sum(count_metrics(child)["output_bytes"] for child in plan.children())
        held = max(read - counters["output_bytes"] - counters["spilled_bytes"], 0)
    return sum(map(measure_plan, plan.children()), MemoryUse(held, counters["spilled_bytes"]))


def count_metrics(plan: ExecutionPlan) -> defaultdict[str, int]:
    """Return the metrics of one operator by name, summed over its partitions; times are in nanoseconds."""
    counters: defaultdict[str, int] = defaultdict(int)
    measured = plan.metrics()
    for metric in () if measured is None else measured.metrics():
        if isinstance(metric.value, int):
            counters[metric.name] += metric.value
    return counters


class MemoryMeter:
    """The memory of one execution, whose plans run one after the other or side by side. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, tuple[DataFrame, float]] = {}
        self._most: MemoryUse | None = None

    def begin(self, frame: DataFrame) -> int:
        """Measure a plan from now on, which was executed; return a number for `end`."""
        with self._lock:
            self._running[id(frame)] = (frame, time.monotonic())
        return id(frame)

    def end(self, number: int) -> None:
        """Measure a plan for the last time, and let go of it."""
        _, started = self._running[number]
        if time.monotonic() - started >= MEASURED_SECONDS:
            self.measure()
        with self._lock:
            del self._running[number]

    def note(self, use: MemoryUse) -> None:
        """Note what another process has measured."""
        with self._lock:
            self._most = use if self._most is None else self._most.most(use)

    def measure(self) -> MemoryUse | None:
        """Return the most that was held whenever it was measured, now included; None if it never was."""
        with self._lock:
            running = [frame for frame, _ in self._running.values()]
        if running:
            # The plan that runs is kept with its frame, and is not made anew.
            self.note(sum((measure_plan(frame.execution_plan()) for frame in running), MemoryUse()))
        return self._most
