"""A gateway that is killed during COMMIT leaves a transaction of one region whole, or nothing of it."""

import contextlib
import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.gateways import EngineGateway
from tests.support.processes.servers import GatewayProcess

ROUNDS = 3
SIZE = 5
"""Rows of one transaction, inserted one by one, beside a counter that it increments."""
CLIENTS = (1, 2)
_MOST = 100_000
"""Transactions of one client."""


def write(client: flight.FlightClient, transaction: bytes, text: str) -> None:
    rpc.put(client, sql.CommandStatementUpdate(query=text, transaction_id=transaction))


def commit_again_and_again(
    uri: str, number: int, first: int, acknowledged: list[int], enough: threading.Event
) -> None:
    """Commit transactions until the gateway is gone."""
    with contextlib.suppress(flight.FlightError, pa.ArrowException), flight.FlightClient(uri) as client:
        for group in range(number * _MOST + first, (number + 1) * _MOST):
            one = rpc.begin(client)
            write(client, one, f"UPDATE ledger SET n = n + 1 WHERE id = {-number}")
            for row in range(group * SIZE, (group + 1) * SIZE):
                write(client, one, f"INSERT INTO ledger VALUES ({row}, 0)")
            rpc.end(client, one, rpc.COMMIT)
            acknowledged.append(number)
            if len(acknowledged) >= 6:
                enough.set()


@pytest.mark.slow
def test_a_killed_gateway_leaves_transactions_whole(tmp_path: Path) -> None:
    made = EngineGateway(tmp_path)
    made.write("CREATE TABLE ledger (id BIGINT PRIMARY KEY, n BIGINT)")
    made.write("INSERT INTO ledger VALUES (-1, 0), (-2, 0)")
    made.close()
    acknowledged: list[int] = []
    for turn in range(ROUNDS):
        gateway = GatewayProcess(tmp_path, "--http-port", "off", "--set", "writes.hold=0")
        enough, fresh = threading.Event(), list[int]()
        threads = [
            threading.Thread(
                target=commit_again_and_again, args=(gateway.uri, one, turn * 1000, fresh, enough)
            )
            for one in CLIENTS
        ]
        with flight.FlightClient(gateway.uri) as other:
            # It is left open, and must leave nothing.
            write(other, rpc.begin(other), "DELETE FROM ledger")
            for thread in threads:
                thread.start()
            assert enough.wait(60)
            # Killed so many statements of another client later.
            for _ in range(random.Random(turn).randrange(12)):
                rpc.query(other, "SELECT 1")
            gateway.kill()
        for thread in threads:
            thread.join()
        gateway.stop()
        acknowledged += fresh
        check(tmp_path, acknowledged)


def check(root: Path, acknowledged: list[int]) -> None:
    survivor = EngineGateway(root)
    try:
        rows = survivor.read("SELECT id, n FROM ledger").to_pylist()
    finally:
        survivor.close()
    counts = {-row["id"]: row["n"] for row in rows if row["id"] < 0}
    groups: dict[int, int] = {}
    for row in rows:
        if row["id"] >= 0:
            groups[row["id"] // SIZE] = groups.get(row["id"] // SIZE, 0) + 1
    assert set(groups.values()) <= {SIZE}, "a transaction is there in part"
    for client in CLIENTS:
        committed = sum(group // _MOST == client for group in groups)
        assert committed == counts[client], "rows and counter of one transaction differ"
        assert committed >= acknowledged.count(client), "an acknowledged transaction is gone"
