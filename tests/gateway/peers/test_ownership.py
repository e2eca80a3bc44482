"""Several gateways write one region, by each policy: nothing is lost, and it does not fly to and fro."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import lance
import pyarrow as pa
import pytest

from lance_gateway.gateway.peers.forwarding import Forwarding
from lance_gateway.gateway.peers.peer_identity import PeerToken, Trust
from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.writing import NotOwnerError, OwnershipPolicy
from lance_gateway.memwal.writing.options import UnreachableError
from lance_gateway.planner.engine import PreparedQuery
from tests.gateway.peers.peer_gateways import TABLE, Peer, epochs, make_table, peer
from tests.support.lake import manifests
from tests.support.processes.ports import find_free_port

CLAIM, FORWARD, REFUSE = OwnershipPolicy.CLAIM, OwnershipPolicy.FORWARD, OwnershipPolicy.REFUSE
Open = Callable[..., Peer]


@pytest.fixture
def opened(root: Path) -> Iterator[Open]:
    """Opens gateways over the root and closes them after the test."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(peer(root, *args, **options))


def insert(gateway: Peer, number: int) -> None:
    gateway.write(f"INSERT INTO {TABLE} VALUES ({number}, 'row {number}')")


def region_ids(root: Path) -> list[str]:
    return list(manifests.list_region_ids(root / f"{TABLE}.lance"))


def until_taken(gateway: Peer, number: int) -> None:
    """A client that sends a row again as long as it is told that nothing was written."""
    for _ in range(200):
        try:
            insert(gateway, number)
        except UnavailableError:
            continue
        return
    pytest.fail(f"row {number} was refused 200 times")


def side_by_side(gateways: Sequence[Peer], rows: int, threads: int = 2) -> list[int]:
    """Every thread of every gateway inserts rows of its own; the ids of all."""
    lanes = [gateway for gateway in gateways for _ in range(threads)]

    def lane(at: int) -> list[int]:
        ids = list(range(at * rows, (at + 1) * rows))
        for one in ids:
            until_taken(lanes[at], one)
        return ids

    with ThreadPoolExecutor(len(lanes)) as pool:
        return sorted(one for ids in pool.map(lane, range(len(lanes))) for one in ids)


class TestClaim:
    @pytest.mark.slow
    def test_a_region_stays_with_its_owner_for_a_while(self, root: Path, opened: Open) -> None:
        make_table(root)
        gateways = [opened(CLAIM, hold_ms=100) for _ in range(2)]
        began = time.monotonic()
        ids = side_by_side(gateways, rows=40)
        elapsed = time.monotonic() - began
        assert gateways[0].ids() == gateways[1].ids() == ids
        # All who wait may claim when the time is over, some of them twice, and nobody does before.
        assert max(epochs(root)) <= 3 * (elapsed / 0.1 + 1)

    def test_a_region_that_was_let_go_changes_hands_at_once(self, root: Path, opened: Open) -> None:
        make_table(root)
        first, second = opened(CLAIM, hold_ms=3_600_000), opened(CLAIM, hold_ms=3_600_000)
        insert(first, 1)
        first.writer.flush()
        insert(second, 2)
        assert first.ids() == [1, 2]

    def test_who_lost_a_region_claims_it_back_and_loses_no_row(self, root: Path, opened: Open) -> None:
        make_table(root, keyed=False)
        first, second = opened(CLAIM), opened(CLAIM)
        for number in range(0, 10, 2):
            insert(first, number)
            insert(second, number + 1)
        assert first.ids() == second.ids() == list(range(10))
        # The last loss is noticed when the loser writes again, or looks after its regions.
        assert first.stats[0].fences + second.stats[0].fences in {8, 9}
        assert epochs(root) == [10]


class TestRefuse:
    def test_the_owner_is_named_and_nothing_is_written(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = opened(REFUSE), opened(REFUSE)
        insert(owner, 1)
        with pytest.raises(NotOwnerError, match=owner.url):
            insert(other, 2)
        assert owner.ids() == [1]
        assert epochs(root) == [1]

    def test_clients_meet_errors_that_may_be_retried_and_nothing_else(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = opened(REFUSE), opened(REFUSE)
        insert(owner, -1)
        refused: list[int] = []

        def send(number: int) -> None:
            try:
                insert(other, number)
            except UnavailableError:
                refused.append(number)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, range(20)))
            list(pool.map(lambda number: insert(owner, number), range(20, 40)))
        assert sorted(refused) == list(range(20))
        assert other.ids() == [-1, *range(20, 40)]

    def test_a_region_that_was_let_go_is_anybodys(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = opened(REFUSE), opened(REFUSE)
        insert(owner, 1)
        owner.writer.flush()
        insert(other, 2)
        with pytest.raises(NotOwnerError, match=other.url):
            insert(owner, 3)

    def test_a_gateway_that_was_killed_knows_its_regions_again(self, root: Path, opened: Open) -> None:
        make_table(root)
        port = find_free_port()
        before = opened(REFUSE, port=port)
        insert(before, 1)
        # As after a crash: nothing was flushed or let go.
        before.server.shutdown()
        with pytest.raises(NotOwnerError, match=before.url):
            insert(opened(REFUSE), 2)
        after = opened(REFUSE, port=port)
        insert(after, 3)
        assert after.ids() == [1, 3]


class TestForward:
    @pytest.mark.slow
    @pytest.mark.parametrize("count", [2, 3])
    def test_regions_stay_where_they_are(self, root: Path, opened: Open, count: int) -> None:
        make_table(root, buckets=2, keyed=True)
        gateways = [opened(FORWARD) for _ in range(count)]
        side_by_side(gateways, rows=5)
        # At its very beginning a region may be claimed by several; then it stays.
        settled = epochs(root)
        ids = side_by_side(gateways, rows=20)
        assert epochs(root) == settled
        assert max(settled) <= 4 * count
        assert [gateway.ids() for gateway in gateways] == [ids] * count
        assert sum(one.rows for gateway in gateways for one in gateway.stats) == len(ids) + len(ids) // 4

    def test_read_modify_write_on_all_of_them_loses_no_increment(self, root: Path, opened: Open) -> None:
        make_table(root)
        gateways = [opened(FORWARD) for _ in range(2)]
        gateways[0].write(f"INSERT INTO {TABLE} VALUES (0, '0')")

        def increment(at: int) -> None:
            for _ in range(5):
                again = True
                while again:
                    try:
                        gateways[at].write(
                            f"UPDATE {TABLE} SET text = CAST(CAST(text AS INT) + 1 AS STRING) WHERE id = 0"
                        )
                        again = False
                    except UnavailableError:
                        again = True

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(increment, range(2)))
        (row,) = gateways[1].engine.execute(f"SELECT text FROM {TABLE}").read_all().to_pylist()
        assert row == {"text": "10"}

    def test_the_owner_flushes_for_another_gateway_and_stays_the_one_that_claimed(
        self, root: Path, opened: Open
    ) -> None:
        make_table(root)
        owner, other = opened(FORWARD), opened(FORWARD)
        insert(owner, 1)
        insert(owner, 2)
        statement = other.engine.prepare_statement(f"FLUSH TABLE {TABLE}")
        assert not isinstance(statement, PreparedQuery)
        rows = statement.execute().rows
        assert rows is not None
        assert rows.to_pylist() == [{"table_name": TABLE, "rows": 2, "regions": 1}]
        assert epochs(root) == [1]
        assert owner.stats[0].flushes == 1
        assert other.ids() == [1, 2]

    def test_what_an_owner_that_is_gone_left_is_flushed_in_its_place(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner, other = opened(FORWARD), opened(FORWARD)
        insert(owner, 1)
        owner.server.shutdown()
        assert other.writer.flush_logs() == dict.fromkeys(region_ids(root), 1)
        assert epochs(root) == [2]
        assert other.ids() == [1]

    def test_clients_may_not_ask_as_gateways_do(self, root: Path, opened: Open) -> None:
        make_table(root)
        owner = opened(FORWARD)
        insert(owner, 1)
        stranger = Forwarding(Trust(PeerToken("another-secret-of-gateways")), 10.0)
        with pytest.raises(UnreachableError, match=r"not asked to flush|token|gateways"):
            stranger.flush(owner.url, TABLE, region_ids(root)[0])
        stranger.close()
        assert owner.stats[0].flushes == 0


class TestMixedPolicies:
    @pytest.mark.slow
    def test_gateways_of_all_policies_write_one_region(self, root: Path, opened: Open) -> None:
        make_table(root)
        gateways = [opened(CLAIM), opened(FORWARD)]
        ids = side_by_side(gateways, rows=20, threads=1)
        assert [gateway.ids() for gateway in gateways] == [ids, ids]


class _RawWriter:
    """Lance's own writer in a loop: claims the region, writes a row, and waits for nobody."""

    def __init__(self, path: Path, region: str) -> None:
        self._path, self._region = path, region
        self._stop = threading.Event()
        self.acknowledged: list[int] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        dataset: Any = lance.dataset(self._path)
        number = 1_000_000
        while not self._stop.is_set():
            number += 1
            row = pa.table({"id": pa.array([number], pa.int64()), "text": ["raw"]}, schema=dataset.schema)
            try:
                writer = dataset.mem_wal_writer(
                    self._region, durable_write=True, max_wal_buffer_size=1, max_wal_flush_interval_ms=5_000
                )
                writer.put(row)
                self.acknowledged.append(number)
                # Long enough to be in the way, and short enough that others get a turn.
                self._stop.wait(0.05)
                writer.close()
            except OSError:
                self._stop.wait(0.01)


@pytest.mark.slow
class TestStorms:
    @pytest.mark.parametrize("policy", [CLAIM, FORWARD])
    @pytest.mark.soak
    def test_gateways_without_hold_time_and_a_raw_writer(
        self, root: Path, opened: Open, policy: OwnershipPolicy
    ) -> None:
        path = make_table(root)
        gateways = [opened(policy) for _ in range(3)]
        insert(gateways[0], -1)
        (region,) = manifests.list_region_ids(path)
        with _RawWriter(path, region) as raw:
            ids = side_by_side(gateways, rows=6, threads=3)
        expected = sorted([-1, *ids, *raw.acknowledged])
        assert raw.acknowledged
        # What a raw writer was told to have failed may be there, too.
        assert set(expected) <= set(gateways[0].ids())
        assert set(ids) <= {one for one in gateways[1].ids() if one < 1_000_000}
        assert len([one for one in gateways[2].ids() if one < 1_000_000]) == len(ids) + 1

    @pytest.mark.soak
    def test_a_hold_time_keeps_claims_few(self, root: Path, opened: Open) -> None:
        make_table(root, buckets=2)
        gateways = [opened(CLAIM, hold_ms=250) for _ in range(3)]
        began = time.monotonic()
        ids = side_by_side(gateways, rows=25, threads=4)
        elapsed = time.monotonic() - began
        assert gateways[0].ids() == ids
        assert max(epochs(root)) <= 3 * (elapsed / 0.25 + 1)
