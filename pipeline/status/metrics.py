"""Status in Prometheus's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from pipeline.status.reading import RegionStatus, TableStatus

_Of: TypeAlias = tuple[str, str, Callable[[TableStatus], float | None]]

_PENDING: Final[tuple[tuple[str, str, Callable[[TableStatus | RegionStatus], float]], ...]] = (
    (
        "pending_generations",
        "Flushed generations that the base table lacks.",
        lambda x: x.pending_generations,
    ),
    ("pending_rows", "Rows in pending generations.", lambda x: x.pending_rows),
    ("pending_bytes", "Bytes of the data files of pending generations.", lambda x: x.pending_bytes),
    (
        "oldest_pending_age_seconds",
        "Since the oldest pending generation was flushed.",
        lambda x: x.oldest_pending_seconds or 0.0,
    ),
)
"""Told of tables and of regions alike."""
_TABLES: Final[tuple[_Of, ...]] = (
    *_PENDING,
    ("merged_listed_generations", "Merged generations to be cleaned up.", lambda x: x.merged_listed),
    ("unflushed_entries", "Entries of logs that no generation has.", lambda x: x.unflushed_entries),
    ("regions", "Regions.", lambda x: len(x.regions)),
    ("base_version", "Version of the base table.", lambda x: x.version),
    ("base_rows", "Rows of the base table.", lambda x: x.rows),
    ("base_deleted_rows", "Deleted rows that files of the base table hold.", lambda x: x.deleted_rows),
    ("base_fragments", "Fragments of the base table.", lambda x: x.fragments),
    (
        "snapshot_age_seconds",
        "Since regions were remembered in the base table; absent where they never were.",
        lambda x: x.snapshot_age_seconds,
    ),
)
_REGIONS: Final[tuple[tuple[str, str, Callable[[RegionStatus], float]], ...]] = (
    *_PENDING,
    ("unflushed_entries", "Entries of the log that no generation has.", lambda x: x.unflushed_entries),
    ("merged_generation", "Newest generation that the base table contains.", lambda x: x.merged_generation),
    ("current_generation", "Number of the next flushed generation.", lambda x: x.current_generation),
    ("writer_epoch", "Epoch of the writer that claimed the region last.", lambda x: x.writer_epoch),
)


class StatusCollector(Collector):
    """Gauges of tables, and of their regions if wished.

    Args:
        statuses: gives the tables whenever they are asked for.
        regions: whether to tell of each region; that is many series.
    """

    def __init__(self, statuses: Callable[[], Iterable[TableStatus]], *, regions: bool = False) -> None:
        self._statuses = statuses
        self._regions = regions

    def collect(self) -> Iterator[Metric]:
        """All gauges as they are now."""
        statuses = tuple(self._statuses())
        for name, meaning, of_table in _TABLES:
            gauge = GaugeMetricFamily(f"lance_pipeline_table_{name}", meaning, labels=("table",))
            for status in statuses:
                value = of_table(status)
                if value is not None:
                    gauge.add_metric((status.table,), value)
            yield gauge
        behind = GaugeMetricFamily(
            "lance_pipeline_index_behind_generations",
            "Merged generations that an index is not known to cover.",
            labels=("table", "index"),
        )
        for status in statuses:
            for index in status.indexes:
                behind.add_metric((status.table, index.name), index.generations_behind)
        yield behind
        for name, meaning, of_region in _REGIONS if self._regions else ():
            gauge = GaugeMetricFamily(f"lance_pipeline_region_{name}", meaning, labels=("table", "region"))
            for status in statuses:
                for region in status.regions:
                    gauge.add_metric((status.table, region.region_id), of_region(region))
            yield gauge


def exposition(statuses: Iterable[TableStatus], *, regions: bool) -> str:
    """All gauges in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: statuses, regions=regions))
    return generate_latest(registry).decode()
