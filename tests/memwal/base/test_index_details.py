"""The MemWAL index of a base table, read from the manifest files that pylance writes."""

import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

from lance_gateway.memwal.base.index_details import (
    BaseManifest,
    MemWalIndexDetails,
    RegionField,
    RegionSpec,
    read_base_manifest,
    read_index_details,
)
from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_gateway.memwal.regions.manifest import FlushedGeneration
from lance_gateway.memwal.regions.region_snapshots import decode_region_snapshots
from lance_gateway.memwal.storage.files import Storage, generation_directory
from tests.memwal.written import WrittenTable, keyed_schema

BUCKETS = RegionField("bucket", (0,), "bucket", None, "int32", {"num_buckets": "4"})


def newest_details(table: WrittenTable) -> MemWalIndexDetails:
    details = read_index_details(table.storage, table.dataset.version)
    assert details is not None
    return details


def merge(table: WrittenTable, region: str, generation: int) -> None:
    """Merges one flushed generation without tombstones into the base table, as a compactor does."""
    (path,) = [one.path for one in table.manifest(region).flushed_generations if one.generation == generation]
    rows = lance.dataset(f"{table.uri}/{generation_directory(region, path)}").to_table()
    builder = table.dataset.merge_insert(table.schema.names[:1])
    builder.when_matched_update_all().when_not_matched_insert_all()
    builder.mark_sstables_as_compacted([lance.CompactedSsTable(region, generation)])
    builder.execute(rows.select(table.schema.names))


class TestWrittenByLance:
    def test_the_configuration_is_what_pylance_says(self, new_table: Callable[..., WrittenTable]):
        table = new_table(bucket_column="id", num_buckets=4, max_memtable_rows=500)

        details = newest_details(table)

        spoken = table.dataset.mem_wal_index_details()
        assert details.region_specs == (RegionSpec(1, (BUCKETS,)),)
        assert details.region_specs[0].fields[0].parameters == {"num_buckets": "4"}
        assert details.num_regions == spoken["num_shards"] == 4
        assert details.maintain_all_indexes is spoken["maintain_all_indexes"] is True
        assert details.writer_config_defaults == spoken["writer_config_defaults"] != {}
        assert details.specs.get(1) is details.region_specs[0]
        assert details.specs.get(0) is None
        assert details.merged_generations == {}
        assert decode_region_snapshots(details) == ()

    @pytest.mark.parametrize(
        ("options", "transform", "sources", "result_type"),
        [
            ({"identity_column": "id"}, "identity", (0,), "int64"),
            ({"unsharded": True}, "unsharded", (), "int32"),
        ],
    )
    def test_other_region_specs(
        self,
        new_table: Callable[..., WrittenTable],
        options: dict[str, Any],
        transform: str,
        sources: tuple[int, ...],
        result_type: str,
    ):
        ((field,),) = (spec.fields for spec in newest_details(new_table(**options)).region_specs)
        assert (field.transform, field.source_ids, field.result_type) == (transform, sources, result_type)

    def test_regions_made_by_hand_have_no_spec(self, new_table: Callable[..., WrittenTable]):
        assert newest_details(new_table()).region_specs == ()

    def test_progress_of_merges_is_read_for_every_version(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        first, second = (
            table.write(*(table.rows(id=[key], qty=[at]) for at in range(3)), max_memtable_rows=1)
            for key in (1, 2)
        )
        before = table.dataset.version
        merge(table, first, 1)
        merge(table, second, 1)
        merge(table, first, 2)

        progress = [
            dict(details.merged_generations)
            if (details := read_index_details(table.storage, version))
            else {}
            for version in range(before, table.dataset.version + 1)
        ]
        assert progress == [{}, {first: 1}, {first: 1, second: 1}, {first: 2, second: 1}]

    def test_progress_of_indexes_follows_their_optimisation(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        table.dataset.insert(table.rows(id=range(100, 200), qty=range(100)))
        table.dataset.create_scalar_index("qty", "BTREE")
        region = table.write(table.rows(id=[1], qty=[1]))
        merge(table, region, 1)
        assert newest_details(table).index_catchup.get("qty_idx", {}) == {}

        table.dataset.optimize.optimize_indices()

        assert newest_details(table).index_catchup == {"qty_idx": {region: 1}}

    def test_a_table_without_mem_wal_has_none(self, tmp_path: Path):
        schema = keyed_schema(pa.field("id", pa.int64()))
        dataset = lance.write_dataset(schema.empty_table(), str(tmp_path / "t.lance"))
        assert read_index_details(Storage.open(dataset.uri), 1) is None
        dataset.insert(pa.table({"id": [1], "qty": [1]}, schema=schema))
        dataset.create_scalar_index("qty", "BTREE")
        assert read_index_details(Storage.open(dataset.uri), lance.dataset(dataset.uri).version) is None

    def test_the_older_naming_scheme_is_read(self, tmp_path: Path):
        schema = keyed_schema(pa.field("id", pa.int64()))
        uri = str(tmp_path / "t.lance")
        dataset = lance.write_dataset(schema.empty_table(), uri, enable_v2_manifest_paths=False)
        dataset.initialize_mem_wal(bucket_column="id", num_buckets=4)
        version = lance.dataset(uri).version
        assert Storage.open(uri).exists(f"_versions/{version}.manifest") == (True,)
        details = read_index_details(Storage.open(uri), version)
        assert details is not None
        assert details.region_specs == (RegionSpec(1, (BUCKETS,)),)


class TestBaseManifest:
    def test_it_tells_the_table_apart_from_others_and_from_its_other_versions(
        self, new_table: Callable[..., WrittenTable]
    ):
        table = new_table()
        table.dataset.insert(table.rows(id=range(100), qty=range(100)))
        table.dataset.create_scalar_index("qty", "BTREE")
        version = table.dataset.version
        manifest, before = (read_base_manifest(table.storage, one) for one in (version, version - 1))
        assert manifest.path == f"_versions/{2**64 - 1 - version:020d}.manifest"
        assert manifest.digest == blake2b(table.storage.read(manifest.path), digest_size=16).digest()
        assert manifest.digest != before.digest
        assert (manifest.index_names, before.index_names) == ({"qty_idx"}, frozenset())
        assert manifest.details is not None
        assert manifest.index_id == before.index_id == str(uuid.UUID(manifest.index_id))
        assert not manifest.is_inherited
        assert read_base_manifest(new_table(name="other").storage, 2).index_id != manifest.index_id

    def test_a_table_without_mem_wal_has_a_digest_and_names_of_indexes(self, tmp_path: Path):
        rows = pa.table({"qty": range(10)})
        dataset = lance.write_dataset(rows, str(tmp_path / "t.lance"))
        dataset.create_scalar_index("qty", "BTREE")
        storage = Storage.open(dataset.uri)
        manifest = read_base_manifest(storage, lance.dataset(dataset.uri).version)
        digest = blake2b(storage.read(manifest.path), digest_size=16).digest()
        assert manifest == BaseManifest(None, digest, manifest.path, None, frozenset({"qty_idx"}))

    def test_the_index_of_a_clone_is_inherited(self, new_table: Callable[..., WrittenTable], tmp_path: Path):
        table = new_table(unsharded=True)
        clone = table.dataset.shallow_clone(str(tmp_path / "clone.lance"), reference=table.dataset.version)
        manifest = read_base_manifest(Storage.open(clone.uri), clone.version)
        assert manifest.is_inherited
        assert manifest.index_id == read_base_manifest(table.storage, table.dataset.version).index_id


class TestWireForm:
    region = "0b0c7a52-53a9-4d6c-8f0e-5a6b1c1f0a11"
    details = MemWalIndexDetails(
        snapshot_ts_millis=7,
        num_regions=4,
        inline_snapshots=b"rows",
        region_specs=(
            RegionSpec(1, (BUCKETS, RegionField("e", (3, 4), None, "col0 + col1", "int64"))),
            RegionSpec(2, ()),
        ),
        maintained_indexes=("a_idx", "b_idx"),
        maintain_all_indexes=True,
        merged_generations={region: 3, str(uuid.UUID(int=1)): 1},
        index_catchup={"a_idx": {region: 2}, "b_idx": {}},
        writer_config_defaults={"max_memtable_rows": "5"},
    )

    @pytest.mark.parametrize("details", [details, MemWalIndexDetails()], ids=["all fields", "none"])
    def test_all_fields_come_back(self, details: MemWalIndexDetails):
        data = details.encode()
        read = MemWalIndexDetails.decode(data, source="it")
        assert read == details
        assert read.origin == data
        assert [spec.fields for spec in read.region_specs] == [spec.fields for spec in details.region_specs]

    def test_new_snapshots_leave_everything_else(self):
        unknown = b"\xf2\x07\x03new"  # Field 126, three bytes.
        read = MemWalIndexDetails.decode(self.details.encode() + unknown, source="it")
        for snapshots in (b"others", b"", None):
            data = read.encode_with_snapshots(8, 5, snapshots)
            assert unknown in data
            assert MemWalIndexDetails.decode(data, source="it") == replace(
                self.details, snapshot_ts_millis=8, num_regions=5, inline_snapshots=snapshots
            )
        assert MemWalIndexDetails.decode(
            self.details.encode_with_snapshots(8, 5, None), source="it"
        ) == replace(self.details, snapshot_ts_millis=8, num_regions=5, inline_snapshots=None)

    def test_what_was_read_is_encoded_anew_when_it_is_changed(self):
        read = replace(MemWalIndexDetails.decode(self.details.encode(), source="it"), num_regions=9)
        assert MemWalIndexDetails.decode(read.encode(), source="it").num_regions == 9

    def test_a_message_ends_before_the_footer(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        version = table.dataset.version
        path = f"_versions/{2**64 - 1 - version:020d}.manifest"
        data = table.storage.read(path)
        (position,) = struct.unpack("<Q", data[-16:-8])
        (length,) = struct.unpack_from("<I", data, position)
        assert position + 4 + length == len(data) - 16
        for wrong in (length + 1, 2**32 - 1):
            changed = data[:position] + struct.pack("<I", wrong) + data[position + 4 :]
            table.storage.put(path, changed)
            with pytest.raises(CorruptDataError, match=f"at byte {position} is recorded with {wrong} bytes"):
                read_index_details(table.storage, version)

    def test_a_file_without_the_magic_bytes_is_no_manifest(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        version = table.dataset.version
        path = f"_versions/{2**64 - 1 - version:020d}.manifest"
        table.storage.put(path, table.storage.read(path)[:-4] + b"LANX")
        with pytest.raises(CorruptDataError, match="ends with b'LANX' instead of b'LANC'"):
            read_index_details(table.storage, version)


class TestDamage:
    def test_a_version_that_is_not_there_is_named(self, new_table: Callable[..., WrittenTable]):
        with pytest.raises(NotFoundError, match="has no version 99"):
            read_index_details(new_table().storage, 99)

    def test_a_manifest_that_is_cut_short_is_named(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        version = table.dataset.version
        path = f"_versions/{2**64 - 1 - version:020d}.manifest"
        data = table.storage.read(path)
        for size in (0, 10, len(data) // 2, len(data) - 1):
            table.storage.put(path, data[:size])
            with pytest.raises(CorruptDataError, match=rf"{path} \({size} bytes\) is not a whole base table"):
                read_index_details(table.storage, version)

    @pytest.mark.parametrize("position", [2**63, 10**6])
    def test_a_footer_that_leads_nowhere_is_named(
        self, new_table: Callable[..., WrittenTable], position: int
    ):
        table = new_table()
        version = table.dataset.version
        path = f"_versions/{2**64 - 1 - version:020d}.manifest"
        data = table.storage.read(path)
        table.storage.put(path, data[:-16] + struct.pack("<Q", position) + data[-8:])
        with pytest.raises(CorruptDataError, match=f"a message is recorded at byte {position}"):
            read_index_details(table.storage, version)

    def test_details_that_are_garbage_are_named(self):
        with pytest.raises(CorruptDataError, match="from here: the index __lance_mem_wal cannot be read"):
            MemWalIndexDetails.decode(b"\xff\xff", source="from here")

    def test_snapshots_that_are_garbage_are_named(self):
        with pytest.raises(CorruptDataError, match=r"inline region snapshots .*\(7 bytes\)"):
            decode_region_snapshots(MemWalIndexDetails(inline_snapshots=b"garbage"))

    def test_a_senseless_spec_is_refused(self):
        with pytest.raises(InvalidInputError, match="Region spec 0"):
            RegionSpec(0, ())
        with pytest.raises(InvalidInputError, match="fields differ in name"):
            RegionSpec(1, (BUCKETS, BUCKETS))


class TestRegionSnapshots:
    region = uuid.UUID("0b0c7a52-53a9-4d6c-8f0e-5a6b1c1f0a11")

    def details(self, tmp_path: Path, rows: pa.Table, fields: tuple[RegionField, ...]) -> MemWalIndexDetails:
        path = tmp_path / "snapshots.lance"
        with LanceFileWriter(str(path), rows.schema) as writer:
            writer.write_batch(rows)
        return MemWalIndexDetails(inline_snapshots=path.read_bytes(), region_specs=(RegionSpec(1, fields),))

    def test_whole_region_states_are_read(self, tmp_path: Path):
        generation = pa.struct([("generation", pa.uint64()), ("path", pa.string())])
        rows = pa.table(
            {
                "region_id": pa.array([self.region.bytes], pa.binary(16)),
                "version": pa.array([3], pa.uint64()),
                "region_spec_id": pa.array([1], pa.uint32()),
                "writer_epoch": pa.array([2], pa.uint64()),
                "replay_after_wal_entry_position": pa.array([9], pa.uint64()),
                "wal_entry_position_last_seen": pa.array([11], pa.uint64()),
                "current_generation": pa.array([5], pa.uint64()),
                "flushed_generations": pa.array(
                    [[{"generation": 4, "path": "a_gen_4"}]], pa.list_(generation)
                ),
                "region_field_bucket": pa.array([258], pa.int32()),
            }
        )
        (snapshot,) = decode_region_snapshots(self.details(tmp_path, rows, (BUCKETS,)))
        assert (snapshot.region_id, snapshot.region_spec_id) == (str(self.region), 1)
        assert snapshot.region_values == {"bucket": b"\x02\x01\0\0"}
        assert snapshot.manifest is not None
        assert snapshot.manifest.version == 3
        assert snapshot.manifest.replay_after_wal_entry_position == 9
        assert snapshot.manifest.flushed_generations == (FlushedGeneration(4, "a_gen_4"),)
        assert snapshot.manifest.region_values == snapshot.region_values

    def test_snapshots_of_identities_alone_are_read(self, tmp_path: Path):
        name = RegionField("name", (1,), "identity", None, "utf8")
        rows = pa.table(
            {
                "shard_id": [str(self.region)],
                "shard_spec_id": pa.array([1], pa.uint32()),
                "shard_field_bucket": pa.array([None], pa.int32()),
                "shard_field_name": ["é"],
            }
        )
        (snapshot,) = decode_region_snapshots(self.details(tmp_path, rows, (BUCKETS, name)))
        assert snapshot.region_id == str(self.region)
        assert snapshot.region_values == {"name": "é".encode()}
        assert snapshot.manifest is None

    def test_a_snapshot_without_its_columns_is_refused(self, tmp_path: Path):
        with pytest.raises(CorruptDataError, match="there is no column region_id; the columns are other"):
            decode_region_snapshots(self.details(tmp_path, pa.table({"other": [1]}), ()))
