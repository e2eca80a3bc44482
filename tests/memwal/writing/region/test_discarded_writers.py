"""What a process keeps of Lance writers that lost their region."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.manifest import read_latest_manifest
from lance_gateway.memwal.writing import Changes, TableWriter
from lance_gateway.memwal.writing.region import lance_writers
from lance_gateway.memwal.writing.region.claim import concat_parts
from lance_gateway.memwal.writing.region.discarded_writers import DiscardedWriters
from tests.memwal.writing.conftest import until
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.writing.region.claiming_main import kept_writers
from tests.memwal.writing.test_fencing import broken_log
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]

LOG_BYTES = 6 << 20
"""What each claim replays into memory."""


class LanceWriter:
    """Stands for a Lance writer, and counts how often it was closed."""

    def __init__(self, error: Exception | None = None) -> None:
        self.closed = 0
        self.error = error

    def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


def row(table: WrittenTable, key: int, qty: int = 0) -> Changes:
    return Changes(table.rows(id=[key], qty=[qty], name=[""]))


def test_only_writers_of_earlier_claims_are_closed():
    discarded = DiscardedWriters()
    first, second = LanceWriter(OSError("Writer fenced (peer claimed epoch)")), LanceWriter()
    discarded.add(1, first)
    discarded.add(2, second)

    discarded.close_before(2)
    assert (first.closed, second.closed, len(discarded)) == (1, 0, 1)
    discarded.close_before(3)
    assert (first.closed, second.closed, len(discarded)) == (1, 1, 0)


def test_writers_are_closed_when_the_pool_takes_nothing_more():
    pool = ThreadPoolExecutor(1)
    discarded, writer = DiscardedWriters(pool), LanceWriter()
    pool.shutdown()
    discarded.add(1, writer)
    discarded.close_before(2)
    assert writer.closed == 1


def test_the_next_claim_closes_the_writer_that_lost_the_region(table: WrittenTable, writing: Writing):
    first, second = writing(table), writing(table)
    for turn in range(10):
        (first, second)[turn % 2].write(row(table, turn, turn))
    # The last claim of each closed the one before. What was lost since is closed with the next one.
    assert [kept_writers(one) for one in (first, second)] == [[0], [0]]
    until(lambda: len(rows_by_key(table)) == 10)


def test_closing_lost_writers_writes_nothing(table: WrittenTable, writing: Writing):
    first, second = writing(table), writing(table)
    (region,) = first.write(row(table, 0)).regions
    for turn in range(1, 8):
        (first, second)[turn % 2].write(row(table, turn))
    for writer in (first, second):
        writer._pool.shutdown()
    found = sorted(entry.name for entry in (Path(table.uri) / "_mem_wal" / region).iterdir())
    assert found == ["manifest", "wal"]
    assert [entry.writer_epoch for entry in log(table, region) if not entry.is_fence] == [*range(1, 9)]


def test_what_failed_is_not_appended_by_closing(table: WrittenTable, writing: Writing):
    writer = writing(table, claim_timeout_ms=500)
    (region,) = writer.write(row(table, 1, 1)).regions
    with broken_log(table, region), pytest.raises(UnavailableError):
        writer.write(row(table, 2, 2))
    assert kept_writers(writer) == [1]

    writer.write(row(table, 3, 3))
    writer._pool.shutdown()
    assert kept_writers(writer) == [0]
    keys = [entry.rows["id"].to_pylist() for entry in log(table, region) if entry.rows is not None]
    assert keys == [[1], [3]]


def test_the_writers_of_a_table_that_is_dropped_are_closed_without_a_flush(
    table: WrittenTable, writing: Writing
):
    writer = writing(table)
    (region,) = writer.write(row(table, 1)).regions
    writer.abandon(drops=True)
    assert kept_writers(writer) == [0]
    manifest = read_latest_manifest(table.storage, region)
    assert manifest is not None
    assert (manifest.writer_epoch, manifest.flushed_generations) == (2, ())


def test_a_region_that_is_given_up_stays_as_it_is(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 1)).regions
    writer.abandon()
    manifest = read_latest_manifest(table.storage, region)
    assert manifest is not None
    assert (manifest.writer_epoch, kept_writers(writer)) == (1, [1])


def test_a_region_is_flushed_after_so_many_entries(
    table: WrittenTable, writing: Writing, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lance_writers, "_MAX_ENTRIES", 4)
    writer = writing(table)
    for key in range(9):
        (region,) = writer.write(row(table, key)).regions

    def flushed() -> int:
        manifest = read_latest_manifest(table.storage, region)
        assert manifest is not None
        return len(manifest.flushed_generations)

    until(lambda: flushed() == 2)
    writer.write(row(table, 9))
    assert writer.stats()[0].unflushed_rows < 9
    assert sorted(rows_by_key(table)) == [*range(10)]


def test_rows_in_many_chunks_are_one_entry(table: WrittenTable, writing: Writing):
    rows = table.rows(id=[0], qty=[0], name=["x" * 500])
    parts = [rows.set_column(0, rows.schema.field(0), pa.array([[key]]).flatten()) for key in range(3000)]
    many = pa.concat_tables([part.cast(rows.schema) for part in parts])
    assert many.nbytes > 1 << 20
    assert concat_parts([many]).column(0).num_chunks == 1
    writer = writing(table)
    (region,) = writer.write(Changes(many)).regions
    assert [entry.rows.num_rows for entry in log(table, region) if entry.rows is not None] == [3000]


def claim_back_and_forth(table: WrittenTable, claims: int, log_bytes: int) -> dict[str, dict[str, int]]:
    """Returns what a process keeps after a few claims, and after so many more."""
    arguments = [table.uri, str(claims), str(log_bytes)]
    found = subprocess.run(
        [sys.executable, "-m", "tests.memwal.writing.region.claiming_main", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "ERROR" not in found.stderr
    kept: dict[str, dict[str, int]] = json.loads(found.stdout)
    return kept


def test_claims_back_and_forth_keep_nothing(table: WrittenTable):
    kept = claim_back_and_forth(table, 40, LOG_BYTES)
    before, after = kept["before"], kept["after"]
    assert after["discarded"] <= 2
    assert after["files"] <= before["files"] + 4
    assert after["threads"] <= before["threads"] + 32  # those of two pools
    # One lost writer that is kept takes as much as the log.
    assert after["anonymous_bytes"] - before["anonymous_bytes"] < 40 * LOG_BYTES // 4


@pytest.mark.soak
@pytest.mark.slow
def test_hundreds_of_claims_keep_nothing(table: WrittenTable):
    kept = claim_back_and_forth(table, 400, LOG_BYTES)
    before, after = kept["before"], kept["after"]
    assert after["discarded"] <= 2
    assert after["files"] <= before["files"] + 4
    # The allocator settles within a hundred claims; kept writers would take all of it.
    assert after["anonymous_bytes"] - before["anonymous_bytes"] < 400 * LOG_BYTES // 10
