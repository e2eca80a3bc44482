"""Writers of ours on S3 behave as they do on a local disk."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.wal import find_appended_position
from lance_gateway.memwal.storage.backends import ObjectBackend
from lance_gateway.memwal.writing import Changes, FencedError, OpenTable, TableWriter
from lance_gateway.memwal.writing.region import claim
from tests.memwal.writing.conftest import until
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable, keyed_schema

pytestmark = pytest.mark.slow
Writing = Callable[..., TableWriter]


@pytest.fixture
def stored(s3_location: tuple[str, dict[str, str]]) -> WrittenTable:
    uri, options = s3_location
    schema = keyed_schema(pa.field("id", pa.int64()))
    return WrittenTable.create(f"{uri}/t.lance", schema, options, bucket_column="id", num_buckets=2)


def rows(table: WrittenTable, *keys: int) -> Changes:
    return Changes(table.rows(id=keys, qty=[1] * len(keys)))


def test_rows_are_written_read_and_deleted(stored: WrittenTable, writing: Writing):
    writer = writing(stored)
    regions = writer.write(rows(stored, *range(10))).regions
    writer.write(Changes(stored.rows(id=[1], qty=[2]), pa.table({"id": [0, 2, 3, 4]})))
    assert set(rows_by_key(stored)) == {1, 5, 6, 7, 8, 9}
    for region in regions:
        tail = writer.get_tails([region]).get(region)
        assert tail is None or tail.last == log(stored, region)[-1].position


def test_a_write_does_not_wait_until_its_position_is_known(
    stored: WrittenTable, writing: Writing, monkeypatch: pytest.MonkeyPatch
):
    writer, may_look = writing(stored), threading.Event()
    (region,) = writer.write(rows(stored, 1)).regions

    def look(*arguments: Any) -> int:
        may_look.wait(60)
        return find_appended_position(*arguments)

    monkeypatch.setattr(claim, "find_appended_position", look)
    writer.write(rows(stored, 1))
    assert not may_look.is_set()
    may_look.set()
    writer.write(rows(stored, 1))
    tail = writer.get_tails([region])[region]
    assert (
        [one.position for one in tail.entries] == [one.position for one in log(stored, region)] == [1, 2, 3]
    )


def test_a_region_is_claimed_again_if_a_position_is_not_told(
    stored: WrittenTable, writing: Writing, monkeypatch: pytest.MonkeyPatch
):
    def look(*_: Any) -> int:
        raise UnavailableError("injected")

    writer = writing(stored)
    (region,) = writer.write(rows(stored, 1)).regions
    with monkeypatch.context() as patch:
        patch.setattr(claim, "find_appended_position", look)
        writer.write(Changes(stored.rows(id=[1], qty=[2])))
        assert writer.get_tails([region]) == {}
    assert rows_by_key(stored)[1]["qty"] == 2
    writer.write(Changes(stored.rows(id=[1], qty=[3])))
    assert rows_by_key(stored)[1]["qty"] == 3
    assert [(one.writer_epoch, one.is_fence) for one in log(stored, region)] == [
        (1, False),
        (1, False),
        (2, True),
        (2, False),
    ]


@pytest.mark.soak
def test_two_processes_take_a_region_from_one_another(stored: WrittenTable, writing: Writing):
    writers = [writing(stored), writing(stored)]
    with ThreadPoolExecutor(4) as clients:
        list(clients.map(lambda key: writers[key % 2].write(rows(stored, key)), range(12)))
    assert set(rows_by_key(stored)) == set(range(12))


def test_a_block_that_lost_its_region_does_not_write(stored: WrittenTable, writing: Writing):
    writer, other = writing(stored), writing(stored)
    writer.write(rows(stored, 1))
    with writer.exclusive() as held:
        other.write(rows(stored, 1))
        with pytest.raises(FencedError):
            held.write(rows(stored, 1))


def test_a_table_is_known_by_its_mark(
    stored: WrittenTable, monkeypatch: pytest.MonkeyPatch, s3_location: tuple[str, dict[str, str]]
):
    monkeypatch.setattr(ObjectBackend, "identity_seconds", 0.001)
    opened, again = OpenTable.open("t", stored.storage), OpenTable.open("t", stored.storage)
    stored.dataset.update_config({"one": "more"})
    stored.dataset.cleanup_old_versions(older_than=timedelta(0), retain_versions=1)
    until(again.watch.is_same)
    assert opened.watch.is_same()
    stored.storage.delete_all()
    WrittenTable.create(stored.uri, stored.schema, s3_location[1], bucket_column="id", num_buckets=2)
    until(lambda: not opened.watch.is_same())
    assert OpenTable.open("t", stored.storage).watch.is_same()
    until(lambda: not again.watch.is_same())
