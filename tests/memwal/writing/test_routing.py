"""Every row finds the region that its values say, in every process, and no key is ever in two."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lance_gateway.memwal.base.index_details import RegionField, RegionSpec
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest, list_regions
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.memwal.transforms.buckets import BucketHash
from lance_gateway.memwal.transforms.transforms import compute_region_values, decode_region_value
from lance_gateway.memwal.writing import Changes, TableWriter, WriteOptions
from lance_gateway.memwal.writing.table.regions import Regions, derive_region_id
from tests.memwal.writing.reading import entries, rows_by_key
from tests.memwal.written import WrittenTable, keyed_schema

Writing = Callable[..., TableWriter]
_KINDS: Mapping[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "string": (pa.string(), st.text(max_size=9)),
}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("shape", [{"num_buckets": 7}, {}])
def test_rows_go_where_lance_says(tmp_path: Path, kind: str, shape: dict[str, int]):
    data_type, values = _KINDS[kind]
    named = {"bucket_column": "id", **shape} if shape else {"identity_column": "id"}
    table = WrittenTable.create(str(tmp_path / "r.lance"), keyed_schema(pa.field("id", data_type)), **named)
    dataset = table.dataset
    (spec,) = dataset.mem_wal_index_details()["sharding_specs"]
    writer = TableWriter("r", table.storage, _options())

    @settings(max_examples=6, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(values, min_size=1, max_size=12))
    def check(keys: list[Any]) -> None:
        rows = table.rows(id=keys, qty=[0] * len(keys))
        expected = lance.evaluate_sharding_spec(rows.to_batches()[0], spec, dataset.lance_schema).column(0)
        routed = writer._open_table().route(rows)
        order = range(len(keys)) if routed.order is None else routed.order.to_pylist()
        bounds = routed.bounds or (len(keys),)
        starts = (0, *bounds[:-1])
        assert sorted(order) == list(range(len(keys)))
        for region, start, stop in zip(routed.region_ids, starts, bounds, strict=True):
            positions = list(order)[start:stop]
            assert positions == sorted(positions)
            manifest = table.manifest(region)
            ((name, raw),) = manifest.region_values.items()
            recorded = decode_region_value(writer._open_table().details.region_specs[0].fields[0], raw)
            assert {expected[at].as_py() for at in positions} == {recorded}
            assert name == spec["fields"][0]["field_id"]

    check()
    writer.close()


_FIELDS = [
    RegionField("y", (1,), "year", None, "int32"),
    RegionField("d", (1,), "day", None, "int32"),
    RegionField("t", (2,), "truncate", None, "utf8", {"width": "2"}),
    RegionField("i", (2,), "identity", None, "utf8"),
    RegionField("m", (0, 2), "multi_bucket", None, "int32", {"num_buckets": "3"}),
    RegionField("b", (0,), "bucket", None, "int32", {"num_buckets": "3"}),
    RegionField("e", (0,), None, "col0 % 3", "int64"),
]


@pytest.mark.parametrize("fields", [[one] for one in _FIELDS] + [_FIELDS[:3], _FIELDS[3:]])
@pytest.mark.parametrize("reading", list(BucketHash))
def test_every_transform_groups_rows_by_its_values(
    tmp_path: Path, fields: list[RegionField], reading: BucketHash
):
    columns = {
        0: pa.array([1, 2, None, 4, 5, 1], pa.int64()),
        1: pa.array([0, 10**9, None, 10**9, 0, 0], pa.timestamp("s")),
        2: pa.array(["abc", "abd", None, "", "x", "abc"], pa.string()),
    }
    spec = RegionSpec(1, tuple(fields))
    storage = Storage.open(str(tmp_path))
    regions = Regions(storage, spec, reading)

    routed = regions.route(columns, 6)

    values = list(
        zip(*(one.to_pylist() for one in compute_region_values(spec, columns, reading)), strict=True)
    )
    starts = (0, *routed.bounds[:-1])
    found: dict[tuple[Any, ...], str] = {}
    for region, start, stop in zip(routed.region_ids, starts, routed.bounds, strict=True):
        for at in routed.order.to_pylist()[start:stop]:
            assert found.setdefault(values[at], region) == region
    assert len(set(found.values())) == len(found) == len(routed.region_ids)
    assert Regions(storage, spec, reading).route(columns, 6).region_ids == routed.region_ids
    for at in range(6):
        one = {source: column.slice(at, 1) for source, column in columns.items()}
        assert regions.route(one, 1).region_ids == (found[values[at]],)


def test_of_several_processes_that_create_regions_none_creates_its_own(bucketed: WrittenTable):
    rows = bucketed.rows(id=range(50), qty=[0] * 50)
    with ThreadPoolExecutor(8) as clients:
        writers = [TableWriter("b", bucketed.storage, _options()) for _ in range(8)]
        found = list(clients.map(lambda one: one.find_regions(rows), writers))
    assert len(set(found)) == 1
    assert list_regions(bucketed.storage) == found[0]
    for one in writers:
        one.close()


def test_a_key_goes_to_its_region_in_whatever_type_it_comes(bucketed: WrittenTable, writing: Writing):
    writer = writing(bucketed)
    rows = bucketed.rows(id=range(20), qty=[0] * 20)
    narrow = pa.table({"qty": rows["qty"], "id": rows["id"].cast(pa.int16())})
    first = writer.write(Changes(rows))
    assert writer.write(Changes(narrow)).regions == first.regions
    assert writer.write(Changes(deletes=narrow.select(["id"]))).regions == first.regions
    assert rows_by_key(bucketed) == {}


def test_a_region_that_follows_from_more_than_the_key_needs_more_than_the_key(
    tmp_path: Path, writing: Writing
):
    schema = keyed_schema(pa.field("id", pa.int64()))
    table = WrittenTable.create(str(tmp_path / "q.lance"), schema, bucket_column="qty", num_buckets=4)
    writer = writing(table)
    writer.write(Changes(table.rows(id=[1], qty=[5])))
    with pytest.raises(InvalidInputError, match="follows from column 'qty': give it too"):
        writer.write(Changes(deletes=pa.table({"id": [1]})))
    writer.write(Changes(deletes=pa.table({"id": [1], "qty": [5]})))
    assert rows_by_key(table) == {}


def test_the_only_region_takes_all_rows_though_it_records_nothing(bucketed: WrittenTable, writing: Writing):
    region = bucketed.write(bucketed.rows(id=[1], qty=[1]))
    receipt = writing(bucketed).write(Changes(bucketed.rows(id=range(50), qty=[0] * 50)))
    assert set(receipt.regions) == {region}


def test_regions_that_record_nothing_are_not_written_beside(bucketed: WrittenTable, writing: Writing):
    for key in range(2):
        bucketed.write(bucketed.rows(id=[key], qty=[1]))
    with pytest.raises(PreconditionError, match="records no region values"):
        writing(bucketed).write(Changes(bucketed.rows(id=[1], qty=[0])))


@pytest.mark.slow
def test_of_a_table_without_spec_several_regions_are_not_written(tmp_path: Path, writing: Writing):
    table = WrittenTable.create(str(tmp_path / "s.lance"), keyed_schema(pa.field("id", pa.int64())))
    table.write(table.rows(id=[1], qty=[1]))
    assert len(writing(table).write(Changes(table.rows(id=[1, 2], qty=[2, 2]))).regions) == 1
    table.write(table.rows(id=[3], qty=[1]))
    with pytest.raises(PreconditionError, match="2 regions and no region spec"):
        writing(table).write(Changes(table.rows(id=[1], qty=[0])))


def test_tables_without_key_have_a_region_of_their_own_for_our_rows(tmp_path: Path, writing: Writing):
    schema = pa.schema([pa.field("id", pa.int64())])
    table = WrittenTable.create(str(tmp_path / "a.lance"), schema)
    others = [table.write(table.rows(id=[key])) for key in range(2)]
    (region,) = writing(table).write(Changes(table.rows(id=[1]))).regions
    assert region not in others
    assert [one.rows.num_rows for one in entries(table, region) if one.rows is not None] == [1]


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("reading", list(BucketHash))
def test_buckets_are_numbered_as_in_the_regions_that_exist(
    bucketed: WrittenTable, writing: Writing, reading: BucketHash, is_flushed: bool
):
    (spec,) = writing(bucketed)._open_table().details.region_specs
    keys = pa.array(range(100), pa.int64())
    (values,) = compute_region_values(spec, {0: keys}, reading)
    regions = {}
    for bucket in range(4):
        mine = keys.filter(pc.equal(values, bucket))
        region = derive_region_id(spec, (bucket.to_bytes(4, "little"),))
        recorded = {"bucket": bucket.to_bytes(4, "little")}
        assert commit_manifest(
            bucketed.storage, RegionManifest(region, 1, 0, 0, 0, 1, (), spec.spec_id, recorded)
        )
        rival = bucketed.dataset.mem_wal_writer(
            region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
        )
        rival.put(bucketed.rows(id=mine, qty=[0] * len(mine)))
        if is_flushed:
            rival.close()
        regions |= dict.fromkeys(mine.to_pylist(), region)

    writer = writing(bucketed)
    for key in range(100):
        assert writer.find_regions(bucketed.rows(id=[key], qty=[0])) == (regions[key],)


def test_rows_in_buckets_that_no_hash_gives_keep_others_out(bucketed: WrittenTable, writing: Writing):
    (spec,) = writing(bucketed)._open_table().details.region_specs
    region = derive_region_id(spec, (b"\0" * 4,))
    recorded = {"bucket": b"\0" * 4}
    assert commit_manifest(
        bucketed.storage, RegionManifest(region, 1, 0, 0, 0, 1, (), spec.spec_id, recorded)
    )
    bucketed.write(bucketed.rows(id=range(100), qty=[0] * 100), region=region)
    with pytest.raises(PreconditionError, match="rows of other buckets than it records"):
        writing(bucketed).write(Changes(bucketed.rows(id=[1], qty=[0])))


def test_regions_of_an_older_spec_keep_rows_out_until_they_are_over(tmp_path: Path):
    storage = Storage.open(str(tmp_path))
    columns = {0: pa.array([1, 2, 3], pa.int64())}
    older = RegionSpec(1, (RegionField("b", (0,), "bucket", None, "int32", {"num_buckets": "2"}),))
    newer = RegionSpec(2, (RegionField("b", (0,), "bucket", None, "int32", {"num_buckets": "3"}),))
    table = WrittenTable(str(tmp_path), pa.schema([]))
    old = Regions(storage, older).route(columns, 3).region_ids

    with pytest.raises(PreconditionError, match="follows region spec 1, but rows now follow spec 2"):
        Regions(storage, newer).route(columns, 3)

    for region in old:
        manifest = table.manifest(region)
        assert commit_manifest(storage, replace(manifest, version=manifest.version + 1, sealed=True))
    assert not set(Regions(storage, newer).route(columns, 3).region_ids) & set(old)


def _options() -> WriteOptions:
    return WriteOptions(hold_ms=0)
