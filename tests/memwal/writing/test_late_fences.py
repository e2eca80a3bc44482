"""A writer claims a region, loses it at once, and leaves its fence only then: among newer entries."""

from collections.abc import Callable

import pytest

from lance_gateway.memwal.regions.wal import find_appended_position, find_last_wal_position, wal_entry_path
from lance_gateway.memwal.writing import Changes, FencedError, TableWriter
from lance_gateway.memwal.writing.region.doubts import Arrival, check_arrival
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]
SETTINGS = {"max_wal_buffer_size": 1, "max_wal_flush_interval_ms": 5_000}


def row(table: WrittenTable, key: int, qty: int = 0) -> Changes:
    return Changes(table.rows(id=[key], qty=[qty], name=[""]))


def owned(table: WrittenTable, writer: TableWriter) -> str:
    """The region, that `writer` has claimed back from a rival."""
    (region,) = writer.write(row(table, 1, 1)).regions
    table.dataset.mem_wal_writer(region, **SETTINGS)
    writer.write(row(table, 1, 2))
    assert [(one.writer_epoch, one.is_fence) for one in log(table, region)] == [
        (1, False),
        (2, True),
        (3, True),
        (3, False),
    ]
    return region


def come_late(table: WrittenTable, region: str) -> None:
    """The rival's fence arrives now, at the end of the log."""
    fence = next(one for one in log(table, region) if one.is_fence)
    data = table.storage.read(wal_entry_path(region, fence.position))
    last = find_last_wal_position(table.storage, region, after=0)
    assert table.storage.put_if_absent(wal_entry_path(region, last + 1), data)


def test_what_is_refused_behind_one_is_not_taken_for_what_was_written(table: WrittenTable, writing: Writing):
    writer = writing(table)
    region = owned(table, writer)
    come_late(table, region)
    with writer.exclusive([region]) as held:
        held.write(row(table, 1, 3))
        rival = table.dataset.mem_wal_writer(region, **SETTINGS)
        rival.put(row(table, 1, 7).upserts)
        with pytest.raises(FencedError):
            held.write(row(table, 1, 4))
    assert rows_by_key(table)[1]["qty"] == 7


def test_it_moves_entries_to_where_they_are_in_the_log(table: WrittenTable, writing: Writing):
    writer = writing(table)
    region = owned(table, writer)
    for key in range(3):
        come_late(table, region)
        writer.write(row(table, key))
        writer.write(row(table, key, 9))
    come_late(table, region)
    come_late(table, region)
    writer.write(row(table, 5))

    tail = writer.get_tails([region]).get(region)

    assert tail is not None
    stored = [one for one in log(table, region) if one.position >= tail.first and not one.is_fence]
    assert tail.last == stored[-1].position == 16
    assert len(tail.entries) == len(stored)
    for held, found in zip(tail.entries, stored, strict=True):
        assert (held.position, held.writer_epoch, held.rows) == (found.position, 3, found.rows)
    (stats,) = writer.stats()
    assert (stats.wal_position, stats.epoch, stats.in_doubt) == (16, 3, 1)


def test_an_append_is_found_behind_one(table: WrittenTable, writing: Writing):
    writer = writing(table)
    region = owned(table, writer)
    come_late(table, region)
    assert check_arrival(table.storage, region, 5, epoch=3) is None
    writer.write(row(table, 2))
    assert check_arrival(table.storage, region, 5, epoch=3) is Arrival.WRITTEN
    come_late(table, region)
    assert check_arrival(table.storage, region, 7, epoch=3) is None
    table.dataset.mem_wal_writer(region, **SETTINGS)
    assert check_arrival(table.storage, region, 7, epoch=3) is Arrival.NOT_WRITTEN


def test_rows_are_flushed_once(table: WrittenTable, writing: Writing):
    writer = writing(table, max_memtable_rows=10)
    region = owned(table, writer)
    for key in range(2, 40):
        if key % 5 == 0:
            come_late(table, region)
        writer.write(row(table, key, key))
    writer.flush()
    assert {key: one["qty"] for key, one in rows_by_key(table).items()} == {
        1: 2,
        **{key: key for key in range(2, 40)},
    }


def test_an_entry_that_lance_appended_again_is_found_where_it_is_last(table: WrittenTable, writing: Writing):
    """And neither a late fence behind it nor another writer's entries are taken for it."""
    writer = writing(table)
    region = owned(table, writer)
    last = find_last_wal_position(table.storage, region, after=0)
    again = table.storage.read(wal_entry_path(region, last))
    assert table.storage.put_if_absent(wal_entry_path(region, last + 1), again)
    assert find_appended_position(table.storage, region, last, 3) == last + 1
    come_late(table, region)
    assert find_appended_position(table.storage, region, last, 3) == last + 1
    table.dataset.mem_wal_writer(region, **SETTINGS).put(row(table, 1, 7).upserts)
    assert find_appended_position(table.storage, region, last, 3) == last + 1
