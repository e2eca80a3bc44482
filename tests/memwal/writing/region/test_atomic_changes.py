"""Changes that don't fit one append are one entry of the log all the same."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import Changes, FencedError, PartlyWrittenError, TableWriter
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]


def upserts(table: WrittenTable, keys: range, qty: int = 0) -> pa.Table:
    return table.rows(id=list(keys), qty=[qty] * len(keys), name=[""] * len(keys))


def test_rows_and_keys_of_one_region_are_one_entry(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(Changes(upserts(table, range(10)))).regions
    before = len(log(table, region))

    receipt = writer.write(Changes(upserts(table, range(5, 15), qty=1), pa.table({"id": [0, 1]})))

    assert receipt.num_rows == 12
    added = [one for one in log(table, region)[before:] if not one.is_fence]
    assert [one.rows["_tombstone"].to_pylist() for one in added if one.rows is not None] == [
        [False] * 10 + [True] * 2
    ]
    assert set(rows_by_key(table)) == set(range(2, 15))


def test_more_rows_than_a_memtable_takes_are_one_entry(table: WrittenTable, writing: Writing):
    writer = writing(table, max_memtable_rows=100)
    (region,) = writer.write(Changes(upserts(table, range(1000)))).regions
    writer.write(Changes(deletes=pa.table({"id": list(range(500))})))

    assert [one.rows.num_rows for one in log(table, region) if one.rows is not None] == [1000, 500]
    assert set(rows_by_key(table)) == set(range(500, 1000))


def test_requests_that_together_are_too_large_are_written_one_by_one(table: WrittenTable, writing: Writing):
    writer = writing(table, max_memtable_bytes=2000)
    writer.write(Changes(upserts(table, range(1))))
    with ThreadPoolExecutor(8) as clients, writer.exclusive():
        answers = [
            clients.submit(writer.write, Changes(upserts(table, range(at * 50, at * 50 + 50))))
            for at in range(8)
        ]
    assert sum(one.result().num_rows for one in answers) == 400
    assert len(rows_by_key(table)) == 400


def test_writing_goes_on_after_it(table: WrittenTable, writing: Writing):
    writer = writing(table)
    for step in range(3):
        writer.write(Changes(upserts(table, range(step * 10, step * 10 + 10))))
        writer.write(Changes(upserts(table, range(100, 101), qty=step), pa.table({"id": [step * 10]})))
    assert set(rows_by_key(table)) == {*range(1, 10), *range(11, 20), *range(21, 30), 100}
    assert rows_by_key(table)[100]["qty"] == 2


def test_a_block_may_go_on_after_it(table: WrittenTable, writing: Writing):
    writer = writing(table)
    writer.write(Changes(upserts(table, range(3))))
    with writer.exclusive() as held:
        held.write(Changes(upserts(table, range(1, 2), qty=1), pa.table({"id": [0]})))
        held.write(Changes(upserts(table, range(2, 3), qty=2)))
        held.write(Changes(upserts(table, range(3, 4), qty=3), pa.table({"id": [1]})))
    assert {key: one["qty"] for key, one in rows_by_key(table).items()} == {2: 2, 3: 3}


def test_a_block_that_lost_its_region_does_not_write_so(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(Changes(upserts(table, range(3)))).regions
    with writer.exclusive() as held:
        table.write(upserts(table, range(1), qty=9), region=region)
        with pytest.raises(FencedError):
            held.write(Changes(upserts(table, range(1), qty=1), pa.table({"id": [2]})))
    assert set(rows_by_key(table)) == {0, 1, 2}
    assert rows_by_key(table)[0]["qty"] == 9


@pytest.mark.slow
def test_an_error_says_which_regions_have_their_rows(bucketed: WrittenTable, writing: Writing):
    writer = writing(bucketed)
    rows = bucketed.rows(id=range(100), qty=[1] * 100)
    regions = writer.write(Changes(bucketed.rows(id=range(100), qty=[0] * 100))).regions
    broken = min(regions)
    wal = Path(bucketed.uri, "_mem_wal", broken, "wal")
    wal.rename(wal.with_name("aside"))
    wal.touch()

    with pytest.raises(PartlyWrittenError, match="3 of 4 regions have their rows") as raised:
        writer.write(Changes(rows), timeout_seconds=0.1)

    assert set(raised.value.receipt.regions) == set(regions) - {broken}
    assert f"{regions[broken]} rows of region {broken}" in str(raised.value)
    wal.unlink()
    wal.with_name("aside").rename(wal)
    found = rows_by_key(bucketed)
    assert sum(one["qty"] for one in found.values()) >= raised.value.receipt.num_rows


def test_a_table_whose_only_region_fails_has_nothing(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(Changes(upserts(table, range(1)))).regions
    writer.flush()
    manifests = Path(table.uri, "_mem_wal", region, "manifest")
    manifests.rename(manifests.with_name("aside"))
    manifests.touch()
    with pytest.raises(UnavailableError):
        writer.write(Changes(upserts(table, range(1, 2))), timeout_seconds=0.2)
    manifests.unlink()
    manifests.with_name("aside").rename(manifests)
    assert set(rows_by_key(table)) == {0}
