"""What a process holds of what it wrote is what lies in the log."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.wal import read_wal_entry
from lance_gateway.memwal.writing import Changes, OwnTail, TableWriter
from tests.memwal.writing.conftest import until
from tests.memwal.writing.reading import log
from tests.memwal.writing.test_fencing import broken_log
from tests.memwal.written import WrittenTable, keyed_schema

Writing = Callable[..., TableWriter]


def rows(table: WrittenTable, *keys: int) -> Changes:
    return Changes(table.rows(id=keys, qty=[1] * len(keys), name=["a"] * len(keys)))


def equals_log(table: WrittenTable, region: str, tail: OwnTail) -> bool:
    """Whether all entries from the tail's first on are the same in memory and in the log."""
    stored = [one for one in log(table, region) if one.position >= tail.first]
    held = list(tail.entries)
    assert [one.position for one in stored] == list(range(tail.first, tail.last + 1))
    return all(
        (one.position, one.writer_epoch, one.generation) == (two.position, two.writer_epoch, two.generation)
        and one.rows.equals(two.rows)
        and one.rows.schema.equals(two.rows.schema)
        and [field.metadata[b"lance:field_id"] for field in one.rows.schema if field.name != "_tombstone"]
        == [field.metadata[b"lance:field_id"] for field in two.rows.schema if field.name != "_tombstone"]
        for one, two in zip(stored, held, strict=True)
    )


def test_it_is_what_the_log_has(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(rows(table, 1, 2)).regions
    writer.write(Changes(deletes=pa.table({"id": [1]})))
    writer.write(rows(table, 3))

    tail = writer.get_tails([region]).get(region)

    assert tail is not None
    assert (tail.writer_epoch, tail.first, tail.last) == (1, 1, 3)
    assert equals_log(table, region, tail)
    assert tail.entries[-1] == tail.entries[2]
    assert [one.position for one in tail.entries[1:]] == [2, 3]
    with pytest.raises(IndexError):
        tail.entries[3]


def test_one_that_was_taken_stays_as_it_was(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(rows(table, 1)).regions
    before = writer.get_tails([region]).get(region)
    writer.write(rows(table, 2))
    assert before is not None
    assert (before.last, len(before.entries)) == (1, 1)


def test_after_a_reclaim_it_begins_behind_the_fence(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(rows(table, 1)).regions
    writer.flush()
    assert writer.get_tails([region]).get(region) is None
    writer.write(rows(table, 2))
    tail = writer.get_tails([region]).get(region)
    assert tail is not None
    assert (tail.writer_epoch, tail.first, tail.last) == (2, 3, 3)
    assert equals_log(table, region, tail)


def test_what_is_flushed_is_let_go(table: WrittenTable, writing: Writing):
    writer = writing(table, max_memtable_rows=10)
    (region,) = writer.write(rows(table, *range(6))).regions

    def flushed() -> bool:
        writer.write(rows(table, *range(6)))
        tail = writer.get_tails([region]).get(region)
        assert tail is not None
        assert equals_log(table, region, tail)
        return tail.first > 3

    until(flushed)
    manifest, tail = table.manifest(region), writer.get_tails([region]).get(region)
    assert tail is not None
    uncovered = [
        one.position for one in log(table, region) if (one.generation or 0) >= manifest.current_generation
    ]
    assert tail.first <= uncovered[0]


def test_a_region_of_others_has_none(table: WrittenTable, writing: Writing):
    writer, other = writing(table), writing(table)
    (region,) = writer.write(rows(table, 1)).regions
    assert other.get_tails([region]).get(region) is None


def test_it_waits_for_what_was_acknowledged_and_is_not_durable(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(rows(table, 0)).regions
    for key in range(1, 30):
        receipt = writer.write(rows(table, key), durable=False)
        assert not receipt.is_durable
    tail = writer.get_tails([region]).get(region)
    assert tail is not None
    assert sorted(key for one in tail.entries for key in one.rows["id"].to_pylist()) == list(range(30))


@pytest.mark.slow
def test_rows_that_were_acknowledged_and_then_lost_are_told_once(table: WrittenTable, writing: Writing):
    writer = writing(table, claim_timeout_ms=100)
    (region,) = writer.write(rows(table, 0)).regions
    with broken_log(table, region):
        assert not writer.write(rows(table, 1), durable=False).is_durable
        until(lambda: writer.stats()[0].failed_later == 1)
    with pytest.raises(UnavailableError, match="not durable were lost"):
        writer.get_tails([region]).get(region)
    assert writer.get_tails([region]).get(region) is None
    writer.write(rows(table, 2))
    assert writer.get_tails([region]).get(region) is not None


@pytest.mark.slow
def test_readers_need_not_wait_for_writers(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(rows(table, 0)).regions
    with ThreadPoolExecutor(1) as client:
        work = client.submit(lambda: [writer.write(rows(table, key)) for key in range(80)])
        seen = 0
        while not work.done():
            tail = writer.get_tails([region]).get(region)
            assert tail is not None
            assert tail.last >= seen
            seen = tail.last
            read_wal_entry(table.storage, region, seen)


def test_nested_columns_and_composite_keys_are_the_same_too(tmp_path: Path, writing: Writing):
    kinds = (
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("d", pa.decimal128(10, 2)),
        pa.field("s", pa.struct([pa.field("a", pa.int8()), pa.field("b", pa.list_(pa.string()))])),
    )
    schema = keyed_schema(pa.field("id", pa.int64()), pa.field("k", pa.string()), values=kinds)
    table = WrittenTable.create(str(tmp_path / "n.lance"), schema, unsharded=True)
    writer = writing(table)
    given = pa.table(
        {
            "id": [1, 2],
            "k": ["a", "b"],
            "v": [[1, 2, 3, 4], None],
            "d": [None, None],
            "s": [{"a": 1, "b": ["x"]}, None],
        },
        schema=schema,
    )
    (region,) = writer.write(Changes(given)).regions
    writer.write(Changes(deletes=given.select(["k", "id"]).slice(0, 1)))
    tail = writer.get_tails([region]).get(region)
    assert tail is not None
    assert equals_log(table, region, tail)
