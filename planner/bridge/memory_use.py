"""What the operators of a running plan hold in memory, from the metrics that they count while they run."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from datafusion import DataFrame
from datafusion.plan import ExecutionPlan, Metric

MEASURED_SECONDS = 0.1
"""A plan that runs for less is not measured at its end: that would cost a good part of what it took."""
_HELD = "build_mem_used"
"""What joins say that they hold, at its peak."""
_SIZE = re.compile(r"([\d.]+) ?([KMGT]?)B")
_NUMBER = re.compile(r"([\d.]+) ?([KMBT]?)")
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_COUNTS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


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

    Joins count it themselves. Aggregates hand on parts of what they hold, each of which counts with all of
    it: before the first one nothing is known. Sorts and exchanges, which are the other operators that can
    spill, hold what they have read and neither handed on nor spilled; where their input does not count bytes,
    as with tables in memory, that is not known and counts as nothing.
    """
    counters = count_metrics(plan)
    held = counters[_HELD]
    if "aggregation_time" in counters:
        held = _measure_groups(plan)
    elif "spilled_bytes" in counters and not held:
        read = sum(count_metrics(child)["output_bytes"] for child in plan.children())
        held = max(read - counters["output_bytes"] - counters["spilled_bytes"], 0)
    return sum(map(measure_plan, plan.children()), MemoryUse(held, counters["spilled_bytes"]))


def count_metrics(plan: ExecutionPlan) -> defaultdict[str, int]:
    """Return the metrics of one operator by name, summed over its partitions; times are in nanoseconds."""
    counters: defaultdict[str, int] = defaultdict(int)
    measured = plan.metrics()
    for metric in () if measured is None else measured.metrics():
        counters[metric.name] += _read_value(metric)
    return counters


def _measure_groups(plan: ExecutionPlan) -> int:
    """Return what an aggregate holds, from the bytes and numbers of the parts that each partition gave."""
    measured = plan.metrics()
    sizes: defaultdict[int | None, int] = defaultdict(int)
    parts: defaultdict[int | None, int] = defaultdict(int)
    for metric in () if measured is None else measured.metrics():
        if metric.name == "output_bytes":
            sizes[metric.partition] += _read_value(metric)
        elif metric.name == "output_batches":
            parts[metric.partition] += _read_value(metric)
    return sum(size // max(parts[partition], 1) for partition, size in sizes.items())


def _read_value(metric: Metric) -> int:
    """Return the value of a metric, some of which the bindings give as texts only; 0 for other values."""
    if isinstance(metric.value, int):
        return metric.value
    text = str(metric)
    for pattern, units in ((_SIZE, _BYTES), (_NUMBER, _COUNTS)):
        if found := pattern.fullmatch(text):
            return round(float(found[1]) * units[found[2]])
    return 0


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
            # The plan that runs is kept with its frame, and is not recreated.
            self.note(sum((measure_plan(frame.execution_plan()) for frame in running), MemoryUse()))
        return self._most
