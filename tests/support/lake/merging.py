"""A merge by Lance's merge_insert, as a compaction service does it."""

import shutil
from pathlib import Path

import lance
import pyarrow as pa
from lance.mem_wal import CompactedSsTable

from tests.support.lake import manifests
from tests.support.lake.tables import primary_key


def merge_generations(table: Path, region: str, up_to: int) -> None:
    """Merge a region's flushed generations up to ``up_to`` into the base table; the newest row of a key wins.

    Deletes go first and unmarked; the upsert carries the progress, so that data and progress are one commit.
    """
    done = manifests.read_merged_generations(table).get(region, 0)
    entries = [
        entry
        for entry in manifests.read_manifest(table, region).flushed_generations
        if done < entry.generation <= up_to
    ]
    assert entries, f"region {region} has no unmerged generation up to {up_to}"
    dataset = lance.dataset(table)
    key = list(primary_key(dataset.schema))
    newest: dict[tuple[object, ...], dict[str, object] | None] = {}
    for entry in sorted(entries, key=lambda entry: entry.generation):
        for row in _read_rows_by_field_id(table / "_mem_wal" / region / entry.path, dataset):
            newest[tuple(row[name] for name in key)] = None if row.pop("_tombstone") else row
    upserts = [row for row in newest.values() if row is not None]
    deletes = [dict(zip(key, values, strict=True)) for values, row in newest.items() if row is None]
    marker = [CompactedSsTable(region, max(entry.generation for entry in entries))]
    key_schema = pa.schema([dataset.schema.field(name) for name in key])

    delete = dataset.merge_insert(key).when_matched_delete()
    if not upserts:
        delete.mark_sstables_as_compacted(marker)
    delete.execute(pa.Table.from_pylist(deletes, schema=key_schema))
    if upserts:
        upsert = (
            lance.dataset(table).merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
        )
        upsert.mark_sstables_as_compacted(marker)
        upsert.execute(pa.Table.from_pylist(upserts, schema=dataset.schema))


def merge_flushed(table: Path) -> None:
    """Merge all flushed generations of all regions into the base table."""
    done = manifests.read_merged_generations(table)
    for region in manifests.list_region_ids(table):
        flushed = [one.generation for one in manifests.read_manifest(table, region).flushed_generations]
        if max(flushed, default=0) > done.get(region, 0):
            merge_generations(table, region, max(flushed))


def clean_up_merged(table: Path, region: str) -> tuple[str, ...]:
    """Drop a region's merged generations from its manifest, then from disk; return their names."""
    merged = manifests.read_merged_generations(table).get(region, 0)
    gone = manifests.forget_generations(table, region, merged)
    for name in gone:
        shutil.rmtree(table / "_mem_wal" / region / name)
    return gone


def _read_rows_by_field_id(generation: Path, base: lance.LanceDataset) -> list[dict[str, object]]:
    """Return a generation's rows under the base table's present column names; missing columns are NULL."""
    dataset = lance.dataset(generation)
    names = {column.id(): column.name() for column in dataset.lance_schema.fields()}
    tombstone = next(column.id() for column in dataset.lance_schema.fields() if column.name() == "_tombstone")
    rows = dataset.to_table().to_pylist()
    mapping = {
        column.name(): names.get(column.id()) if column.id() != tombstone else None
        for column in base.lance_schema.fields()
    }
    return [
        {target: (None if source is None else row[source]) for target, source in mapping.items()}
        | {"_tombstone": row["_tombstone"]}
        for row in rows
    ]
