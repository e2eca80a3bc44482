"""Region manifests: what Lance's writer commits, how the newest is found, what a damaged one gets."""

import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, UnavailableError
from lance_gateway.memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    ReplayStart,
    commit_manifest,
    format_reversed_bits,
    list_regions,
    manifest_path,
    parse_reversed_bits,
    read_latest_manifest,
    read_latest_manifests,
    version_hint_path,
)
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.protos import mem_wal_pb2
from tests.memwal.written import WrittenTable

REGION = "0b0c7a52-53a9-4d6c-8f0e-5a6b1c1f0a11"


def new_manifest(version: int = 1, **fields: object) -> RegionManifest:
    return replace(RegionManifest(REGION, version, 0, 0, 0, 1), **fields)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.open(str(tmp_path / "t.lance"))


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Every exists() call that is made, and its paths."""
    seen: list[tuple[str, ...]] = []
    exists = Storage.exists

    def recording(self: Storage, *paths: str) -> tuple[bool, ...]:
        seen.append(paths)
        return exists(self, *paths)

    monkeypatch.setattr(Storage, "exists", recording)
    return seen


class TestWrittenByLance:
    @pytest.mark.slow
    def test_generations_and_wal_positions_are_read(self, new_table: Callable[..., WrittenTable]):
        table = new_table(bucket_column="id", num_buckets=2)
        batches = [table.rows(id=range(at, at + 40), qty=[0] * 40) for at in range(0, 200, 40)]
        region = table.write(*batches, max_memtable_rows=80)

        manifest = table.manifest(region)

        assert manifest.region_id == region
        assert [one.generation for one in manifest.flushed_generations] == [1, 2, 3]
        assert [one.physical_rows for one in manifest.flushed_generations] == [80, 80, 40]
        assert manifest.current_generation == 4
        assert manifest.writer_epoch == 1
        assert manifest.replay_after_wal_entry_position == 5
        assert manifest.region_spec_id == 1
        assert manifest.region_values == {}
        assert not manifest.sealed
        directories = {entry.name for entry in table.storage.list(f"_mem_wal/{region}") if entry.is_dir}
        assert {one.path for one in manifest.flushed_generations} < directories

    def test_every_manifest_encodes_to_the_bytes_it_was_read_from(
        self, new_table: Callable[..., WrittenTable]
    ):
        table = new_table()
        region = table.write(table.rows(id=[1], qty=[1]))
        for version in range(1, table.manifest(region).version + 1):
            data = table.storage.read(manifest_path(region, version))
            assert RegionManifest.decode(data, source="it").encode() == data

    def test_values_recorded_in_a_first_manifest_survive_lances_writer(
        self, new_table: Callable[..., WrittenTable]
    ):
        table = new_table(bucket_column="id", num_buckets=2)
        first = new_manifest(region_spec_id=1, region_values={"bucket": b"\1\0\0\0"})
        assert commit_manifest(table.storage, first)

        table.write(table.rows(id=[1], qty=[1]), region=REGION)

        manifest = table.manifest(REGION)
        assert manifest.version > 1
        assert manifest.region_values == {"bucket": b"\1\0\0\0"}
        assert [one.generation for one in manifest.flushed_generations] == [1]

    @pytest.mark.slow
    def test_lances_writer_goes_on_from_a_manifest_of_ours(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        region = table.write(table.rows(id=[1], qty=[1]))
        newest = table.manifest(region)
        assert commit_manifest(
            table.storage, replace(newest, version=newest.version + 1, flushed_generations=())
        )

        table.write(table.rows(id=[2], qty=[2]), region=region)

        assert [one.generation for one in table.manifest(region).flushed_generations] == [2]

    @pytest.mark.slow
    def test_regions_are_listed_by_their_directories(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        assert list_regions(table.storage) == ()
        regions = sorted(table.write(table.rows(id=[key], qty=[0])) for key in range(3))
        table.storage.put("_mem_wal/notes/readme.txt", b"no region")
        table.storage.put(f"_mem_wal/{uuid.uuid4()}", b"no directory")
        assert list_regions(table.storage) == tuple(regions)


class TestFindingTheNewest:
    def commit(self, storage: Storage, *versions: int) -> None:
        for version in versions:
            assert commit_manifest(storage, new_manifest(version))

    def newest(self, storage: Storage, known: RegionManifest | None = None) -> int | None:
        manifest = read_latest_manifest(storage, REGION, cached=known)
        return None if manifest is None else manifest.version

    def test_a_region_without_manifest_has_none(self, storage: Storage):
        assert self.newest(storage) is None
        storage.put(version_hint_path(REGION), b'{"version":3}')
        assert self.newest(storage) is None

    @pytest.mark.parametrize("newest", [1, 2, 3, 7, 8, 200])
    def test_probing_goes_upward_from_the_hint(self, storage: Storage, newest: int):
        self.commit(storage, *range(1, newest + 1))
        storage.put(version_hint_path(REGION), b'{"version":1}')
        assert self.newest(storage) == newest

    @pytest.mark.parametrize(
        "hint", [b"", b"garbage", b"[]", b"{}", b'{"version":"2"}', b'{"version":0}', b'{"version":-1}']
    )
    def test_a_senseless_hint_is_passed_over(self, storage: Storage, hint: bytes):
        self.commit(storage, 1, 2, 3)
        storage.put(version_hint_path(REGION), hint)
        assert self.newest(storage) == 3

    @pytest.mark.parametrize("version", [9, 2**63, 2**80])
    def test_a_hint_beyond_the_newest_is_passed_over(self, storage: Storage, version: int):
        self.commit(storage, 1, 2, 3)
        storage.put(version_hint_path(REGION), b'{"version":%d}' % version)
        assert self.newest(storage) == 3

    def test_old_versions_may_have_been_removed(self, storage: Storage):
        self.commit(storage, 5, 6)
        storage.put(version_hint_path(REGION), b"garbage")
        assert self.newest(storage) == 6

    def test_nothing_new_costs_one_call_and_returns_the_known_object(
        self, storage: Storage, probes: list[tuple[str, ...]]
    ):
        self.commit(storage, 1, 2)
        known = read_latest_manifest(storage, REGION)
        probes.clear()
        assert read_latest_manifest(storage, REGION, cached=known) is known
        assert probes == [(manifest_path(REGION, 2), manifest_path(REGION, 3))]

    def test_newer_versions_are_found_from_a_known_one(self, storage: Storage):
        self.commit(storage, 1)
        known = read_latest_manifest(storage, REGION)
        self.commit(storage, 2, 3, 4)
        assert self.newest(storage, known) == 4

    def test_directories_are_listed_only_where_nothing_leads_to_a_version(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ):
        self.commit(storage, 1, 2)
        known = read_latest_manifest(storage, REGION)
        with monkeypatch.context() as patch:
            patch.setattr(Storage, "list", lambda *_: pytest.fail("a directory was listed"))
            assert self.newest(storage) == 2
            self.commit(storage, 3)
            (Path(storage.uri) / version_hint_path(REGION)).unlink()
            assert self.newest(storage, known) == 3
            assert known is not None
            (found,) = read_latest_manifests(storage, [REGION], cached={REGION: known})
            assert found is not None
            assert found.version == 3
        shutil.rmtree(storage.uri)
        assert self.newest(storage, known) is None

    def test_one_version_after_a_known_one_is_read_without_looking_for_it_again(
        self, storage: Storage, probes: list[tuple[str, ...]]
    ):
        self.commit(storage, 1)
        known = read_latest_manifest(storage, REGION)
        self.commit(storage, 2)
        probes.clear()
        assert self.newest(storage, known) == 2
        paths = [manifest_path(REGION, version) for version in (1, 2, 3)]
        assert probes == [(paths[0], paths[1]), (paths[2],)]

    def test_a_version_that_is_removed_while_it_is_read_is_looked_for_again(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ):
        self.commit(storage, 1, 2)
        read, newest = Storage.read, manifest_path(REGION, 2)

        def removing(self: Storage, path: str) -> bytes:
            if path == newest:
                (Path(storage.uri) / newest).unlink(missing_ok=True)
            return read(self, path)

        monkeypatch.setattr(Storage, "read", removing)
        assert self.newest(storage) == 1

    def test_versions_that_keep_vanishing_are_given_up(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ):
        self.commit(storage, 1)
        attempts = []

        def vanished(_: Storage, path: str) -> bytes:
            attempts.append(path)
            raise FileNotFoundError

        monkeypatch.setattr(Storage, "read", vanished)
        with pytest.raises(UnavailableError, match=f"region {REGION} .* vanish while they are read; retry"):
            self.newest(storage)
        assert attempts == [version_hint_path(REGION), *[manifest_path(REGION, 1)] * 3]

    def test_a_known_region_that_was_dropped_is_gone(self, storage: Storage):
        self.commit(storage, 1)
        known = read_latest_manifest(storage, REGION)
        shutil.rmtree(storage.uri)
        assert read_latest_manifest(storage, REGION, cached=known) is None

    def test_a_known_region_that_was_made_anew_is_read_anew(self, storage: Storage):
        self.commit(storage, 1, 2, 3)
        known = read_latest_manifest(storage, REGION)
        shutil.rmtree(storage.uri)
        self.commit(storage, 1)
        assert self.newest(storage, known) == 1

    def test_many_regions_are_read_like_one(self, storage: Storage, probes: list[tuple[str, ...]]):
        regions = [str(uuid.uuid4()) for _ in range(5)]
        for region in regions[:4]:
            commit_manifest(storage, new_manifest(region_id=region))
        first = read_latest_manifests(storage, regions, cached={})
        assert [one.region_id if one else None for one in first] == [*regions[:4], None]

        known = {one.region_id: one for one in first if one}
        commit_manifest(storage, new_manifest(2, region_id=regions[1]))
        again = read_latest_manifests(storage, regions, cached=known)
        assert [one.version if one else None for one in again] == [1, 2, 1, 1, None]
        assert again[0] is first[0]

        probes.clear()
        assert read_latest_manifests(storage, regions[2:4], cached=known) == first[2:4]
        assert len(probes) == 1

    def test_no_regions_have_no_manifests(self, storage: Storage):
        assert read_latest_manifests(storage, [], cached={}) == ()


class TestCommitting:
    def test_a_version_is_committed_once(self, storage: Storage):
        assert commit_manifest(storage, new_manifest())
        assert not commit_manifest(storage, new_manifest(writer_epoch=9))
        manifest = read_latest_manifest(storage, REGION)
        assert manifest == new_manifest()
        assert storage.read(version_hint_path(REGION)) == b'{"version":1}'

    def test_a_version_counts_without_its_hint(self, storage: Storage, monkeypatch: pytest.MonkeyPatch):
        def unavailable(*_: object) -> None:
            raise UnavailableError("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(Storage, "put", unavailable)
            assert commit_manifest(storage, new_manifest())
        assert not storage.exists(version_hint_path(REGION))[0]
        assert read_latest_manifest(storage, REGION) == new_manifest()

    def test_all_fields_come_back(self, storage: Storage):
        manifest = RegionManifest(
            region_id=REGION,
            version=7,
            writer_epoch=3,
            replay_after_wal_entry_position=11,
            wal_entry_position_last_seen=12,
            current_generation=6,
            flushed_generations=(FlushedGeneration(4, "aa_gen_4", 10), FlushedGeneration(5, "bb_gen_5")),
            region_spec_id=2,
            region_values={"day": b"\x0a\0\0\0", "name": "é".encode(), "none": b""},
            sealed=True,
        )
        assert commit_manifest(storage, manifest)
        assert read_latest_manifest(storage, REGION) == manifest

    def test_what_we_do_not_know_outlives_a_change_of_ours(self):
        message = mem_wal_pb2.RegionManifest(version=1, current_generation=3)
        message.region_id.uuid = uuid.UUID(REGION).bytes
        for number in (1, 2):
            message.flushed_generations.add(generation=number, path=f"x_gen_{number}", in_memory_bytes=77)
        unknown = b"\xf2\x07\x03new"  # Field 126, three bytes.
        read = RegionManifest.decode(message.SerializeToString() + unknown, source="it")

        changed = replace(read, version=2, flushed_generations=read.flushed_generations[1:]).encode()

        assert unknown in changed
        (kept,) = mem_wal_pb2.RegionManifest.FromString(changed).flushed_generations
        assert (kept.generation, kept.in_memory_bytes) == (2, 77)


class TestDamage:
    def test_a_manifest_that_is_cut_short_is_named(self, new_table: Callable[..., WrittenTable]):
        table = new_table()
        region = table.write(table.rows(id=[1], qty=[1]))
        path = manifest_path(region, table.manifest(region).version)
        data = table.storage.read(path)
        for size in (0, 1, len(data) // 2, len(data) - 1):
            table.storage.put(path, data[:size])
            with pytest.raises(
                CorruptDataError, match=f"{region}.*{format_reversed_bits(2)}.*restore the file"
            ):
                read_latest_manifest(table.storage, region)

    def test_garbage_is_named(self, storage: Storage):
        storage.put(manifest_path(REGION, 1), b"\xff" * 40)
        with pytest.raises(CorruptDataError, match=r"40 bytes\) is not a whole region manifest"):
            read_latest_manifest(storage, REGION)

    def test_a_manifest_under_another_version_is_named(self, storage: Storage):
        storage.put(manifest_path(REGION, 2), new_manifest().encode())
        with pytest.raises(CorruptDataError, match=f"holds version 1 .* its name says version 2 .*{REGION}"):
            read_latest_manifest(storage, REGION)

    def test_a_generation_outside_of_its_region_is_refused(self):
        message = mem_wal_pb2.RegionManifest(version=1)
        message.region_id.uuid = uuid.UUID(REGION).bytes
        message.flushed_generations.add(generation=1, path="../../../etc")
        with pytest.raises(CorruptDataError, match="is not a directory below its region"):
            RegionManifest.decode(message.SerializeToString(), source="it")

    def test_a_generation_that_is_listed_again_counts_once_and_another_of_its_number_is_refused(self):
        message = mem_wal_pb2.RegionManifest(version=1)
        message.region_id.uuid = uuid.UUID(REGION).bytes
        for generation, path in ((2, "b_gen_2"), (1, "a_gen_1"), (2, "b_gen_2")):
            message.flushed_generations.add(generation=generation, path=path, physical_rows=3)
        manifest = RegionManifest.decode(message.SerializeToString(), source="it")
        listed = (FlushedGeneration(1, "a_gen_1", 3), FlushedGeneration(2, "b_gen_2", 3))
        assert manifest.flushed_generations == listed
        again = RegionManifest.decode(manifest.encode(), source="it")
        assert again.flushed_generations == listed
        message.flushed_generations.add(generation=2, path="c_gen_2")
        with pytest.raises(CorruptDataError, match=r"generations \[1, 2, 2\] must ascend"):
            RegionManifest.decode(message.SerializeToString(), source="it")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"region_id": "region-1"}, "'region-1' is not a UUID"),
        ({"region_id": REGION.upper()}, "lower-case"),
        ({"version": 0}, "version 0, but versions start at 1"),
        (
            {"flushed_generations": (FlushedGeneration(2, "a"), FlushedGeneration(2, "b"))},
            r"\[2, 2\] must ascend",
        ),
    ],
)
def test_a_senseless_manifest_is_refused(fields: dict[str, object], message: str):
    with pytest.raises(InvalidInputError, match=message):
        new_manifest(**fields)


@pytest.mark.parametrize(
    ("generation", "path"),
    [
        (0, "a_gen_0"),
        (1, ""),
        (1, "/a"),
        (1, "a/../.."),
        (1, "%2e%2e/b_gen_1"),
        (1, "b_gen_1?"),
        (1, "b#"),
        (1, "b\\c"),
    ],
)
def test_a_senseless_generation_is_refused(generation: int, path: str):
    with pytest.raises(InvalidInputError, match=f"generation {generation}"):
        FlushedGeneration(generation, path)


def test_numbers_in_file_names_have_their_bits_reversed():
    assert format_reversed_bits(5) == "101" + "0" * 61
    assert parse_reversed_bits(format_reversed_bits(2**64 - 2)) == 2**64 - 2
    assert parse_reversed_bits("10") is None
    assert parse_reversed_bits("2" * 64) is None
    with pytest.raises(InvalidInputError, match="18446744073709551616 cannot name a file"):
        format_reversed_bits(2**64)


@pytest.mark.parametrize(
    ("position", "generation", "is_unflushed"),
    [
        (5, 3, False),
        (6, 3, True),
        (6, 4, True),
        (6, 2, False),
        (5, 4, False),
        (6, None, True),
        (5, None, False),
    ],
)
def test_entries_behind_the_replay_position_and_of_the_current_generation_are_unflushed(
    position: int, generation: int | None, is_unflushed: bool
):
    assert ReplayStart(5, 3).is_unflushed(position, generation) is is_unflushed


def test_generations_up_to_the_newest_merged_one_are_merged():
    generations = tuple(FlushedGeneration(one, f"gen_{one}") for one in (2, 3, 5))
    manifest = RegionManifest(str(uuid.uuid4()), 1, 1, 0, 0, 6, generations)
    for newest_merged, count in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (9, 3)]:
        assert manifest.merged(newest_merged) == generations[:count]
        assert manifest.unmerged_generations(newest_merged) == generations[count:]
