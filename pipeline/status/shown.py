"""Status for people on a terminal, for programs as JSON, and for Prometheus."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lance_gateway.pipeline.status.reading import RegionStatus, TableStatus

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


def format_exposition(statuses: Iterable[TableStatus], *, regions: bool) -> str:
    """All gauges in Prometheus's text format."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: statuses, regions=regions))
    return generate_latest(registry).decode()


FORMAT = 1
"""Number of the schema; keys may be added to it, but none leaves it."""


def build_document(statuses: list[TableStatus], failures: dict[str, str], *, regions: bool) -> dict[str, Any]:
    """All tables as one JSON object."""
    tables = [_table(status, regions=regions) for status in statuses]
    tables += [{"table": name, "error": reason} for name, reason in failures.items()]
    return {"format": FORMAT, "tables": sorted(tables, key=lambda table: str(table["table"]))}


def _table(status: TableStatus, *, regions: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "table": status.table,
        "version": status.version,
        "rows": status.rows,
        "deleted_rows": status.deleted_rows,
        "fragments": status.fragments,
        "has_mem_wal": status.has_mem_wal,
        "regions": len(status.regions),
        "pending_generations": status.pending_generations,
        "pending_rows": status.pending_rows,
        "pending_bytes": status.pending_bytes,
        "oldest_pending_seconds": status.oldest_pending_seconds,
        "merged_listed": status.merged_listed,
        "unflushed_entries": status.unflushed_entries,
        "snapshot_age_seconds": status.snapshot_age_seconds,
        "indexes": [asdict(index) for index in status.indexes],
    }
    if regions:
        found["by_region"] = [asdict(region) for region in status.regions]
    return found


_COLUMNS = ("VERSION", "REGIONS", "PENDING", "ROWS", "SIZE", "OLDEST", "LOG", "LAG", "SNAPSHOT")
_LEGEND = (
    "PENDING generations wait to be merged, the OLDEST for so long. LOG: entries that are not flushed. "
    "LAG: merged generations that an index lacks. SNAPSHOT: age of region snapshots."
)


def render(statuses: list[TableStatus], *, regions: bool) -> RenderableType:
    """Tables, one line each; and below each its regions, if wished."""
    legend = Text(_LEGEND, style="dim")
    if not regions:
        return Group(_tables(statuses), legend)
    parts = (part for status in statuses for part in (_tables([status]), _regions(status), Text()))
    return Group(*parts, legend)


def _tables(statuses: list[TableStatus]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("TABLE", overflow="fold", min_width=5)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for status in statuses:
        if not status.has_mem_wal:
            table.add_row(status.table, str(status.version), *["-"] * (len(_COLUMNS) - 1))
            continue
        table.add_row(
            status.table,
            str(status.version),
            str(len(status.regions)),
            str(status.pending_generations),
            _number(status.pending_rows),
            _size(status.pending_bytes),
            _age(status.oldest_pending_seconds),
            _number(status.unflushed_entries),
            str(max((index.generations_behind for index in status.indexes), default=0)),
            _age(status.snapshot_age_seconds),
        )
    return table


def _regions(status: TableStatus) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("  REGION", no_wrap=True)
    for name in ("EPOCH", "NEXT", "MERGED", "PENDING", "ROWS", "OLDEST", "LOG"):
        table.add_column(name, justify="right", no_wrap=True)
    for region in status.regions:
        table.add_row(f"  {_short(region, status)}", *_of(region))
    return table


def _of(region: RegionStatus) -> tuple[str, ...]:
    return (
        str(region.writer_epoch) + (" sealed" if region.is_sealed else ""),
        str(region.current_generation),
        str(region.merged_generation),
        str(region.pending_generations),
        _number(region.pending_rows),
        _age(region.oldest_pending_seconds),
        _number(region.unflushed_entries),
    )


def _short(region: RegionStatus, status: TableStatus) -> str:
    """Shorten a region id if it stays unique in the table."""
    start = region.region_id[:8]
    others = sum(region.region_id.startswith(start) for region in status.regions)
    return start if others == 1 else region.region_id


def _number(number: int) -> str:
    """With three digits or so."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= 10 * size:
            return f"{number / size:.0f}{unit}"
        if number >= 1.5 * size and unit != "k":
            return f"{number / size:.1f}{unit}"
    return str(number)


def _size(number: int) -> str:
    return f"{_number(number)}B"


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
