"""Baseline and peers: readers of the same files without the gateway."""

import lance
import pyarrow as pa

from benchmarks.reports.queries import TABLE_NAME
from lance_gateway.memwal.regions.manifest import list_regions, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage


class BaseOnly:
    """The floor: Lance's own SQL over the base table, which does not read generations.

    It is Lance's table provider in the DataFusion that pylance is built with, so that no row crosses over
    between two libraries before the result.
    """

    def __init__(self, uri: str) -> None:
        self._dataset = lance.dataset(uri)

    def query(self, sql: str) -> pa.Table:
        """Return the result of a query."""
        batches = self._dataset.sql(sql).table_name(TABLE_NAME).build().to_batch_records()
        return pa.Table.from_batches(batches)


def read_region_snapshots(uri: str) -> list[lance.ShardSnapshot]:
    """Return the newest manifest of every region, as Lance's LSM planners take it."""
    storage = Storage.open(uri)
    snapshots = []
    for region_id in list_regions(storage):
        manifest = read_latest_manifest(storage, region_id)
        if manifest is None:
            continue
        snapshot = lance.ShardSnapshot(region_id).with_spec_id(manifest.region_spec_id)
        snapshot = snapshot.with_current_generation(manifest.current_generation)
        for flushed in manifest.flushed_generations:
            snapshot = snapshot.with_sstable(flushed.generation, flushed.path)
        snapshots.append(snapshot)
    return snapshots


def scan_with_lsm(uri: str, columns: list[str], condition: str | None = None) -> pa.Table:
    """Lance's LsmScanner over base and generations: newest version of each row."""
    scanner = lance.LsmScanner.from_snapshots(lance.dataset(uri), read_region_snapshots(uri)).project(columns)
    if condition is not None:
        scanner = scanner.filter(condition)
    return scanner.to_table()


class LsmLookups:
    """Lance's point lookup planner over the table as it is now, ready for many lookups."""

    def __init__(self, uri: str) -> None:
        self._planner = lance.LsmPointLookupPlanner(lance.dataset(uri), read_region_snapshots(uri))

    def look_up(self, key: int) -> pa.Table:
        """Return the newest version of the row with this key."""
        return self._planner.plan_lookup(pa.array([key], pa.int64())).to_table()
