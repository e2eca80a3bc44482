"""Merges of tables on S3 while requests fail."""

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.generation_numbers import EXTENTS
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.jobs.lake import LakeTable, TableState
from lance_gateway.pipeline.merging import merge
from tests.support.lake.tables import key_field
from tests.support.stores.failing_s3 import FailingS3, Fate, failing_s3

BUCKET = "merges"
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.string())])
REGION = "00000000-0000-4000-8000-00000000000{}"
EXPECTED = {0: "base", 1: "new", 3: "new", 5: "new"}


@pytest.fixture(scope="module")
def s3() -> Iterator[FailingS3]:
    with failing_s3(BUCKET) as server:
        server.options["client_max_retries"] = "1"
        yield server


def rows(*keys: int, value: str) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "v": value} for key in keys], schema=SCHEMA)


def create(s3: FailingS3, name: str) -> LakeTable:
    """Two regions with rows to insert, to update and to delete."""
    uri = f"s3://{BUCKET}/{name}.lance"
    base = lance.write_dataset(rows(0, 1, 2, value="base"), uri, storage_options=s3.options)
    base.initialize_mem_wal()
    for region, keys in enumerate([(1, 3), (5,)]):
        with lance.dataset(uri, storage_options=s3.options).mem_wal_writer(
            REGION.format(region), max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
        ) as writer:
            writer.put(rows(*keys, value="new"))
            if region == 0:
                writer.delete(pa.table({"id": [2]}, schema=pa.schema([SCHEMA.field("id")])))
    return LakeTable(name, Storage.open(uri, s3.options))


def check(table: LakeTable) -> None:
    found = table.dataset().to_table()
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == EXPECTED
    assert found.num_rows == len(EXPECTED)
    state = TableState.read(table)
    assert [one.merged for one in state.regions.values()] == [1, 1]
    assert table.storage.list(EXTENTS) == ()


def interrupted(
    s3: FailingS3, name: str, number: int, fate: Fate, *, lasts: bool
) -> tuple[list[str], list[str]]:
    """Merge while the write of that number fails, or all from then on, and then once more.

    Returns:
        Paths that were written, and what the first merge told.
    """
    table = create(s3, name)
    written: list[str] = []
    told: list[str] = []

    def fate_of(_: int, method: str, path: str) -> Fate:
        if method in {"GET", "HEAD"}:
            return None
        written.append(path)
        return fate if len(written) - 1 == number or (lasts and len(written) > number) else None

    s3.arm(fate_of)
    try:
        merge(table)
    except UnavailableError as error:
        told.append(str(error))
    finally:
        s3.disarm()
    merge(table)
    check(table)
    return written, told


@pytest.mark.slow
@pytest.mark.soak
def test_a_merge_whose_commit_is_not_answered_is_right(s3: FailingS3):
    written, _ = interrupted(s3, "whole", 10_000, None, lasts=False)
    commits = [number for number, path in enumerate(written) if "/_versions/" in path]
    interrupted(s3, "lost", commits[-1], "answer lost", lasts=False)


@pytest.mark.slow
@pytest.mark.soak
def test_storage_that_is_gone_in_the_middle_is_told_of_and_the_next_merge_finishes(s3: FailingS3):
    written, _ = interrupted(s3, "complete", 10_000, None, lasts=False)
    uploads = [number for number, path in enumerate(written) if "/data/" in path]
    _, (told,) = interrupted(s3, "gone", uploads[0], "refused", lasts=True)
    assert told.startswith("table 'gone': a merge was not committed: ")


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("fate", ["refused", "answer lost"])
def test_every_write_of_a_merge_may_fail(s3: FailingS3, fate: Fate):
    written, _ = interrupted(s3, f"{fate}-none", 10_000, None, lasts=False)
    for number in range(len(written)):
        for lasts in (False, True):
            interrupted(s3, f"{fate}-{number}-{lasts}", number, fate, lasts=lasts)
