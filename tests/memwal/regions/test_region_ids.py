"""Which id a region has, and what an id stands for."""

import pytest

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.regions.region_ids import (
    can_be_identity_region,
    derive_lancedb_region_id,
    derive_own_region_id,
    derive_region_id,
    infer_region_values,
)
from lance_gateway.memwal.transforms.buckets import BucketHash

BUCKET = RegionSpec(1, (RegionField("bucket", (0,), "bucket", None, "int32", {"num_buckets": "4"}),))
IDENTITY = RegionSpec(1, (RegionField("bucket", (0,), "identity", None, "int64"),))
UNSHARDED = RegionSpec(1, (RegionField("bucket", (), "unsharded", None, "int32"),))


def raw(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "little")


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [  # as lancedb 0.40 names them
        (BUCKET, raw(0), "4a388480-a25b-59a8-b058-24217f980256"),
        (IDENTITY, raw(1, 8), "d2e289e0-8bef-529d-9036-907161abc5f8"),
        (UNSHARDED, raw(0), "aa48498d-ac91-59e2-8452-69f46010ace2"),
    ],
)
def test_lancedb_names_a_region_by_its_value(spec: RegionSpec, value: bytes, expected: str):
    assert derive_lancedb_region_id(spec, (value,)) == expected
    assert derive_region_id(spec, (value,), "some table") == expected
    named = infer_region_values(spec, expected)
    assert named == ({} if spec is IDENTITY else {"bucket": value})
    assert can_be_identity_region(spec, expected) == (spec is IDENTITY)


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        (BUCKET, None),
        (BUCKET, raw(4)),
        (IDENTITY, None),
        (UNSHARDED, raw(1)),
        (RegionSpec(2, BUCKET.fields), raw(0)),
        (RegionSpec(1, (RegionField("y", (0,), "year", None, "int32"),)), raw(0)),
        (RegionSpec(1, (RegionField("e", (0,), None, "col0 % 3", "int32"),)), raw(0)),
        (RegionSpec(1, (RegionField("i", (0,), "identity", None, "date32"),)), raw(0)),
        (RegionSpec(1, (RegionField("i", (0,), "identity", None, "double"),)), raw(0, 8)),
        (RegionSpec(1, (RegionField("b", (0,), "bucket", None, "int32", {"num_buckets": "x"}),)), raw(0)),
    ],
)
def test_what_lancedb_can_not_write_has_an_id_of_our_own(spec: RegionSpec, value: bytes | None):
    assert derive_lancedb_region_id(spec, (value,)) is None
    assert derive_region_id(spec, (value,), "a") == derive_own_region_id(spec, (value,), "a")
    assert derive_region_id(spec, (value,), "a") != derive_region_id(spec, (value,), "b")


def test_lancedb_knows_one_reading_of_bucket_and_specs_of_one_field():
    assert derive_lancedb_region_id(BUCKET, (raw(0),), BucketHash.SPECIFICATION) is None
    two = RegionSpec(1, (*BUCKET.fields, RegionField("y", (1,), "year", None, "int32")))
    assert derive_lancedb_region_id(two, (raw(0), raw(2020))) is None
