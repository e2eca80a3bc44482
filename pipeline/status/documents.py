"""Status as JSON, whose names don't change."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipeline.status.reading import TableStatus

FORMAT = 1
"""Number of the schema; keys may be added to it, but none leaves it."""


def document(statuses: list[TableStatus], failures: dict[str, str], *, regions: bool) -> dict[str, Any]:
    """All tables as one JSON object.

    Args:
        statuses: of the tables that could be read.
        failures: table -> why it could not be.
        regions: whether to tell of each region.
    """
    tables = [_table(one, regions=regions) for one in statuses]
    tables += [{"table": name, "error": reason} for name, reason in failures.items()]
    return {"format": FORMAT, "tables": sorted(tables, key=lambda one: str(one["table"]))}


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
        "indexes": [asdict(one) for one in status.indexes],
    }
    if regions:
        found["by_region"] = [asdict(one) for one in status.regions]
    return found
