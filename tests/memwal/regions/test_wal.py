"""The write-ahead log: entries that Lance's writer appends, and entries cut short."""

import uuid
from collections.abc import Callable

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError
from lance_gateway.memwal.regions.manifest import manifest_path, parse_manifest_version
from lance_gateway.memwal.regions.wal import (
    WalEntry,
    find_last_wal_position,
    parse_wal_entry_position,
    read_wal_entry,
    wal_entry_path,
)
from tests.memwal.written import WrittenTable


def test_a_put_is_readable_the_moment_it_returns(new_table: Callable[..., WrittenTable]):
    table = new_table()
    region = str(uuid.uuid4())
    with table.dataset.mem_wal_writer(region) as writer:
        for number in range(1, 4):
            writer.put(table.rows(id=[number], qty=[number * 10]))
            assert find_last_wal_position(table.storage, region, after=number - 1) == number
            entry = read_wal_entry(table.storage, region, number)
            assert (entry.position, entry.writer_epoch, entry.generation) == (number, 1, 1)
            assert not entry.is_fence
            assert entry.rows is not None
            assert entry.rows.to_pylist() == [{"id": number, "qty": number * 10, "_tombstone": False}]


def test_a_delete_is_a_tombstone(new_table: Callable[..., WrittenTable]):
    table = new_table()
    region = str(uuid.uuid4())
    with table.dataset.mem_wal_writer(region) as writer:
        writer.delete(pa.table({"id": pa.array([5], pa.int64())}))
        entry = read_wal_entry(table.storage, region, 1)
        assert entry.rows is not None
        assert entry.rows.to_pylist() == [{"id": 5, "qty": None, "_tombstone": True}]


def test_columns_carry_the_field_ids_of_the_base_table(new_table: Callable[..., WrittenTable]):
    table = new_table()
    entry = read_wal_entry(table.storage, table.write(table.rows(id=[1], qty=[1])), 1)
    assert entry.rows is not None
    assert [entry.rows.schema.field(name).metadata[b"lance:field_id"] for name in ("id", "qty")] == [
        b"0",
        b"1",
    ]


@pytest.mark.slow
def test_entries_name_the_generation_they_are_flushed_in(new_table: Callable[..., WrittenTable]):
    table = new_table()
    batches = [table.rows(id=range(at, at + 40), qty=[0] * 40) for at in range(0, 200, 40)]
    region = table.write(*batches, max_memtable_rows=80)
    entries = [read_wal_entry(table.storage, region, position) for position in range(1, 6)]
    assert [entry.generation for entry in entries] == [1, 1, 2, 2, 3]


def test_a_successor_fences_off_its_predecessor(new_table: Callable[..., WrittenTable]):
    table = new_table()
    region = str(uuid.uuid4())
    first = table.dataset.mem_wal_writer(region)
    first.put(table.rows(id=[1], qty=[1]))
    with table.dataset.mem_wal_writer(region) as second:
        second.put(table.rows(id=[2], qty=[2]))
        last = find_last_wal_position(table.storage, region, after=0)
        entries = [read_wal_entry(table.storage, region, position) for position in range(1, last + 1)]
    with pytest.raises(OSError, match="fenced"):
        first.close()

    assert entries[0].writer_epoch == 1
    assert entries[-1].writer_epoch == 2
    fences = [entry for entry in entries if entry.is_fence]
    assert fences
    assert all(entry.rows is None for entry in fences)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 8, 150])
def test_the_last_position_is_the_last_without_a_gap(new_table: Callable[..., WrittenTable], count: int):
    table = new_table()
    region = str(uuid.uuid4())
    for position in (*range(1, count + 1), count + 2):
        table.storage.put(wal_entry_path(region, position), b"")
    assert find_last_wal_position(table.storage, region, after=0) == count
    assert find_last_wal_position(table.storage, region, after=count) == count


def test_an_absent_entry_is_not_found(new_table: Callable[..., WrittenTable]):
    with pytest.raises(FileNotFoundError):
        read_wal_entry(new_table().storage, str(uuid.uuid4()), 1)


def test_an_entry_that_is_cut_short_is_named(new_table: Callable[..., WrittenTable]):
    table = new_table()
    region = table.write(table.rows(id=range(100), qty=range(100)))
    path = wal_entry_path(region, 1)
    data = table.storage.read(path)
    for size in (0, 4, 100, len(data) // 2, len(data) - 8, len(data) - 1):
        table.storage.put(path, data[:size])
        with pytest.raises(CorruptDataError, match=rf"{path} \({size} bytes\) is not a whole WAL entry"):
            read_wal_entry(table.storage, region, 1)


def test_a_stream_without_an_epoch_is_no_entry(new_table: Callable[..., WrittenTable]):
    table = new_table()
    region = str(uuid.uuid4())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.rows(id=[1], qty=[1]))
    table.storage.put(wal_entry_path(region, 1), sink.getvalue().to_pybytes())
    with pytest.raises(CorruptDataError, match="no writer_epoch"):
        read_wal_entry(table.storage, region, 1)


def test_a_senseless_entry_is_refused():
    with pytest.raises(InvalidInputError, match="positions start at 1"):
        WalEntry(0, 1, 1, is_fence=True, rows=None)
    with pytest.raises(InvalidInputError, match="a fence carries no rows"):
        WalEntry(1, 1, 1, is_fence=False, rows=None)


def test_names_of_files_give_their_numbers_back():
    wal, _, entry = wal_entry_path("r", 5).rpartition("/")
    assert (wal, entry) == ("_mem_wal/r/wal", f"101{'0' * 61}.arrow")
    manifests, _, manifest = manifest_path("r", 6).rpartition("/")
    assert (manifests, manifest) == ("_mem_wal/r/manifest", f"011{'0' * 61}.binpb")
    assert (parse_wal_entry_position(entry), parse_manifest_version(manifest)) == (5, 6)
    assert (parse_wal_entry_position(manifest), parse_manifest_version(entry)) == (None, None)
    for name in ("version_hint.json", "101.arrow", "101.binpb", f"{entry}.tmp.1", f"{manifest}#1"):
        assert (parse_wal_entry_position(name), parse_manifest_version(name)) == (None, None)
