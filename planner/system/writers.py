"""`system.writers`: the regions that this gateway writes, and their owners."""

from __future__ import annotations

import pyarrow as pa

from planner.access.rights import Access
from planner.access.visible_catalog import MOMENT
from planner.tables.state.catalog import Catalog


class Writers:
    """One row per region to which this gateway wrote or forwarded rows since it started.

    Reading it does not access storage.

    Args:
        catalog: tables and views.
    """

    name = "writers"
    schema = pa.schema(
        [
            ("table_name", pa.string()),
            ("region_id", pa.string()),
            ("owned", pa.bool_()),
            ("epoch", pa.uint64()),
            ("since", MOMENT),
            ("owner_url", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("groups", pa.int64()),
            ("requests", pa.int64()),
            ("queued_requests", pa.int64()),
            ("queued_bytes", pa.int64()),
            ("unflushed_rows", pa.int64()),
            ("unflushed_bytes", pa.int64()),
            ("wal_position", pa.uint64()),
            ("claims", pa.int64()),
            ("fenced", pa.int64()),
            ("forwarded", pa.int64()),
            ("in_doubt", pa.int64()),
            ("lost_rows", pa.int64()),
            ("flushes", pa.int64()),
        ]
    )

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def read(self, access: Access) -> pa.Table:
        """Return regions of tables without restrictions; administrators see those of all their tables."""
        rows = []
        url = "" if self._catalog.writing is None else self._catalog.writing.url
        for table in self._catalog.list_open_tables():
            seen = access.of(table.name)
            writer = table.opened_writer
            # Statistics of writes would reveal hidden rows.
            if writer is None or seen is None or not (access.is_admin or seen.is_unrestricted):
                continue
            rows += [
                {
                    "table_name": table.name,
                    "region_id": stat.region_id,
                    "owned": stat.is_open,
                    "epoch": stat.epoch if stat.is_open else None,
                    "since": stat.since,
                    "owner_url": (url if stat.is_open else stat.owner_url) or None,
                    "rows": stat.rows,
                    "bytes": stat.bytes,
                    "groups": stat.groups,
                    "requests": stat.group_requests,
                    "queued_requests": stat.queued_requests,
                    "queued_bytes": stat.queued_bytes,
                    "unflushed_rows": stat.unflushed_rows,
                    "unflushed_bytes": stat.unflushed_bytes,
                    "wal_position": stat.wal_position or None,
                    "claims": stat.claims,
                    "fenced": stat.fences,
                    "forwarded": stat.forwards,
                    "in_doubt": stat.in_doubt,
                    "lost_rows": stat.failed_later,
                    "flushes": stat.flushes,
                }
                for stat in writer.stats()
            ]
        return pa.Table.from_pylist(rows, self.schema)
