"""Changes of a table as changes of its regions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from memwal.writing.changes import Changes
from memwal.writing.opened import OpenTable

Part = tuple[pa.Table | None, pa.Table | None]


def split(table: OpenTable, changes: Changes) -> Mapping[str, Part]:
    """Region id -> its rows and its keys, as the region writers take them; None for none.

    Raises:
        InvalidInputError: rows don't fit the table's columns, or columns are missing.
        PreconditionError: rows can't be routed, or the table has no key.
    """
    parts: dict[str, Part] = {}
    upserts, deletes = changes.upserts, changes.deletes
    if upserts is not None and upserts.num_rows:
        for region_id, rows in _by_region(table, upserts, table.upserts(upserts)).items():
            parts[region_id] = rows, None
    if deletes is not None and deletes.num_rows:
        for region_id, rows in _by_region(table, deletes, table.deletes(deletes)).items():
            parts[region_id] = parts.get(region_id, (None, None))[0], rows
    return parts


def _by_region(table: OpenTable, given: pa.Table, rows: pa.Table) -> dict[str, pa.Table]:
    routed = table.routed(given)
    if len(routed.region_ids) == 1:
        return {routed.region_ids[0]: rows}
    # One copy in the order of regions, of which each gets a slice.
    ordered = _plain(rows).take(routed.order)
    found: dict[str, pa.Table] = {}
    start = 0
    for region_id, stop in zip(routed.region_ids, routed.bounds, strict=True):
        part = ordered.slice(start, stop - start)
        start = stop
        found[region_id] = pa.concat_tables([found[region_id], part]) if region_id in found else part
    return found


def _plain(rows: pa.Table) -> pa.Table:
    """Rows in one chunk: taking from several is much slower."""
    return rows.combine_chunks() if any(column.num_chunks > 1 for column in rows.columns) else rows
