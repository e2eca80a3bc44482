"""A snapshot, and each region in it, is the same object for as long as nothing in it changed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from tests.support.lake.merging import merge_generations
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess
from tests.support.stores.faults import open_faulty_storage

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
LAYOUT = bucketed("id", 2, recorded=True)


@pytest.fixture
def written(root: Path, writers: WriterProcess) -> Iterator[LsmTable]:
    """A table with fresh rows in both of its regions."""
    base = pa.table([list(range(8)), [0] * 8], schema=SCHEMA)
    table = LsmTable.create(root, "t", base, LAYOUT, writers)
    table.put([{"id": key, "v": 1} for key in range(8)])
    yield table
    table.close_writers()


@pytest.fixture
def table(root: Path, written: LsmTable, open_engine: Callable[[Path], QueryEngine]) -> Table:
    assert len(written.regions) == 2
    return open_engine(root).catalog.table("t")


def taken(table: Table) -> TableSnapshot:
    return table.take_snapshot(list_regions(table.storage))


def test_nothing_happened(table: Table) -> None:
    first = taken(table)
    assert taken(table) is first
    flushed = table.take_snapshot(first.regions, "flushed")
    assert flushed.tails == ()
    assert taken(table) is first
    assert table.take_snapshot(first.regions, "flushed") is flushed


def test_a_row_was_written(table: Table, written: LsmTable) -> None:
    first = taken(table)
    changed, other = written.region_of({"id": 0}), next(iter(first.regions))
    if other == changed:
        other = list(first.regions)[1]
    written.put([{"id": 0, "v": 2}])
    second = taken(table)
    assert second.regions[other] is first.regions[other]
    assert [len(one.tails) for one in (first, second)] == [2, 2]
    assert second.regions[changed].tail is not first.regions[changed].tail
    assert taken(table) is second


def test_generations_were_flushed_and_merged(table: Table, written: LsmTable) -> None:
    unflushed = taken(table)
    written.close_writers()
    flushed = taken(table)
    assert not flushed.tails
    assert len(flushed.generations) == len(unflushed.tails) == 2
    assert taken(table) is flushed

    merged, other = flushed.regions
    merge_generations(written.path, merged, 1)
    after = taken(table)
    assert after.base.version > flushed.base.version
    assert after.regions[other] is flushed.regions[other]
    assert after.regions[merged].generations == ()
    region = after.regions[merged]
    assert region.manifest is not None
    assert [one.generation for one in region.manifest.merged(region.newest_merged)] == [1]


def test_the_base_table_alone_has_a_new_version(table: Table, written: LsmTable) -> None:
    first = taken(table)
    lance.dataset(written.path).update_config({"a": "b"})
    second = taken(table)
    assert second.base is not first.base
    assert list(second.regions.values()) == list(first.regions.values())


def test_other_regions_are_needed(table: Table) -> None:
    first = taken(table)
    one, other = first.regions
    assert list(table.take_snapshot([other]).regions.values()) == [first.regions[other]]
    assert list(taken(table).regions) == [one, other]


def test_a_snapshot_may_be_taken_again_while_it_is_young(table: Table, written: LsmTable) -> None:
    first = taken(table)
    written.put([{"id": 0, "v": 2}])
    assert table.take_snapshot(first.regions, "strong", 3_600_000) is first
    _, other = first.regions
    assert list(table.take_snapshot([other], "strong", 3_600_000).regions.values()) == [first.regions[other]]


def test_logs_in_which_nothing_was_written_are_asked_in_one_go(root: Path, written: LsmTable) -> None:
    storage, backend = open_faulty_storage(root)
    catalog = Catalog(storage)
    table = catalog.table("t")
    regions = taken(table).regions
    taken(table)
    backend.calls.clear()
    taken(table)
    listing, manifests, logs, *base = (paths for _, paths in backend.calls)
    assert listing.endswith("_mem_wal")
    assert manifests.count("/manifest/") == 2 * len(regions)
    assert logs.count("/wal/") == len(regions)
    assert not any("_mem_wal" in paths for paths in base)
    written.put([{"id": 0, "v": 3}, {"id": 0, "v": 4}])
    (region,) = written.put([{"id": 0, "v": 5}])
    tail = taken(table).regions[region[0]].tail
    assert tail is not None
    assert tail.rows.column("v").to_pylist()[-1] == 5
    catalog.close()
