"""`system.tables`, `regions`, `generations`, `writers` and others: the current state of the catalog.

A principal sees its own tables there. Row counts and values of regions are shown to administrators, and to
principals without restrictions on the table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lance_gateway.memwal.base.comments import read_table_comment
from lance_gateway.memwal.base.index_details import MemWalIndexDetails, RegionSpec
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import MOMENT, SystemTable, VisibleCatalog
from lance_gateway.planner.predicates.region_fields import format_field, format_recorded_value
from lance_gateway.planner.system.definitions import Definitions
from lance_gateway.planner.system.jobs import Jobs
from lance_gateway.planner.system.listing import (
    TABLE_FIELDS,
    Branches,
    Indexes,
    OfTables,
    Tags,
    Versions,
    has_full_access,
)
from lance_gateway.planner.system.rules import Columns, Constraints
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table

logger = logging.getLogger(__name__)

_TEXTS = pa.list_(pa.string())


def list_system_tables(catalog: Catalog) -> tuple[SystemTable, ...]:
    """Return the system tables that describe a catalog."""
    kinds = (
        Tables,
        Views,
        Columns,
        Definitions,
        Constraints,
        Regions,
        Generations,
        Versions,
        Tags,
        Branches,
        Indexes,
        Writers,
        Jobs,
    )
    return tuple(kind(catalog) for kind in kinds)


class Tables(OfTables):
    """One row per table: its base version, specs, indexes, counts of regions and generations, and comment."""

    name = "tables"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("base_version", pa.int64()),
            ("base_rows", pa.int64()),
            ("base_bytes", pa.int64()),
            ("base_fragments", pa.int64()),
            ("primary_key", _TEXTS),
            ("region_specs", _TEXTS),
            ("maintained_indexes", _TEXTS),
            ("indexed_key_columns", _TEXTS),
            ("regions", pa.int64()),
            ("unmerged_generations", pa.int64()),
            ("comment", pa.string()),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        secured = visible.table(name)
        base = secured.base
        row: dict[str, Any] = {
            "base_version": base.version,
            "primary_key": list(secured.primary_key),
        }
        if has_full_access(visible, name):
            manifests = () if base.details is None else secured.table.read_manifests()
            details = base.details or MemWalIndexDetails()
            row |= {
                "base_rows": base.dataset.count_rows(),
                "base_bytes": sum(
                    file.file_size_bytes or 0
                    for fragment in base.fragments
                    for file in fragment.handle.metadata.files
                ),
                "base_fragments": len(base.fragments),
                "region_specs": [_describe_spec(spec, base) for spec in details.region_specs],
                "maintained_indexes": list(details.maintained_indexes),
                "indexed_key_columns": list(base.indexed_key_columns),
                "regions": len(manifests),
                "unmerged_generations": sum(
                    len(manifest.unmerged_generations(details.newest_merged(manifest.region_id)))
                    for manifest in manifests
                ),
                "comment": read_table_comment(base.dataset),
            }
        yield row


class Views:
    """One row per view, with its comment.

    Args:
        catalog: tables and views.
    """

    name = "views"
    schema = pa.schema([("view_name", pa.string()), ("comment", pa.string())])

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def read(self, access: Access) -> pa.Table:
        """Return the views that a principal sees."""
        names = VisibleCatalog(self._catalog, access).view_names()
        views = ((name, self._catalog.view(name)) for name in names)
        rows = [{"view_name": name, "comment": view.comment} for name, view in views if view is not None]
        return pa.Table.from_pylist(rows, self.schema)


class Regions(OfTables):
    """One row per region: its manifest, log and merge progress."""

    name = "regions"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("region_id", pa.string()),
            ("region_spec_id", pa.int64()),
            ("region_values", _TEXTS),
            ("status", pa.string()),
            ("writer_epoch", pa.int64()),
            ("manifest_version", pa.int64()),
            ("current_generation", pa.int64()),
            ("merged_generation", pa.int64()),
            ("unmerged_generations", pa.int64()),
            ("replay_after_wal_position", pa.int64()),
            ("last_wal_position", pa.int64()),
            ("unflushed_entries", pa.int64()),
            ("unflushed_rows", pa.int64()),
            ("index_catchup", _TEXTS),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        if not has_full_access(visible, name):
            return
        table = visible.table(name).table
        base = table.base()
        if base.details is None:
            return
        details = base.details
        values = {region.region_id: region.values for region in table.assignments(base, "strong").regions}
        for manifest in table.read_manifests():
            entries = table.read_unflushed(manifest)
            last = max([entry.position for entry in entries], default=manifest.wal_entry_position_last_seen)
            region_id = manifest.region_id
            yield {
                "region_id": region_id,
                "region_spec_id": manifest.region_spec_id,
                "region_values": list(
                    _list_values(
                        manifest.region_spec_id, values.get(region_id, manifest.region_values), details
                    )
                ),
                "status": "sealed" if manifest.sealed else "active",
                "writer_epoch": manifest.writer_epoch,
                "manifest_version": manifest.version,
                "current_generation": manifest.current_generation,
                "merged_generation": details.newest_merged(region_id),
                "unmerged_generations": len(manifest.unmerged_generations(details.newest_merged(region_id))),
                "replay_after_wal_position": manifest.replay_after_wal_entry_position,
                "last_wal_position": max(last, manifest.wal_entry_position_last_seen),
                "unflushed_entries": len(entries),
                "unflushed_rows": sum(entry.rows.num_rows for entry in entries if entry.rows is not None),
                "index_catchup": [
                    f"{index}={generation}" for index, generation in _find_catchup(details, region_id).items()
                ],
            }


class Generations(OfTables):
    """One row per flushed generation in the manifest of its region."""

    name = "generations"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
            ("region_id", pa.string()),
            ("generation", pa.int64()),
            ("path", pa.string()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("flushed_at", MOMENT),
            ("merged", pa.bool_()),
            ("lag_seconds", pa.float64()),
            ("indexed_by", _TEXTS),
        ]
    )

    def _list_rows(self, name: TableName, visible: VisibleCatalog) -> Iterator[dict[str, Any]]:
        if not has_full_access(visible, name):
            return
        table = visible.table(name).table
        details = table.base().details
        if details is None:
            return
        listed = [
            (manifest.region_id, flushed_generation)
            for manifest in table.read_manifests()
            for flushed_generation in manifest.flushed_generations
        ]
        opened = table.storage.each(lambda one: _open_generation(table, *one), listed)
        now = datetime.now(UTC)
        for (region_id, flushed), generation in zip(listed, opened, strict=True):
            merged = flushed.is_merged(details.newest_merged(region_id))
            row = {
                "region_id": region_id,
                "generation": flushed.generation,
                "path": flushed.path,
                "rows": flushed.physical_rows,
                "merged": merged,
                "indexed_by": [
                    index
                    for index, newest in _find_catchup(details, region_id).items()
                    if newest >= flushed.generation
                ],
            }
            if generation is not None:
                flushed_at = generation.flushed_at
                row |= {"rows": generation.rows, "bytes": generation.nbytes, "flushed_at": flushed_at}
                row["lag_seconds"] = 0.0 if merged else (now - flushed_at).total_seconds()
            yield row


class Writers:
    """One row per region to which this gateway wrote or forwarded rows since it started.

    Reading it does not access storage.

    Args:
        catalog: tables and views.
    """

    name = "writers"
    schema = pa.schema(
        [
            *TABLE_FIELDS,
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
                    "table_schema": table.name.schema,
                    "table_name": table.name.table,
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


def _open_generation(table: Table, region_id: str, flushed: FlushedGeneration) -> GenerationDataset | None:
    """Open a generation; return None if it can't be read, since merged ones may be removed at any time."""
    try:
        generation = table.generation(region_id, flushed)
        # Read here, since several generations are opened at the same time.
        _ = generation.flushed_at, generation.nbytes
    except (LanceGatewayError, OSError, ValueError) as error:
        logger.info("generation %s of table %r can't be read: %s", flushed.path, table.name, error)
        return None
    return generation


def _find_catchup(details: MemWalIndexDetails, region_id: str) -> Mapping[str, int]:
    """Return index -> newest merged generation of a region that the index covers."""
    return {index: details.newest_covered(index, region_id) for index in details.index_catchup}


def _describe_spec(spec: RegionSpec, base: BaseTable) -> str:
    fields = [
        format_field(field, [base.field_names.get(source, f"field {source}") for source in field.source_ids])
        for field in spec.fields
    ]
    return f"{spec.spec_id}: {', '.join(fields)}"


def _list_values(spec_id: int, values: Mapping[str, bytes], details: MemWalIndexDetails) -> Iterator[str]:
    spec = details.specs.get(spec_id)
    fields = {} if spec is None else {field.field_id: field for field in spec.fields}
    for field_id, raw in values.items():
        field = fields.get(field_id)
        yield f"{field_id}={raw.hex() if field is None else format_recorded_value(field, raw)}"
