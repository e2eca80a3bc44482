"""Changes of a table, divided into those of its regions."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lance_gateway.memwal.writing.changes import Changes
from lance_gateway.memwal.writing.table.open_table import OpenTable

Part = tuple[pa.Table | None, pa.Table | None]
"""Rows and keys of one region; None for none."""


def check_new_rules(table: OpenTable, newest: OpenTable, rows: pa.Table) -> None:
    """Check rows that fit one version by the rules of another, if it is newer and these are others.

    Raises:
        InvalidInputError: a row violates one, or the columns are others.
    """
    if newest.dataset.version > table.dataset.version and not newest.has_same_rules(table):
        newest.conform_upserts(rows, fill=True)


def split_changes(table: OpenTable, changes: Changes) -> Mapping[str, Part]:
    """Return the rows and the keys of each region; None for none.

    Raises:
        InvalidInputError: rows don't fit the table's columns, or columns are missing.
        PreconditionError: rows can't be routed, or the table has no key.
    """
    parts: dict[str, Part] = {}
    upserts, deletes = changes.upserts, changes.deletes
    if upserts is not None and upserts.num_rows:
        for region_id, rows in _group_by_region(table, upserts, table.conform_upserts(upserts)).items():
            parts[region_id] = rows, None
    if deletes is not None and deletes.num_rows:
        for region_id, rows in _group_by_region(table, deletes, table.conform_deletes(deletes)).items():
            parts[region_id] = parts.get(region_id, (None, None))[0], rows
    return parts


def _group_by_region(table: OpenTable, rows_to_route: pa.Table, rows: pa.Table) -> dict[str, pa.Table]:
    routed = table.route(rows_to_route)
    if len(routed.region_ids) == 1:
        return {routed.region_ids[0]: rows}
    # One copy in the order of regions, of which each gets a slice.
    ordered = _combine_chunks(rows).take(routed.order)
    groups: dict[str, pa.Table] = {}
    start = 0
    for region_id, stop in zip(routed.region_ids, routed.bounds, strict=True):
        part = ordered.slice(start, stop - start)
        start = stop
        groups[region_id] = pa.concat_tables([groups[region_id], part]) if region_id in groups else part
    return groups


def _combine_chunks(rows: pa.Table) -> pa.Table:
    """Return rows in one chunk: taking rows from several chunks is much slower."""
    return rows.combine_chunks() if any(column.num_chunks > 1 for column in rows.columns) else rows
