"""Prometheus metrics that are counted as things happen."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import accumulate
from threading import RLock

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    Info,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from gateway.auth.calls import RpcObserver
from gateway.execution.running_queries import Query, QueryObserver, QueryState
from planner.bridge.run_control import SEARCH_KINDS

_RPC_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUERY_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_ENDED = (QueryState.FINISHED, QueryState.FAILED, QueryState.CANCELLED)


class _Seconds:
    """How long things took, by buckets.

    Args:
        bounds: of the buckets, ascending seconds; each takes what is at most as long.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        family.add_metric(labels, list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)


class Metrics(Collector, QueryObserver, RpcObserver):
    """Observes calls and statements; a registry of its own keeps servers of one process apart.

    What is counted for every call is counted here, under one lock, and becomes metrics when somebody looks:
    prometheus-client's counters take a lock and a dozen steps each.

    Attributes:
        registry: all metrics of one gateway.
    """

    def __init__(self) -> None:
        # When a series began is of no use to Prometheus, and doubles what it stores.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        # Reentrant: a stream that nobody holds any more ends wherever Python looks for such things.
        self._lock = RLock()
        self._calls: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._call_seconds: defaultdict[str, _Seconds] = defaultdict(lambda: _Seconds(_RPC_SECONDS))
        self._ended = dict.fromkeys(_ENDED, 0)
        self._query_seconds = _Seconds(_QUERY_SECONDS)
        self._queue_seconds = _Seconds(_QUERY_SECONDS)
        self._first_batch_seconds = _Seconds(_QUERY_SECONDS)
        self._rows = self._bytes = self._affected = 0
        self._regions_kept = self._regions_pruned = 0
        self._searches = dict.fromkeys(SEARCH_KINDS, 0)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        Info("lance_gateway", "The gateway's version.", registry=self.registry).info(
            {"version": version("lance-gateway")}
        )

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:
        """Counts a call."""
        with self._lock:
            self._calls[method, status] += 1
            self._call_seconds[method].add(seconds)

    def on_finished(self, query: Query) -> None:
        """Counts a statement: how long it waited and ran, what it read and sent."""
        with self._lock:
            self._ended[query.state] += 1
            self._rows += query.rows
            self._bytes += query.bytes
            self._affected += query.affected or 0
            if query.started_at is None:
                return
            self._queue_seconds.add(query.queue_seconds)
            self._query_seconds.add(query.run_seconds)
            if query.first_batch_at is not None:
                self._first_batch_seconds.add(query.first_batch_seconds)
            for read in query.reads:
                self._regions_kept += read.regions_kept
                self._regions_pruned += read.regions - read.regions_kept
                if read.search is not None:
                    self._searches[read.search] += 1

    def collect(self) -> list[Metric]:
        """What was counted so far."""
        with self._lock:
            return [*self._of_calls(), *self._of_statements(), *self._of_results()]

    def _of_calls(self) -> Iterator[Metric]:
        yield _counter(
            "rpcs",
            "Calls that have ended, by method and gRPC status.",
            ("method", "status"),
            self._calls.items(),
        )
        seconds = HistogramMetricFamily(
            "lance_gateway_rpc_duration_seconds",
            "Duration of calls; that of DoGet includes its stream.",
            labels=("method",),
        )
        for method, counted in self._call_seconds.items():
            counted.add_to(seconds, (method,))
        yield seconds

    def _of_statements(self) -> Iterator[Metric]:
        yield _counter(
            "queries",
            "Statements that have ended, by what became of them.",
            ("state",),
            (((state.value,), count) for state, count in self._ended.items()),
        )
        for name, documentation, seconds in (
            ("duration", "From leaving the queue to the last batch.", self._query_seconds),
            ("queue", "How long statements waited for their turn.", self._queue_seconds),
            ("first_batch", "From leaving the queue to the first batch.", self._first_batch_seconds),
        ):
            family = HistogramMetricFamily(f"lance_gateway_query_{name}_seconds", documentation)
            seconds.add_to(family)
            yield family

    def _of_results(self) -> Iterator[Metric]:
        for name, documentation, count in (
            ("sent_rows", "Rows sent by statements that have ended.", self._rows),
            ("sent_bytes", "Bytes sent by statements that have ended, uncompressed.", self._bytes),
            (
                "affected_rows",
                "Rows that statements inserted, updated or deleted, counted when they end.",
                self._affected,
            ),
        ):
            yield _counter(name, documentation, (), [((), count)])
        yield _counter(
            "regions",
            "Regions of the tables that statements read, by whether they were pruned.",
            ("verdict",),
            [(("kept",), self._regions_kept), (("pruned",), self._regions_pruned)],
        )
        yield _counter(
            "searches",
            "Searches of statements that have ended, by kind: vector, text or hybrid.",
            ("kind",),
            (((kind,), count) for kind, count in self._searches.items()),
        )


def _counter(
    name: str, documentation: str, labels: Sequence[str], counts: Iterable[tuple[Sequence[str], int]]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"lance_gateway_{name}", documentation, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family
