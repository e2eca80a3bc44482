"""What becomes of a writer when its table changes, goes away, or nobody writes."""

import datetime as dt
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError, UnavailableError
from lance_gateway.memwal.writing import Changes, TableWriter, WriteOptions
from tests.memwal.writing.conftest import until
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]


def rows(table: WrittenTable, *keys: int) -> pa.Table:
    return table.rows(id=keys, qty=[1] * len(keys), name=["a"] * len(keys))


def test_a_flush_lets_go_and_the_next_write_claims_again(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(Changes(rows(table, 1))).regions
    writer.flush()
    (flushed,) = table.manifest(region).flushed_generations
    assert flushed.physical_rows == 1
    writer.write(Changes(rows(table, 2)))
    assert [one.epoch for one in writer.stats()] == [2]
    assert set(rows_by_key(table)) == {1, 2}


def test_a_region_that_nobody_writes_to_is_flushed_and_let_go(table: WrittenTable, writing: Writing):
    writer = writing(table, idle_close_seconds=0.1)
    (region,) = writer.write(Changes(rows(table, 1))).regions
    until(lambda: writer.stats()[0].flushes == 1)
    assert len(table.manifest(region).flushed_generations) == 1
    writer.write(Changes(rows(table, 2)))
    assert set(rows_by_key(table)) == {1, 2}


def test_a_region_that_another_writer_has_opened_is_left_to_it(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region_id,) = writer.write(Changes(rows(table, 1))).regions
    (region,) = writer._list_regions()
    with table.dataset.mem_wal_writer(region_id) as other:
        until(lambda: region.has_unflushed_loss)
        region.flush_after_loss(time.monotonic() + 60)
        assert not region.has_unflushed_loss
        other.put(rows(table, 2))
    assert set(rows_by_key(table)) == {1, 2}
    assert writer.stats()[0].claims == 1


def test_rows_with_a_column_that_was_added_are_written(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(Changes(rows(table, 1))).regions
    table.dataset.add_columns(pa.field("more", pa.int8()))

    writer.write(Changes(rows(table, 2)), timeout_seconds=20)  # Of a statement that began before.
    wider = rows(table, 3).append_column("more", pa.array([7], pa.int8()))
    writer.write(Changes(wider))

    newest = [one.rows for one in log(table, region) if one.rows is not None][-1]
    assert newest["more"].to_pylist() == [7]
    assert set(rows_by_key(table)) == {1, 2, 3}


def test_rows_with_a_column_that_nobody_added_are_not(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(rows(table, 1)))
    with pytest.raises(InvalidInputError, match="the rows have id, qty, name, more"):
        writer.write(Changes(rows(table, 2).append_column("more", pa.array([7], pa.int8()))))


def test_the_base_table_may_change_otherwise(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(rows(table, 1)))
    lance.write_dataset(rows(table, 100), table.uri, mode="append")
    writer.write(Changes(rows(table, 2)))
    table.dataset.cleanup_old_versions(older_than=None, retain_versions=1)
    writer.write(Changes(rows(table, 3)))
    assert set(rows_by_key(table)) == {1, 2, 3, 100}


def test_a_table_is_written_on_when_the_version_that_was_opened_is_removed(table: WrittenTable):
    session = lance.Session(index_cache_size_bytes=0, metadata_cache_size_bytes=0)
    writer = TableWriter("t", table.storage, WriteOptions(hold_ms=0), session)
    writer.write(Changes(rows(table, 1)))
    writer.release_regions()
    table.dataset.update_config({"another": "version"})
    table.dataset.cleanup_old_versions(older_than=dt.timedelta(0))
    writer.write(Changes(rows(table, 2)))
    writer.close()
    assert set(rows_by_key(table)) == {1, 2}


def test_a_table_that_was_dropped_gets_no_rows(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(rows(table, 1)))
    shutil.rmtree(table.uri)
    with pytest.raises(NotFoundError):
        writer.write(Changes(rows(table, 2)))
    assert not table.storage.list()


def test_a_table_that_was_made_anew_gets_no_rows_of_the_old_one(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(rows(table, 1)))
    with ThreadPoolExecutor(1) as client, writer.exclusive():
        answer = client.submit(writer.write, Changes(rows(table, 2)))
        shutil.rmtree(table.uri)
        WrittenTable.create(table.uri, table.schema, unsharded=True)
    # It may have come while there was no table, or later, and meant the new table then.
    with suppress(NotFoundError, UnavailableError):
        answer.result()
    found = set(rows_by_key(table))
    assert found <= {2}

    writer.write(Changes(rows(table, 3)))

    assert set(rows_by_key(table)) == {*found, 3}


def test_an_abandoned_writer_leaves_nothing_behind(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(rows(table, 1)))
    shutil.rmtree(table.uri)
    writer.abandon()
    assert not table.storage.list()


def test_a_table_without_memwal_says_how_to_get_it(tmp_path: Path, writing: Writing):
    uri = str(tmp_path / "p.lance")
    lance.write_dataset(pa.table({"id": [1]}), uri)
    table = WrittenTable(uri, pa.schema([pa.field("id", pa.int64())]))
    with pytest.raises(PreconditionError, match="ALTER TABLE p SET"):
        writing(table).write(Changes(table.rows(id=[1])))


def test_a_table_that_does_not_exist_is_not_written(tmp_path: Path, writing: Writing):
    table = WrittenTable(str(tmp_path / "n.lance"), pa.schema([pa.field("id", pa.int64())]))
    with pytest.raises(NotFoundError, match="table 'n' does not exist"):
        writing(table).write(Changes(table.rows(id=[1])))


def test_a_process_that_ends_without_closing_loses_nothing_durable(table: WrittenTable, writing: Writing):
    ended = writing(table)
    ended.write(Changes(rows(table, 1)))
    other = writing(table)
    other.write(Changes(rows(table, 2)))
    assert set(rows_by_key(table)) == {1, 2}
