"""What any reader finds in a table: base, generations and log, newest version of each key."""

from typing import Any

import lance
import pyarrow as pa

from lance_gateway.memwal.regions.manifest import RegionManifest, list_regions, read_latest_manifest
from lance_gateway.memwal.regions.wal import WalEntry, find_last_wal_position, read_wal_entry
from lance_gateway.memwal.storage.files import generation_directory
from tests.memwal.written import WrittenTable


def log(table: WrittenTable, region: str) -> list[WalEntry]:
    """All entries of a region's log, fences too."""
    last = find_last_wal_position(table.storage, region, after=0)
    return [read_wal_entry(table.storage, region, position) for position in range(1, last + 1)]


def entries(table: WrittenTable, region: str, manifest: RegionManifest | None = None) -> list[WalEntry]:
    """Entries with rows that no generation covers, by a manifest that was read before, or by the newest."""
    manifest = manifest or table.manifest(region)
    return [
        one
        for one in log(table, region)
        if not one.is_fence
        and one.position > manifest.replay_after_wal_entry_position
        and one.generation is not None
        and one.generation >= manifest.current_generation
    ]


def rows_by_key(table: WrittenTable) -> dict[Any, dict[str, Any]]:
    """Key -> newest row, of all regions; read from files alone."""
    found: dict[Any, dict[str, Any]] = {}
    for row in table.dataset.to_table().to_pylist():
        found[row["id"]] = row
    for region in list_regions(table.storage):
        manifest = read_latest_manifest(table.storage, region)
        if manifest is None:
            continue  # It is just being created.
        parts = [
            lance.dataset(
                f"{table.uri}/{generation_directory(region, one.path)}", storage_options=dict(table.options)
            ).to_table()
            for one in manifest.flushed_generations
        ]
        parts += [one.rows for one in entries(table, region, manifest) if one.rows is not None]
        for part in parts:
            _replay(part, found)
    return found


def _replay(rows: pa.Table, found: dict[Any, dict[str, Any]]) -> None:
    for row in rows.to_pylist():
        if row.pop("_tombstone", False):
            found.pop(row["id"], None)
        else:
            found[row["id"]] = row
