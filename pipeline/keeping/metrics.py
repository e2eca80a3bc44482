"""What a keeper did, and how its tables are, for Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from memwal.errors import LanceGatewayError
from pipeline.jobs.lake import LakeTable
from pipeline.keeping.steps import Done
from pipeline.status.metrics import StatusCollector
from pipeline.status.reading import TableStatus, read_status

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)


class KeeperMetrics:
    """Observes a keeper.

    Attributes:
        registry: of all metrics.
    """

    def __init__(self) -> None:
        # When a series began is of no use to Prometheus, and doubles what it stores.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._steps = Counter(
            "lance_pipeline_steps",
            "Steps that have ended, by what became of them: done, idle or failed.",
            ("table", "step", "outcome"),
            registry=self.registry,
        )
        self._step_seconds = Histogram(
            "lance_pipeline_step_duration_seconds",
            "Duration of steps.",
            ("step",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._work = Counter(
            "lance_pipeline_work",
            "What steps did, such as generations that were merged.",
            ("table", "step", "what"),
            registry=self.registry,
        )
        self._failures = Gauge(
            "lance_pipeline_table_failures",
            "Looks at a table in a row that have failed.",
            ("table",),
            registry=self.registry,
        )
        self._kept_at = Gauge(
            "lance_pipeline_table_kept_timestamp_seconds",
            "When a table was looked at last and was as it should be, or was made so.",
            ("table",),
            registry=self.registry,
        )
        self._round_seconds = Histogram(
            "lance_pipeline_round_duration_seconds",
            "Duration of looks at all tables.",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def on_step(self, table: str, step: str, done: Done | None, seconds: float) -> None:
        """Counts it."""
        outcome = "failed" if done is None else "done" if done.what else "idle"
        self._steps.labels(table, step, outcome).inc()
        self._step_seconds.labels(step).observe(seconds)
        for what, count in ((done and done.counts) or {}).items():
            self._work.labels(table, step, what).inc(count)

    def on_table(self, table: str, failures: int) -> None:
        """Notes how it is."""
        self._failures.labels(table).set(failures)
        if not failures:
            self._kept_at.labels(table).set_to_current_time()

    def on_gone(self, table: str) -> None:
        """Forgets it."""
        for metric in (self._steps, self._work, self._failures, self._kept_at):
            metric.remove_by_labels({"table": table})

    def on_round(self, seconds: float) -> None:
        """Counts it."""
        self._round_seconds.observe(seconds)

    def watch(self, tables: Callable[[], Iterable[LakeTable]], fresh_seconds: float) -> None:
        """Tell how tables are, too.

        Args:
            tables: gives those that are kept.
            fresh_seconds: how long what was found is told again.
        """
        self.registry.register(StatusCollector(_Statuses(tables, fresh_seconds)))


class _Statuses:
    """Reads statuses when they are asked for, but not too often."""

    def __init__(self, tables: Callable[[], Iterable[LakeTable]], fresh_seconds: float) -> None:
        self._tables = tables
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._known: list[TableStatus] = []

    def __call__(self) -> Iterable[TableStatus]:
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at >= self._fresh_seconds:
                self._known = list(self._read())
                self._read_at = time.monotonic()
            return self._known

    def _read(self) -> Iterable[TableStatus]:
        for table in self._tables():
            try:
                yield read_status(table)
            except LanceGatewayError:  # The keeper meets and tells it, too.
                continue
