"""Requests of many clients share entries of the log, and each gets its own answer."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, UnavailableError
from lance_gateway.memwal.writing import Changes, TableWriter
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]


def row(table: WrittenTable, key: int, qty: int = 0, name: str = "") -> Changes:
    return Changes(table.rows(id=[key], qty=[qty], name=[name]))


def test_what_is_acknowledged_is_in_the_log(table: WrittenTable, writing: Writing):
    writer = writing(table)

    receipt = writer.write(row(table, 1, 5))

    assert receipt.is_durable
    assert receipt.num_rows == 1
    (region,) = receipt.regions
    assert [one.rows["qty"].to_pylist() for one in log(table, region) if one.rows is not None] == [[5]]


@pytest.mark.slow
def test_requests_that_wait_together_become_one_entry(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 0)).regions
    with ThreadPoolExecutor(16) as clients, writer.exclusive():
        answers = [clients.submit(writer.write, row(table, key, key)) for key in range(1, 17)]
        # Held out of the region, all of them wait; let in, they come in a rush.
    receipts = [answer.result() for answer in answers]

    assert [dict(one.regions) for one in receipts] == [{region: 1}] * 16
    (stats,) = writer.stats()
    assert stats.group_requests == 17
    assert len(log(table, region)) == stats.groups
    assert {key: one["qty"] for key, one in rows_by_key(table).items()} == {key: key for key in range(17)}


def test_the_last_of_one_clients_writes_is_the_newest(table: WrittenTable, writing: Writing):
    writer = writing(table)

    def client(key: int) -> None:
        for qty in range(20):
            writer.write(row(table, key, qty))

    with ThreadPoolExecutor(4) as clients:
        list(clients.map(client, range(4)))

    assert {key: one["qty"] for key, one in rows_by_key(table).items()} == dict.fromkeys(range(4), 19)


def test_rows_and_keys_keep_their_order(table: WrittenTable, writing: Writing):
    writer = writing(table)
    key = Changes(deletes=pa.table({"id": [1]}))

    writer.write(row(table, 1, 1))
    writer.write(key)
    assert rows_by_key(table) == {}
    writer.write(row(table, 1, 2))
    assert rows_by_key(table)[1]["qty"] == 2


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (pa.table({"id": [1], "qty": [1]}), "has the columns id, qty, name; the rows have id, qty"),
        (pa.table({"id": [1], "qty": [1], "name": ["a"], "more": [1]}), "the rows have id, qty, name, more"),
        (
            pa.table({"id": pa.array([None], pa.int64()), "qty": [1], "name": ["a"]}),
            "column 'id' can't be NULL, but 1 of 1 rows",
        ),
        (pa.table({"id": ["x"], "qty": [1], "name": ["a"]}), "column 'id' is int64, not string"),
    ],
)
def test_rows_that_dont_fit_are_refused_before_anything_is_written(
    table: WrittenTable, writing: Writing, changes: pa.Table, told: str
):
    writer = writing(table)
    with pytest.raises(InvalidInputError, match=told):
        writer.write(Changes(changes))
    assert rows_by_key(table) == {}


def test_nothing_to_write_is_written_nowhere(table: WrittenTable, writing: Writing):
    assert writing(table).write(Changes(table.schema.empty_table())).regions == {}


def test_who_waits_too_long_is_told_that_nothing_was_written(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(row(table, 0))
    with writer.exclusive(), ThreadPoolExecutor(1) as other:
        answer = other.submit(writer.write, row(table, 1), timeout_seconds=0.05)
        with pytest.raises(UnavailableError, match="none of them was written, retry"):
            answer.result()
    assert set(rows_by_key(table)) == {0}


def test_more_bytes_than_may_wait_wait_outside(table: WrittenTable, writing: Writing):
    writer = writing(table, max_queued_bytes=1)
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda key: writer.write(row(table, key)), range(40)))
    assert sum(one.num_rows for one in answers) == 40
    assert len(rows_by_key(table)) == 40


def test_deletes_need_a_key(tmp_path: Path, writing: Writing):
    schema = pa.schema([pa.field("id", pa.int64())])
    table = WrittenTable.create(str(tmp_path / "k.lance"), schema, unsharded=True)
    writer = writing(table)
    writer.write(Changes(table.rows(id=[1])))
    with pytest.raises(PreconditionError, match="has no primary key"):
        writer.write(Changes(deletes=table.rows(id=[1])))


def test_a_closed_writer_takes_nothing(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(row(table, 1))
    assert writer.close() == ()
    assert writer.close() == ()
    with pytest.raises(UnavailableError, match="takes no more rows"):
        writer.write(row(table, 2))
    (manifest,) = [table.manifest(one.region_id) for one in writer.stats()]
    assert [one.physical_rows for one in manifest.flushed_generations] == [1]
