"""`lance-gateway serve` as a process that writes: how it leaves, what it refuses, and several of them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import adbc_driver_manager
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.memwal.writing import OwnershipPolicy
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import mem_wal_pb2
from tests.gateway import rpc
from tests.gateway.peers.peer_gateways import TABLE, epochs, make_table, peer
from tests.support.lake import manifests
from tests.support.processes.gateways import EngineGateway, ServedGateway
from tests.support.processes.ports import find_free_port

# Whoever waits for that has waited in vain.
HOUR = ("--set", "writes.hold=1h", "--http-port", "off")
SECRET = "the-secret-of-these-gateways"
Start = Callable[..., ServedGateway]

pytestmark = pytest.mark.slow


@pytest.fixture
def start(root: Path) -> Iterator[Start]:
    """Starts gateways over the root, and ends what is left of them after the test."""
    with ExitStack() as stack:

        def started(*options: str, session: dict[str, str] | None = None) -> ServedGateway:
            gateway = ServedGateway(root, *options, session=session)
            stack.callback(gateway.close)
            return gateway

        yield started


def stop(gateway: ServedGateway) -> str:
    """Has a gateway end by SIGTERM; its log."""
    assert gateway.process.stop() == 0
    return gateway.process.log


def insert(gateway: ServedGateway, number: int) -> None:
    assert gateway.write(f"INSERT INTO {TABLE} VALUES ({number}, 'row')") == 1


def ids(root: Path) -> list[int]:
    engine = EngineGateway(root)
    found: list[int] = engine.read(f"SELECT id FROM {TABLE} ORDER BY id")["id"].to_pylist()
    engine.close()
    return found


def regions(root: Path) -> list[mem_wal_pb2.RegionManifest]:
    path = root / f"{TABLE}.lance"
    return [manifests.read_manifest(path, region) for region in manifests.list_region_ids(path)]


class TestSigterm:
    def test_regions_are_flushed_and_anybody_may_go_on_at_once(self, root: Path, start: Start) -> None:
        make_table(root, buckets=2)
        gateway = start(*HOUR)
        for number in range(10):
            insert(gateway, number)
        log = stop(gateway)
        assert "stopped" in log
        assert "not flushed" not in log
        assert all(len(region.flushed_generations) == 1 for region in regions(root))
        with peer(root, OwnershipPolicy.CLAIM, hold_ms=3_600_000) as other:
            other.write(f"INSERT INTO {TABLE} VALUES (10, 'row'), (11, 'row'), (12, 'row')")
            assert other.ids() == list(range(13))

    def test_without_time_to_flush_everything_is_in_the_log(self, root: Path, start: Start) -> None:
        make_table(root, buckets=4)
        hasty = {"optionbool.durable_writes": "false"}
        gateway = start("--set", "writes.flush_timeout=0", *HOUR, session=hasty)
        for number in range(100):
            insert(gateway, number)
        assert "4 regions of table 'events' were not flushed" in stop(gateway)
        assert [len(region.flushed_generations) for region in regions(root)] == [0, 0, 0, 0]
        assert ids(root) == list(range(100))

    def test_clients_that_go_on_writing_lose_nothing_that_was_acknowledged(
        self, root: Path, start: Start
    ) -> None:
        make_table(root)
        gateway = start(*HOUR)
        acknowledged: list[int] = []
        under_way = threading.Event()

        def client(first: int) -> None:
            with flight.FlightClient(gateway.process.uri) as connection:
                for number in range(first, first + 1_000_000):
                    text = f"INSERT INTO {TABLE} VALUES ({number}, 'row')"
                    try:
                        rpc.info(connection, sql.CommandStatementQuery(query=text))
                    except (pa.ArrowException, flight.FlightError):
                        return
                    acknowledged.append(number)
                    if len(acknowledged) > 20:
                        under_way.set()

        threads = [threading.Thread(target=client, args=(lane * 1_000_000,)) for lane in range(3)]
        for thread in threads:
            thread.start()
        assert under_way.wait(120)
        log = stop(gateway)
        for thread in threads:
            thread.join(120)
        assert "Traceback" not in log
        found = ids(root)
        assert set(acknowledged) <= set(found)
        # The last of each client may have been written without anybody left to tell.
        assert len(found) <= len(acknowledged) + len(threads)


class TestReadOnly:
    def test_statements_that_write_are_refused(self, root: Path, start: Start) -> None:
        make_table(root)
        gateway = start("--read-only", "--http-port", "off")
        for text in (
            f"INSERT INTO {TABLE} VALUES (1, 'row')",
            f"DELETE FROM {TABLE}",
            "CREATE TABLE other (id BIGINT PRIMARY KEY)",
            f"DROP TABLE {TABLE}",
        ):
            with pytest.raises(adbc_driver_manager.Error, match="read-only"):
                gateway.write(text)
        rows = pa.table({"id": pa.array([1], pa.int64()), "text": ["row"]})
        with pytest.raises(adbc_driver_manager.Error, match="read-only"):
            gateway.ingest(TABLE, rows)
        assert gateway.read(f"SELECT * FROM {TABLE}").num_rows == 0


class TestSeveral:
    @pytest.mark.soak
    def test_rows_are_forwarded_until_the_owner_is_killed(self, root: Path, start: Start) -> None:
        make_table(root)

        def forwarding() -> ServedGateway:
            port = find_free_port()
            return start(
                *("--port", str(port), "--http-port", "off", "--set", "writes.ownership=forward"),
                *("--set", f"writes.advertise_url=grpc://127.0.0.1:{port}"),
                *("--set", f"writes.peer_token={SECRET}", "--set", "writes.hold=100ms"),
            )

        owner, other = forwarding(), forwarding()
        insert(owner, 0)
        for number in range(1, 20):
            insert(other if number % 2 else owner, number)
        assert epochs(root) == [1]
        (row,) = other.read("SELECT owned, forwarded, owner_url FROM system.writers").to_pylist()
        assert row == {"owned": False, "forwarded": 10, "owner_url": owner.process.uri}
        assert SECRET not in owner.process.log + other.process.log
        os.kill(owner.process.pid, signal.SIGKILL)
        for number in range(20, 30):
            insert(other, number)
        assert epochs(root) == [2]
        assert other.read(f"SELECT id FROM {TABLE} ORDER BY id")["id"].to_pylist() == list(range(30))
