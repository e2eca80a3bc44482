"""Prometheus metrics that are counted as things happen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from importlib.metadata import version
from typing import TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.queries import Query, QueryState
from planner.control import SEARCH_KINDS, TableRead

_RPC_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUERY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_MAX_PENDING = 1000
_Times: TypeAlias = tuple[datetime, datetime | None, datetime | None, datetime | None]
_ENDED = (QueryState.FINISHED, QueryState.FAILED, QueryState.CANCELLED)


class Metrics(Collector):
    """Observes calls and statements; a registry of its own keeps servers of one process apart.

    Attributes:
        registry: all metrics of one gateway.
    """

    def __init__(self) -> None:
        # When a series began is of no use to Prometheus, and doubles what it stores.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._pending: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("lance_gateway", "The gateway's version.", registry=self.registry).info(
            {"version": version("lance-gateway")}
        )
        self._calls = Counter(
            "lance_gateway_rpcs",
            "Calls that have ended, by method and gRPC status.",
            ("method", "status"),
            registry=self.registry,
        )
        self._call_seconds = Histogram(
            "lance_gateway_rpc_duration_seconds",
            "Duration of calls; that of DoGet includes its stream.",
            ("method",),
            buckets=_RPC_SECONDS,
            registry=self.registry,
        )
        self._queries = Counter(
            "lance_gateway_queries",
            "Statements that have ended, by what became of them.",
            ("state",),
            registry=self.registry,
        )
        self._query_seconds = self._histogram(
            "lance_gateway_query_duration_seconds", "From leaving the queue to the last batch."
        )
        self._queue_seconds = self._histogram(
            "lance_gateway_query_queue_seconds", "How long statements waited for their turn."
        )
        self._first_batch_seconds = self._histogram(
            "lance_gateway_query_first_batch_seconds", "From leaving the queue to the first batch."
        )
        self._rows = Counter(
            "lance_gateway_sent_rows", "Rows sent by statements that have ended.", registry=self.registry
        )
        self._bytes = Counter(
            "lance_gateway_sent_bytes",
            "Bytes sent by statements that have ended, uncompressed.",
            registry=self.registry,
        )
        self._affected = Counter(
            "lance_gateway_affected_rows",
            "Rows that statements inserted, updated or deleted, counted when they end.",
            registry=self.registry,
        )
        self._regions = Counter(
            "lance_gateway_regions",
            "Regions of the tables that statements read, by whether they were pruned.",
            ("verdict",),
            registry=self.registry,
        )
        searches = Counter(
            "lance_gateway_searches",
            "Searches of statements that have ended, by kind: vector, text or hybrid.",
            ("kind",),
            registry=self.registry,
        )
        self._searches = {kind: searches.labels(kind) for kind in SEARCH_KINDS}
        self._ended = {state: self._queries.labels(state.value) for state in _ENDED}
        # Looking a label up costs more than counting.
        self._of_call = lru_cache(maxsize=256)(self._calls.labels)
        self._of_method = lru_cache(maxsize=32)(self._call_seconds.labels)
        self._kept, self._pruned = self._regions.labels("kept"), self._regions.labels("pruned")

    def on_call(self, method: str, headers: Mapping[str, Sequence[str]]) -> None:
        """Nothing is known of a call yet."""

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:
        """Counts a call."""
        self._later(self._count_call, method, status, seconds)

    def on_started(self, query: Query) -> None:
        """Nothing is known of the statement yet."""

    def on_finished(self, query: Query) -> None:
        """Counts a statement: how long it waited and ran, what it read and sent."""
        times = query.created_at, query.started_at, query.first_batch_at, query.finished_at
        counts = query.rows, query.bytes, query.affected or 0
        self._later(self._count_query, query.state, counts, times, query.control.reads)

    def describe(self) -> Sequence[Metric]:
        """Nothing of its own: it is a collector only to be asked before the others."""
        return ()

    def collect(self) -> Sequence[Metric]:
        """Counts what has happened since the last time."""
        while self._pending:
            # Whoever else counts at the same time may take the last one first.
            with suppress(IndexError):
                count, values = self._pending.popleft()
                count(*values)
        return ()

    def _later(self, count: Callable[..., None], *values: object) -> None:
        """Counts when somebody looks: a call waits for no lock of a metric."""
        self._pending.append((count, values))
        if len(self._pending) >= _MAX_PENDING:
            self.collect()

    def _count_call(self, method: str, status: str, seconds: float) -> None:
        self._of_call(method, status).inc()
        self._of_method(method).observe(seconds)

    def _count_query(
        self, state: QueryState, counts: tuple[int, int, int], times: _Times, reads: Sequence[TableRead]
    ) -> None:
        rows, size, affected = counts
        created_at, started_at, first_batch_at, finished_at = times
        self._ended[state].inc()
        self._rows.inc(rows)
        self._bytes.inc(size)
        self._affected.inc(affected)
        if started_at is None:
            return
        self._queue_seconds.observe(between(created_at, started_at))
        self._query_seconds.observe(between(started_at, finished_at))
        if first_batch_at is not None:
            self._first_batch_seconds.observe(between(started_at, first_batch_at))
        for read in reads:
            self._kept.inc(read.regions_kept)
            self._pruned.inc(read.regions - read.regions_kept)
            if read.search is not None:
                self._searches[read.search].inc()

    def _histogram(self, name: str, documentation: str) -> Histogram:
        return Histogram(name, documentation, buckets=_QUERY_SECONDS, registry=self.registry)


def between(start: datetime | None, end: datetime | None) -> float:
    """Returns the seconds from one moment to another; 0 where one of them never came."""
    return 0.0 if start is None or end is None else max((end - start).total_seconds(), 0.0)
