"""Several writers of one region: who is fenced, what survives, and what clients are told."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.memwal.regions.manifest import commit_manifest
from lance_gateway.memwal.writing import Changes, FencedError, NotOwnerError, OwnershipPolicy, TableWriter
from tests.memwal.writing.conftest import until
from tests.memwal.writing.reading import log, rows_by_key
from tests.memwal.written import WrittenTable

Writing = Callable[..., TableWriter]


def row(table: WrittenTable, key: int, qty: int = 0) -> Changes:
    return Changes(table.rows(id=[key], qty=[qty], name=[""]))


@contextmanager
def broken_log(table: WrittenTable, region: str) -> Iterator[None]:
    """Nothing can be appended meanwhile."""
    wal = Path(table.uri) / "_mem_wal" / region / "wal"
    aside = wal.with_name("aside")
    wal.rename(aside)
    wal.touch()
    try:
        yield
    finally:
        wal.unlink()
        aside.rename(wal)


def test_a_region_that_a_rival_claimed_is_claimed_back(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 1, 1)).regions
    rival = table.dataset.mem_wal_writer(region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000)
    rival.put(row(table, 2, 2).upserts)

    writer.write(row(table, 3, 3))

    assert {key: one["qty"] for key, one in rows_by_key(table).items()} == {1: 1, 2: 2, 3: 3}
    (stats,) = writer.stats()
    assert (stats.epoch, stats.claims, stats.fences, stats.in_doubt) == (3, 2, 1, 1)
    with pytest.raises(OSError, match="fenced"):
        rival.put(row(table, 2).upserts)


def test_a_region_that_was_lost_is_let_go_silently(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 1, 1)).regions
    rival = table.dataset.mem_wal_writer(region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000)
    writer.flush()
    rival.close()
    assert rows_by_key(table)[1]["qty"] == 1


@pytest.mark.slow
def test_two_writers_and_a_rival_lose_nothing(table: WrittenTable, writing: Writing):
    first, second = writing(table, hold_ms=20), writing(table, hold_ms=20)
    (region,) = first.write(row(table, 0)).regions
    acknowledged: list[int] = []

    def client(writer: TableWriter, keys: range) -> None:
        for key in keys:
            writer.write(row(table, key, key))
            acknowledged.append(key)

    def fight(keys: range) -> None:
        for key in keys:
            try:
                rival = table.dataset.mem_wal_writer(
                    region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
                )
                rival.put(row(table, key, key).upserts)
            except OSError:
                continue
            acknowledged.append(key)

    with ThreadPoolExecutor(3) as clients:
        jobs = [
            clients.submit(client, first, range(100, 130)),
            clients.submit(client, second, range(200, 230)),
            clients.submit(fight, range(300, 303)),
        ]
        for job in jobs:
            job.result()

    found = rows_by_key(table)
    assert {key: found.get(key, {}).get("qty") for key in acknowledged} == {key: key for key in acknowledged}
    newest = 0
    for entry in log(table, region):
        # The fence of a claim that another claim overtook may come late, rows of its writer may not.
        assert entry.is_fence or entry.writer_epoch >= newest, entry
        newest = max(newest, entry.writer_epoch)


@pytest.mark.slow
def test_a_rival_that_claims_all_the_time_keeps_nobody_out(table: WrittenTable, writing: Writing):
    writer = writing(table, hold_ms=200)
    region = writer.find_regions(row(table, 0).upserts)[0]
    done = threading.Event()

    def claim() -> int:
        claims = 0
        while not done.wait(0.02):
            with suppress(OSError):
                table.dataset.mem_wal_writer(
                    region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
                ).put(row(table, 1).upserts)
                claims += 1
        return claims

    with ThreadPoolExecutor(1) as rival:
        job = rival.submit(claim)
        try:
            until(lambda: len(log(table, region)) > 3)
            for key in range(2, 5):
                writer.write(row(table, key))
        finally:
            done.set()
        assert job.result() > 0
    assert set(rows_by_key(table)) == {1, 2, 3, 4}


@pytest.mark.slow
def test_writers_that_alternate_claim_seldom(table: WrittenTable, writing: Writing):
    first, second = writing(table, hold_ms=100), writing(table, hold_ms=100)
    first.write(row(table, 0))
    done = threading.Event()
    written = [0, 0]

    def client(at: int, writer: TableWriter) -> None:
        while not done.is_set():
            writer.write(row(table, at, at))
            written[at] += 1

    with ThreadPoolExecutor(2) as clients:
        jobs = [clients.submit(client, at, one) for at, one in enumerate((first, second))]
        try:
            until(lambda: sum(one.claims for one in (*first.stats(), *second.stats())) >= 6)
        finally:
            done.set()
        for job in jobs:
            job.result()

    claims = sum(one.claims for one in (*first.stats(), *second.stats()))
    assert min(written) > 0
    assert sum(written) > 3 * claims


def test_an_owner_keeps_its_region_for_a_while(table: WrittenTable, writing: Writing):
    owner, other = writing(table, hold_ms=60_000), writing(table, hold_ms=60_000)
    owner.write(row(table, 1))
    with pytest.raises(UnavailableError, match="did not let go of it in time; nothing was written"):
        other.write(row(table, 2), timeout_seconds=0.05)
    owner.write(row(table, 3))
    owner.close()
    other.write(row(table, 2), timeout_seconds=20)  # What was let go is free at once.
    assert set(rows_by_key(table)) == {1, 2, 3}


def test_an_owner_nobody_knows_keeps_it_too_while_it_has_unflushed_rows(
    table: WrittenTable, writing: Writing
):
    writer = writing(table, hold_ms=60_000)
    region = "00000000-0000-4000-8000-000000000001"
    rival = table.dataset.mem_wal_writer(region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000)
    rival.put(row(table, 1).upserts)
    with pytest.raises(UnavailableError, match="did not let go"):
        writer.write(row(table, 2), timeout_seconds=0.05)
    rival.close()
    writer.write(row(table, 2))
    assert set(rows_by_key(table)) == {1, 2}


def test_by_policy_regions_of_others_are_left_alone(table: WrittenTable, writing: Writing):
    owner = writing(table, url="grpc://owner:1")
    other = writing(table, ownership=OwnershipPolicy.REFUSE)
    owner.write(row(table, 1))
    with pytest.raises(NotOwnerError, match="the gateway at grpc://owner:1 owns it"):
        other.write(row(table, 2))
    owner.flush()
    other.write(row(table, 2))
    assert set(rows_by_key(table)) == {1, 2}


def test_a_process_that_comes_back_takes_its_regions_again(table: WrittenTable, writing: Writing):
    options = {"ownership": OwnershipPolicy.REFUSE, "url": "grpc://here:1", "hold_ms": 60_000}
    crashed, back = writing(table, **options), writing(table, **options)
    crashed.write(row(table, 1))
    back.write(row(table, 2))
    assert set(rows_by_key(table)) == {1, 2}


@pytest.mark.slow
def test_what_storage_refused_for_good_is_not_written(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 1)).regions
    with broken_log(table, region), pytest.raises(UnavailableError):
        writer.write(row(table, 2), timeout_seconds=0.1)

    writer.write(row(table, 3, 3))
    # Lance tries again behind our back, until our claim takes the place in the log: either way it is settled.
    once = rows_by_key(table)
    assert set(once) - {2} == {1, 3}
    writer.write(row(table, 4))
    assert set(rows_by_key(table)) == {*once, 4}


@pytest.mark.slow
def test_a_write_that_storage_failed_for_a_moment_is_settled_and_acknowledged(
    table: WrittenTable, writing: Writing
):
    writer = writing(table)
    (region,) = writer.write(row(table, 1)).regions
    with ThreadPoolExecutor(1) as client:
        with broken_log(table, region):
            answer = client.submit(writer.write, row(table, 2, 2))
            until(lambda: writer.stats()[0].in_doubt > 0)
        receipt = answer.result()

    assert dict(receipt.regions) == {region: 1}
    rows = [one.rows["id"].to_pylist() for one in log(table, region) if one.rows is not None]
    assert rows == [[1], [2]]
    tail = writer.get_tails([region]).get(region)
    assert tail is not None
    assert tail.last == len(log(table, region))


def test_a_log_that_is_longer_than_the_own_memtable_is_flushed_first(table: WrittenTable, writing: Writing):
    large, small = writing(table), writing(table, max_memtable_rows=5)
    for key in range(20):
        large.write(row(table, key))
    small.write(row(table, 20))
    assert set(rows_by_key(table)) == set(range(21))


def test_a_sealed_region_takes_nothing(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 1)).regions
    writer.flush()
    manifest = table.manifest(region)
    assert commit_manifest(table.storage, replace(manifest, version=manifest.version + 1, sealed=True))
    with pytest.raises(PreconditionError, match="sealed"):
        writer.write(row(table, 2))


def test_an_exclusive_block_fails_when_its_region_is_lost(table: WrittenTable, writing: Writing):
    writer = writing(table)
    (region,) = writer.write(row(table, 1)).regions
    with writer.exclusive([region]) as held:
        rival = table.dataset.mem_wal_writer(region, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000)
        rival.put(row(table, 1, 7).upserts)
        with pytest.raises(FencedError):
            held.write(row(table, 1, 2))
        with pytest.raises(FencedError):
            held.write(row(table, 1, 2))
    assert rows_by_key(table)[1]["qty"] == 7
    with writer.exclusive([region]) as held:
        held.write(row(table, 1, 8))
    assert rows_by_key(table)[1]["qty"] == 8
