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
                    "region_id": one.region_id,
                    "owned": one.is_open,
                    "epoch": one.epoch if one.is_open else None,
                    "since": one.since,
                    "owner_url": (url if one.is_open else one.owner_url) or None,
                    "rows": one.rows,
                    "bytes": one.bytes,
                    "groups": one.groups,
                    "requests": one.group_requests,
                    "queued_requests": one.queued_requests,
                    "queued_bytes": one.queued_bytes,
                    "unflushed_rows": one.unflushed_rows,
                    "unflushed_bytes": one.unflushed_bytes,
                    "wal_position": one.wal_position or None,
                    "claims": one.claims,
                    "fenced": one.fences,
                    "forwarded": one.forwards,
                    "in_doubt": one.in_doubt,
                    "lost_rows": one.failed_later,
                    "flushes": one.flushes,
                }
                for one in writer.stats()
            ]
        return pa.Table.from_pylist(rows, self.schema)
