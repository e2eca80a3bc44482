"""A table that pylance writes to S3 is read as one on a local disk is."""

from dataclasses import replace

import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import read_index_details
from lance_gateway.memwal.bloom import load_key_filter
from lance_gateway.memwal.regions.manifest import (
    commit_manifest,
    list_regions,
    read_latest_manifest,
    read_latest_manifests,
)
from lance_gateway.memwal.regions.wal import find_last_wal_position, read_wal_entry
from lance_gateway.memwal.storage.files import generation_directory
from tests.memwal.written import WrittenTable, keyed_schema

pytestmark = pytest.mark.slow


@pytest.fixture
def table(s3_location: tuple[str, dict[str, str]]) -> WrittenTable:
    uri, options = s3_location
    schema = keyed_schema(pa.field("id", pa.int64()))
    return WrittenTable.create(f"{uri}/t.lance", schema, options, bucket_column="id", num_buckets=2)


def test_everything_that_a_reader_needs_is_there(table: WrittenTable):
    region = table.write(table.rows(id=[1, 2], qty=[10, 20]))

    assert list_regions(table.storage) == (region,)
    manifest = table.manifest(region)
    (flushed,) = manifest.flushed_generations
    assert find_last_wal_position(table.storage, region, after=0) == 1
    entry = read_wal_entry(table.storage, region, 1)
    assert entry.rows is not None
    assert entry.rows["id"].to_pylist() == [1, 2]
    details = read_index_details(table.storage, table.dataset.version)
    assert details is not None
    assert details.region_specs[0].fields[0].parameters == {"num_buckets": "2"}
    key_filter = load_key_filter(
        table.storage, generation_directory(region, flushed.path), [pa.int64()], rows=2
    )
    assert key_filter is not None
    assert [key_filter.might_contain((key,)) for key in (1, 2, 3)] == [True, True, False]


def test_manifests_are_followed_and_committed(table: WrittenTable):
    regions = [table.write(table.rows(id=[key], qty=[0])) for key in range(3)]
    known = {region: table.manifest(region) for region in regions}
    assert all(
        read_latest_manifest(table.storage, region, cached=manifest) is manifest
        for region, manifest in known.items()
    )

    changed = replace(known[regions[1]], version=known[regions[1]].version + 1)
    assert commit_manifest(table.storage, changed)
    assert not commit_manifest(table.storage, changed)

    newest = read_latest_manifests(table.storage, regions, cached=known)
    assert newest == (known[regions[0]], changed, known[regions[2]])
