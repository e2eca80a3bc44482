"""What a table knows of its regions: found out once, and as new as the regions are."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest
from lance_gateway.memwal.regions.region_ids import derive_lancedb_region_id
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.planner.predicates.pruning import RegionAssignment, RegionAssignments
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from tests.support.lake.tables import encode_raw_value, key_field

SCHEMA = pa.schema([key_field("id", pa.int64())])
FIRST, SECOND = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "12")


def commit(path: Path, region_id: str, bucket: int, *, version: int = 1) -> None:
    values = {"bucket": encode_raw_value(bucket, 4)}
    manifest = RegionManifest(region_id, version, 0, 0, 0, 1, region_spec_id=1, region_values=values)
    assert commit_manifest(Storage.open(str(path)), manifest)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with one region, of bucket 1."""
    path = tmp_path / "t.lance"
    dataset = lance.write_dataset(SCHEMA.empty_table(), path)
    dataset.initialize_mem_wal(bucket_column="id", num_buckets=4)
    commit(path, FIRST, 1)
    return path


@pytest.fixture
def table(path: Path) -> Iterator[Table]:
    catalog = Catalog.open(str(path.parent))
    yield catalog.table("t")
    catalog.close()


def assigned(table: Table) -> RegionAssignments:
    return table.assignments(table.base(), "strong")


def buckets(table: Table) -> dict[str, int]:
    return {one.region_id: one.values["bucket"][0] for one in assigned(table).regions}


def test_while_regions_last_it_is_the_same_object(path: Path, table: Table):
    assigned(table)
    known = assigned(table)
    assert known.regions == (RegionAssignment(FIRST, 1, {"bucket": encode_raw_value(1, 4)}),)
    commit(path, FIRST, 1, version=2)
    table.take_snapshot([FIRST])
    assert assigned(table) is known


def test_a_new_region_is_seen_at_once(path: Path, table: Table):
    assert buckets(table) == {FIRST: 1}
    commit(path, SECOND, 3)
    assert buckets(table) == {FIRST: 1, SECOND: 3}
    assigned(table)
    assert assigned(table) is assigned(table)


def test_a_region_that_is_gone_is_not_listed(path: Path, table: Table):
    commit(path, SECOND, 3)
    assert len(assigned(table).regions) == 2
    shutil.rmtree(path / "_mem_wal" / FIRST)
    assert buckets(table) == {SECOND: 3}


def test_a_region_without_a_manifest_is_left_out_until_it_has_one(path: Path, table: Table):
    (path / "_mem_wal" / SECOND / "manifest").mkdir(parents=True)
    assigned(table)
    known = assigned(table)
    assert known.region_ids == (FIRST,)
    assert assigned(table) is known
    commit(path, SECOND, 3)
    assert buckets(table) == {FIRST: 1, SECOND: 3}


def test_regions_that_were_created_anew_with_other_values_are_found_out(path: Path, table: Table):
    assert buckets(table) == {FIRST: 1}
    shutil.rmtree(path / "_mem_wal" / FIRST)
    commit(path, FIRST, 2)
    commit(path, FIRST, 2, version=2)
    table.take_snapshot([FIRST])
    assert buckets(table) == {FIRST: 2}


def test_a_table_without_mem_wal_has_none(table: Table):
    plain = replace(table.base(), details=None)
    assert table.assignments(plain, "strong").regions == ()


def test_regions_are_indexed_once_for_each_spec(table: Table):
    details = table.base().details
    assert details is not None
    (spec,) = details.region_specs
    known = assigned(table)
    recorded = known.find_recorded_values(spec)
    assert list(recorded) == [(((1,),), [0])]
    assert list(recorded.find_regions((0,), {(1,), (2,)})) == [0]
    assert list(recorded.find_regions((0,), {(2,)})) == []
    assert known.find_recorded_values(spec) is recorded
    assert list(known.find_recorded_values(replace(spec, spec_id=2))) == []


class TestWhatIsNotRecorded:
    """LanceDB records no values: ids stand for those of buckets, and rows tell those of others."""

    BUCKET = RegionSpec(1, (RegionField("bucket", (0,), "bucket", None, "int32", {"num_buckets": "4"}),))
    OTHER_SPEC = replace(BUCKET, spec_id=2)

    def named(self, bucket: int) -> str:
        found = derive_lancedb_region_id(self.BUCKET, (encode_raw_value(bucket, 4),))
        assert found is not None
        return found

    def of(self, *regions: RegionManifest, found: Any = None) -> dict[str, Any]:
        assignments = RegionAssignments.of(regions, (self.OTHER_SPEC, self.BUCKET), found or {})
        return {one.region_id: one.values for one in assignments.regions}

    def test_ids_stand_for_it(self) -> None:
        third = self.named(3)
        recorded = RegionManifest(FIRST, 1, 0, 0, 0, 1, (), 1, {"bucket": encode_raw_value(1, 4)})
        assert self.of(recorded, RegionManifest(third, 1, 0, 0, 0, 1, (), 1)) == {
            FIRST: {"bucket": encode_raw_value(1, 4)},
            third: {"bucket": encode_raw_value(3, 4)},
        }

    def test_what_is_recorded_or_found_out_counts_more(self) -> None:
        third, found = self.named(3), {"bucket": encode_raw_value(2, 4)}
        silent = RegionManifest(third, 1, 0, 0, 0, 1, (), 1)
        assert self.of(silent, found={third: found, FIRST: {}}) == {third: found}
        recorded = replace(silent, region_values={"bucket": encode_raw_value(0, 4)})
        assert self.of(recorded, found={third: found}) == {third: {"bucket": encode_raw_value(0, 4)}}

    @pytest.mark.parametrize("spec_id", [0, 2, 7])
    def test_ids_tell_nothing_under_a_spec_that_lancedb_does_not_write(self, spec_id: int) -> None:
        third = self.named(3)
        assert self.of(RegionManifest(third, 1, 0, 0, 0, 1, (), spec_id)) == {third: {}}
