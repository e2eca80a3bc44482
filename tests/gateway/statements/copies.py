"""Copies of a table that followers keep, and what changes it."""

import random
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.servers import fetch

DONE = -1
"""Key of the row that is written last."""


class Copy:
    """A copy of table t that one follower keeps, from any gateway and from one to the next.

    Each change must fit to what the copy has.
    """

    def __init__(self, since: str) -> None:
        self.since = since
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.pending: list[dict[str, Any]] = []
        self.failure: BaseException | None = None

    def follow(self, client: flight.FlightClient) -> None:
        """Follow until the last row has come; raise what ends the stream before."""
        text = f"SELECT * FROM lance_changes('t', since => {self.since}, follow => true)"
        self.pending.clear()
        for chunk in rpc.stream(client, sql.CommandStatementQuery(query=text)):
            self.pending += chunk.data.to_pylist()
            token = read_token(chunk)
            if token is None or (self.pending and token != self.pending[-1]["_position"]):
                continue  # There is more of the same step.
            self._apply()
            self.since = f"'{token}'"
            if DONE in self.rows:
                return

    def _apply(self) -> None:
        after = dict(self.rows)
        for change in self.pending:
            kind, key, row = change["_change"], change["id"], (change["v"], change["s"])
            if kind in {"delete", "update_before"}:
                assert self.rows.get(key) == row, change
            if kind == "delete":
                del after[key]
            elif kind != "update_before":
                assert (kind == "insert") == (key not in self.rows), change
                after[key] = row
        self.rows = after
        self.pending.clear()

    def follow_through(self, uris: list[str]) -> None:
        """Follow at one gateway after the other, where one ends."""
        try:
            for uri in uris:
                with flight.FlightClient(uri) as client, suppress(flight.FlightUnavailableError):
                    self.follow(client)
                    return
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.failure = error


def read_token(chunk: flight.FlightStreamChunk) -> str | None:
    """The token that comes with a batch; None within the first step, which began with no token."""
    return None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes().decode()


def read_step(reader: Any) -> tuple[pa.Table, str]:
    """The rows of the first step of a follower, and its token."""
    batches = []
    for chunk in reader:
        batches.append(chunk.data)
        token = read_token(chunk)
        if token is not None:
            break
    return pa.Table.from_batches(batches), token


def create_table(connection: Any, options: str = "") -> None:
    fetch(connection, f"CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, s VARCHAR) {options}")


def write_randomly(connection: Any, rng: random.Random, oracle: dict[int, tuple[Any, ...]]) -> None:
    keys = sorted(rng.sample(range(40), 5))
    listed, value = ", ".join(map(str, keys)), rng.randrange(1000)
    kind = rng.choice(("upsert", "upsert", "update", "delete", "optimize"))
    if kind == "upsert":
        values = ", ".join(f"({key}, {value}, 's{value}')" for key in keys)
        fetch(connection, f"INSERT OR REPLACE INTO t VALUES {values}")
        oracle |= dict.fromkeys(keys, (value, f"s{value}"))
    elif kind == "update":
        fetch(connection, f"UPDATE t SET v = v + 1 WHERE id IN ({listed})")
        oracle |= {key: (oracle[key][0] + 1, oracle[key][1]) for key in keys if key in oracle}
    elif kind == "delete":
        fetch(connection, f"DELETE FROM t WHERE id IN ({listed})")
        for key in keys:
            oracle.pop(key, None)
    else:
        fetch(connection, "OPTIMIZE t")
