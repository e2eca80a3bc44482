"""Status for people, on a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.status.reading import RegionStatus, TableStatus

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
    parts = (part for one in statuses for part in (_tables([one]), _regions(one), Text()))
    return Group(*parts, legend)


def _tables(statuses: list[TableStatus]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("TABLE", overflow="fold", min_width=5)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for one in statuses:
        if not one.has_mem_wal:
            table.add_row(one.table, str(one.version), *["-"] * (len(_COLUMNS) - 1))
            continue
        table.add_row(
            one.table,
            str(one.version),
            str(len(one.regions)),
            str(one.pending_generations),
            _number(one.pending_rows),
            _size(one.pending_bytes),
            _age(one.oldest_pending_seconds),
            _number(one.unflushed_entries),
            str(max((index.generations_behind for index in one.indexes), default=0)),
            _age(one.snapshot_age_seconds),
        )
    return table


def _regions(status: TableStatus) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("  REGION", no_wrap=True)
    for name in ("EPOCH", "NEXT", "MERGED", "PENDING", "ROWS", "OLDEST", "LOG"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in status.regions:
        table.add_row(f"  {_short(one, status)}", *_of(one))
    return table


def _of(region: RegionStatus) -> tuple[str, ...]:
    return (
        str(region.writer_epoch)
        + (" sealed" if region.is_sealed else "")
        + (" two ids" if region.lancedb_id else ""),
        str(region.current_generation),
        str(region.merged_generation),
        str(region.pending_generations),
        _number(region.pending_rows),
        _age(region.oldest_pending_seconds),
        _number(region.unflushed_entries),
    )


def _short(region: RegionStatus, status: TableStatus) -> str:
    """As much of the id as tells the regions of a table apart, and all of it where that is not enough."""
    start = region.region_id[:8]
    others = sum(one.region_id.startswith(start) for one in status.regions)
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
