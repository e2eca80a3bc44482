"""`system.jobs`: the long jobs that run over the tables of the root, here and in other processes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.storage.jobs import JobRecord
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import MOMENT
from lance_gateway.planner.system.listing import TABLE_FIELDS
from lance_gateway.planner.tables.state.catalog import Catalog


class Jobs:
    """One row per running job over a table that the principal sees.

    Those whose rows are restricted don't see numbers, which would reveal hidden rows.

    Args:
        catalog: tables and views.
    """

    name = "jobs"
    schema = pa.schema(
        [
            ("job_id", pa.string()),
            ("kind", pa.string()),
            *TABLE_FIELDS,
            ("phase", pa.string()),
            ("done", pa.int64()),
            ("total", pa.int64()),
            ("unit", pa.string()),
            ("started_at", MOMENT),
            ("user", pa.string()),
            ("host", pa.string()),
            ("pid", pa.int64()),
        ]
    )

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def read(self, access: Access) -> pa.Table:
        """Return the jobs, the oldest first."""
        rows = [row for job in self._catalog.jobs.list_all() for row in _list_rows(job, access)]
        return pa.Table.from_pylist(rows, self.schema)


def _list_rows(job: JobRecord, access: Access) -> list[dict[str, Any]]:
    table = TableName.parse(job.table)
    seen = access.of(table)
    if seen is None:
        return []
    row = {
        "job_id": job.job_id,
        "kind": job.kind,
        "table_schema": table.schema,
        "table_name": table.table,
        "phase": job.phase,
        "unit": job.unit,
        "started_at": datetime.fromtimestamp(job.started_at, UTC),
        "user": job.user,
        "host": job.host,
        "pid": job.pid,
    }
    if access.is_admin or seen.is_unrestricted:
        row |= {"done": job.done, "total": job.total}
    return [row]
