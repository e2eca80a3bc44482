"""Prometheus metrics of what there is, looked up when they are asked for, and of what writers do."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from lance_gateway.gateway.execution.query import QueryState
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.execution.workers.pool import WorkerPool
from lance_gateway.memwal.writing.observing import RegionStats, WriteObserver
from lance_gateway.planner.tables.state.catalog import Catalog

_PUT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_CLAIM_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Metric -> field of the statistics, what it means.
_COUNTERS = (
    ("written_rows", "rows", "Rows and keys that were written to regions."),
    ("written_bytes", "bytes", "Bytes of rows and keys that were written to regions."),
    ("write_groups", "groups", "Log entries that were written; each may hold the rows of several requests."),
    ("write_requests", "group_requests", "Requests whose rows were written in such groups."),
    ("region_claims", "claims", "How often regions were claimed."),
    ("region_fences", "fences", "How often regions were lost to another writer."),
    ("forwards", "forwards", "Requests that the owner of a region was asked to write."),
    ("writes_in_doubt", "in_doubt", "Writes that failed without telling whether the rows arrived."),
    ("lost_rows", "failed_later", "Rows that were acknowledged before they were durable, and then lost."),
    ("flushes", "flushes", "How often a region was flushed and let go."),
)
_GAUGES = (
    ("write_queue_bytes", "queued_bytes", "Bytes of rows that wait for their region's writer."),
    ("write_queue_requests", "queued_requests", "Requests that wait for their region's writer."),
    ("unflushed_written_rows", "unflushed_rows", "Rows of open regions that are not in a generation yet."),
    ("unflushed_written_bytes", "unflushed_bytes", "Bytes of the same."),
)


class WriteEvents(WriteObserver):
    """Forwards events of writers to observers, which are created after the writers."""

    def __init__(self) -> None:
        self._listeners: tuple[WriteObserver, ...] = ()

    def listen(self, *listeners: WriteObserver) -> None:
        """Add observers."""
        self._listeners = (*self._listeners, *listeners)

    def on_group(
        self, table: str, region_id: str, requests: int, rows: int, nbytes: int, seconds: float
    ) -> None:
        """Observe a group that was written."""
        for listener in self._listeners:
            listener.on_group(table, region_id, requests, rows, nbytes, seconds)

    def on_claim(self, table: str, region_id: str, epoch: int, seconds: float) -> None:
        """Observe a region that was claimed."""
        for listener in self._listeners:
            listener.on_claim(table, region_id, epoch, seconds)

    def on_fenced(self, table: str, region_id: str, epoch: int) -> None:
        """Observe a region that was lost."""
        for listener in self._listeners:
            listener.on_fenced(table, region_id, epoch)

    def on_forward(self, table: str, region_id: str, url: str, rows: int, seconds: float) -> None:
        """Observe rows that were forwarded."""
        for listener in self._listeners:
            listener.on_forward(table, region_id, url, rows, seconds)


class WriteMetrics(Collector, WriteObserver):
    """Measures durations of writes and sizes of groups; writers keep the plain counts.

    Args:
        registry: shows it.
        tables: names those that there are; what was measured of others is forgotten.
    """

    def __init__(self, registry: CollectorRegistry, tables: Callable[[], Iterable[str]]) -> None:
        self._list_tables = tables
        self._measured: set[str] = set()
        # Before the others: it is asked first, and makes them forget.
        registry.register(self)

        def measure(name: str, documentation: str, buckets: Sequence[float]) -> Histogram:
            name = f"lance_gateway_{name}"
            return Histogram(name, documentation, ("table",), buckets=buckets, registry=registry)

        what = "How long storage took for a group of requests, which are one log entry."
        self._put_seconds = measure("write_group_duration_seconds", what, _PUT_SECONDS)
        self._group_requests = measure("write_group_size", "Requests in a group.", _REQUESTS)
        what = "How long claiming a region took, with the time that its owner was waited for."
        self._claim_seconds = measure("region_claim_duration_seconds", what, _CLAIM_SECONDS)
        what = "How long the owner of a region took to write rows that were forwarded to it."
        self._forward_seconds = measure("forward_duration_seconds", what, _PUT_SECONDS)

    def describe(self) -> Sequence[Metric]:
        """Return nothing: its histograms are registered by themselves."""
        return ()

    def collect(self) -> Sequence[Metric]:
        """Drop the series of dropped tables: each table has dozens of them."""
        for gone in self._measured.difference(self._list_tables()):
            self._measured.discard(gone)
            for one in (self._put_seconds, self._group_requests, self._claim_seconds, self._forward_seconds):
                one.remove(gone)
        return ()

    def on_group(
        self,
        table: str,
        region_id: str,  # noqa: ARG002
        requests: int,
        rows: int,  # noqa: ARG002
        nbytes: int,  # noqa: ARG002
        seconds: float,
    ) -> None:
        """Measure a group."""
        self._measured.add(table)
        self._put_seconds.labels(table).observe(seconds)
        self._group_requests.labels(table).observe(requests)

    def on_claim(self, table: str, region_id: str, epoch: int, seconds: float) -> None:  # noqa: ARG002
        """Measure a claim."""
        self._measured.add(table)
        self._claim_seconds.labels(table).observe(seconds)

    def on_forward(self, table: str, region_id: str, url: str, rows: int, seconds: float) -> None:  # noqa: ARG002
        """Measure a forward."""
        self._measured.add(table)
        self._forward_seconds.labels(table).observe(seconds)


@dataclass(frozen=True, slots=True)
class WriteGauges(Collector):
    """Counts of a catalog's writers, by table; a scrape reads no table."""

    catalog: Catalog

    def collect(self) -> Iterator[Metric]:
        """Look everything up."""
        tables = [(name, tuple(stats)) for name, stats in list_region_stats(self.catalog)]
        owned = _create_gauge("owned_regions", "Regions that this gateway owns.")
        for name, stats in tables:
            owned.add_metric((name,), sum(stat.is_open for stat in stats))
        yield owned
        for metric, field, documentation in _COUNTERS:
            counter = CounterMetricFamily(f"lance_gateway_{metric}", documentation, labels=("table",))
            for name, stats in tables:
                counter.add_metric((name,), sum(getattr(stat, field) for stat in stats))
            yield counter
        for metric, field, documentation in _GAUGES:
            gauge = _create_gauge(metric, documentation)
            for name, stats in tables:
                gauge.add_metric((name,), sum(getattr(stat, field) for stat in stats))
            yield gauge


def list_region_stats(catalog: Catalog) -> Iterator[tuple[str, Sequence[RegionStats]]]:
    """Yield the tables with writers, and the statistics of their regions."""
    for table in catalog.list_open_tables():
        writer = table.opened_writer
        if writer is not None and not table.name.is_temporary:
            yield table.name, writer.stats()


def _create_gauge(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lance_gateway_{name}", documentation, labels=("table",))


@dataclass(frozen=True, slots=True)
class Gauges(Collector):
    """The state of a server and its catalog; only what is in memory already, so a scrape reads no table."""

    queries: Queries
    sessions: Sized
    prepared: Sized
    catalog: Catalog

    def register(self, registry: CollectorRegistry) -> None:
        """Add these metrics to a registry."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Look everything up."""
        yield from self._collect_server()
        yield from self._collect_caches()
        yield from self._collect_tables()

    def _collect_server(self) -> Iterator[Metric]:
        states = [query.state for query in self.queries.list_active()]
        for name, documentation, value in (
            ("queries_running", "Statements that run now.", states.count(QueryState.RUNNING)),
            ("queries_queued", "Statements that wait for their turn now.", states.count(QueryState.QUEUED)),
            ("sessions", "Sessions that are remembered.", len(self.sessions)),
            (
                "prepared_statements",
                "Prepared statements with parameters, which are remembered.",
                len(self.prepared),
            ),
        ):
            yield GaugeMetricFamily(f"lance_gateway_{name}", documentation, value=value)

    def _collect_caches(self) -> Iterator[Metric]:
        size = GaugeMetricFamily("lance_gateway_cache_bytes", "Bytes that a cache holds.", labels=("cache",))
        limit = GaugeMetricFamily(
            "lance_gateway_cache_max_bytes", "Bytes that a cache may hold.", labels=("cache",)
        )
        lookups = CounterMetricFamily(
            "lance_gateway_cache_lookups",
            "Lookups in a cache, by whether they found something.",
            labels=("cache", "result"),
        )
        for name, cache in self.catalog.caches.items():
            size.add_metric((name,), cache.nbytes)
            limit.add_metric((name,), cache.max_bytes)
            lookups.add_metric((name, "hit"), cache.hits)
            lookups.add_metric((name, "miss"), cache.misses)
        size.add_metric(("lance",), self.catalog.lance_cache_bytes)
        shared = self.catalog.shared.files
        if shared is not None:
            totals = shared.read_totals()
            size.add_metric(("shared",), totals.nbytes)
            limit.add_metric(("shared",), shared.max_bytes)
            lookups.add_metric(("shared", "hit"), totals.hits)
            lookups.add_metric(("shared", "miss"), totals.misses)
        yield from (size, limit, lookups)

    def _collect_tables(self) -> Iterator[Metric]:
        version = _create_table_gauge("version", "Version of the base table that was read last.")
        age = _create_table_gauge("snapshot_age_seconds", "Seconds since a table was looked at last.")
        generations = _create_table_gauge(
            "generations", "Flushed generations that are not merged, in the regions that were read last."
        )
        rows = _create_table_gauge(
            "unflushed_rows", "Rows that are in the WAL only, in the regions that were read last."
        )
        now = time.monotonic()
        for table in self.catalog.list_open_tables():
            snapshot, looked_at = table.last_snapshot, table.last_read_at
            if snapshot is None or looked_at is None or table.name.is_temporary:
                continue
            label = (table.name,)
            version.add_metric(label, snapshot.base.version)
            age.add_metric(label, max(now - looked_at, 0.0))
            generations.add_metric(label, len(snapshot.generations))
            rows.add_metric(label, sum(tail.rows.num_rows for tail in snapshot.tails))
        yield from (version, age, generations, rows)


@dataclass(frozen=True, slots=True)
class WorkerCounts(Collector):
    """How many workers have ended and were started, and the memory of those that there are."""

    pool: WorkerPool

    def collect(self) -> Iterator[Metric]:
        """Look everything up."""
        deaths = CounterMetricFamily(
            "lance_gateway_worker_deaths", "Workers that have ended unasked.", labels=("reason",)
        )
        for reason, count in self.pool.deaths.items():
            deaths.add_metric((reason.value,), count)
        yield deaths
        yield CounterMetricFamily(
            "lance_gateway_worker_replacements",
            "Workers that were started in the place of others.",
            value=self.pool.replacements,
        )
        yield GaugeMetricFamily(
            "lance_gateway_worker_memory_bytes",
            "Memory of all workers that is not shared with other processes.",
            value=sum(worker.read_memory_bytes() for worker in self.pool.list_workers()),
        )


def _create_table_gauge(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lance_gateway_table_{name}", documentation, labels=("table",))
