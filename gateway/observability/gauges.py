"""Prometheus metrics that are looked up when they are asked for: nothing is paid in between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sized
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.execution.running_queries import Queries, QueryState
from planner.tables.state.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Gauges(Collector):
    """The state of a server and its catalog; only what is in memory already, so a scrape reads no table.

    Args:
        queries: the statements.
        sessions: of clients.
        prepared: statements that are kept for clients.
        catalog: caches, and the tables that were read so far.
    """

    queries: Queries
    sessions: Sized
    prepared: Sized
    catalog: Catalog

    def register(self, registry: CollectorRegistry) -> None:
        """Adds these metrics to a registry."""
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Looks everything up."""
        yield from self._server()
        yield from self._caches()
        yield from self._tables()

    def _server(self) -> Iterator[Metric]:
        states = [query.state for query in self.queries.active()]
        yield GaugeMetricFamily(
            "lance_gateway_queries_running",
            "Statements that run now.",
            value=states.count(QueryState.RUNNING),
        )
        yield GaugeMetricFamily(
            "lance_gateway_queries_queued",
            "Statements that wait for their turn now.",
            value=states.count(QueryState.QUEUED),
        )
        yield GaugeMetricFamily(
            "lance_gateway_sessions", "Sessions that are remembered.", value=len(self.sessions)
        )
        yield GaugeMetricFamily(
            "lance_gateway_prepared_statements",
            "Prepared statements with parameters, which are remembered.",
            value=len(self.prepared),
        )

    def _caches(self) -> Iterator[Metric]:
        held = GaugeMetricFamily("lance_gateway_cache_bytes", "Bytes that a cache holds.", labels=("cache",))
        limit = GaugeMetricFamily(
            "lance_gateway_cache_max_bytes", "Bytes that a cache may hold.", labels=("cache",)
        )
        lookups = CounterMetricFamily(
            "lance_gateway_cache_lookups",
            "Lookups in a cache, by whether they found something.",
            labels=("cache", "result"),
        )
        for name, cache in self.catalog.caches.items():
            held.add_metric((name,), cache.nbytes)
            limit.add_metric((name,), cache.max_bytes)
            lookups.add_metric((name, "hit"), cache.hits)
            lookups.add_metric((name, "miss"), cache.misses)
        held.add_metric(("lance",), self.catalog.lance_cache_bytes)
        yield from (held, limit, lookups)

    def _tables(self) -> Iterator[Metric]:
        version = _of_tables("version", "Version of the base table that was read last.")
        age = _of_tables("snapshot_age_seconds", "Seconds since a table was looked at last.")
        generations = _of_tables(
            "generations", "Flushed generations that are not merged, in the regions that were read last."
        )
        rows = _of_tables(
            "unflushed_rows", "Rows that are in the WAL only, in the regions that were read last."
        )
        now = time.monotonic()
        for table in self.catalog.opened():
            snapshot, looked_at = table.last_snapshot, table.looked_at
            if snapshot is None or looked_at is None:
                continue
            label = (table.name,)
            version.add_metric(label, snapshot.base.version)
            age.add_metric(label, max(now - looked_at, 0.0))
            generations.add_metric(label, len(snapshot.generations))
            rows.add_metric(label, sum(tail.rows.num_rows for tail in snapshot.tails))
        yield from (version, age, generations, rows)


def _of_tables(name: str, documentation: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"lance_gateway_table_{name}", documentation, labels=("table",))
