"""Single changes of a table on S3: told by any gateway, also to followers, and kept by clean."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from pyarrow import flight

from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning import CleanPolicy, clean
from lance_gateway.pipeline.jobs.lake import Lake
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.statements.copies import read_token
from tests.support.processes.gateways import EAGER, EngineGateway
from tests.support.processes.servers import GatewayProcess, fetch, open_connection

pytestmark = pytest.mark.slow

CREATE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT) WITH (region_by = 'bucket(id, 2)')"
TOLD = (
    "SELECT id, v, _change, _changed_at FROM lance_changes('t', since => {}, mode => 'all') "
    "ORDER BY _sequence"
)
WRITES = (
    "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
    "UPDATE t SET v = v + 10 WHERE id <= 2",
    "DELETE FROM t WHERE id = 2",
    "INSERT INTO t VALUES (2, 20)",
)
STEPS = {
    1: [(1, "insert"), (1, "update_before"), (11, "update_after")],
    2: [(2, "insert"), (2, "update_before"), (12, "update_after"), (12, "delete"), (20, "insert")],
    3: [(3, "insert")],
}
"""What is told of each key, in order."""
Location = tuple[str, dict[str, str]]


def find_steps(rows: list[dict[str, Any]]) -> dict[int, list[tuple[int, str]]]:
    steps = defaultdict[int, list[tuple[int, str]]](list)
    for row in rows:
        steps[row["id"]].append((row["v"], row["_change"]))
    return dict(steps)


@pytest.fixture
def gateways(s3_location: Location) -> Iterator[tuple[EngineGateway, EngineGateway]]:
    """One that writes, and another one."""
    root, options = s3_location
    Storage.open(root, options).put("made", b"")
    one, other = (EngineGateway(Catalog.open(root, options, writing=EAGER)) for _ in range(2))
    yield one, other
    for each in (one, other):
        each.close()


@pytest.mark.soak
def test_changes_are_told_until_they_are_cleaned_up(
    s3_location: Location, gateways: tuple[EngineGateway, EngineGateway]
) -> None:
    writing, other = gateways
    writing.write(CREATE)
    (token,) = other.read("SELECT * FROM lance_position('t')").column(0).to_pylist()
    table = Lake.open(*s3_location).table("t")
    began = time.time()
    for at, write in enumerate(WRITES):
        writing.write(write)
        if at:
            writing.flush("t")
        if at == 2:
            merge(table)
        found = other.read(TOLD.format(f"'{token}'")).to_pylist()
    assert find_steps(found) == STEPS
    # The clock of storage counts whole seconds.
    times = [row["_changed_at"].timestamp() - time.timezone for row in found]
    assert all(began - 3600 < one < time.time() + 3600 for one in times)

    writing.flush("t")
    merge(table)
    policy = CleanPolicy(grace_seconds=0, retain_versions=1, keep_changes_seconds=7200)
    for hours in (0.5, 1.5):
        clean(table, policy, delete=True, clock=lambda hours=hours: time.time() + hours * 3600)
        assert find_steps(other.read(TOLD.format(f"'{token}'")).to_pylist()) == STEPS
    for hours in (3, 6):
        clean(table, policy, delete=True, clock=lambda hours=hours: time.time() + hours * 3600)
    with pytest.raises(PreconditionError, match=r"cleaned up.*begin again, since => "):
        other.read(TOLD.format(f"'{token}'"))
    shown = other.read("SELECT id, v FROM t").sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in shown] == [(1, 11), (2, 20), (3, 3)]


@pytest.mark.soak
def test_another_gateway_tells_followers_of_every_change(s3_location: Location) -> None:
    root, options = s3_location
    Storage.open(root, options).put("made", b"")
    stored = [part for one in options.items() for part in ("--storage-option", "=".join(one))]
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(GatewayProcess(root, "--http-port", "off", *stored))  # type: ignore[arg-type]
            for _ in range(2)
        )
        connection = stack.enter_context(open_connection(one.uri))
        fetch(connection, CREATE)
        client = stack.enter_context(flight.FlightClient(other.uri))
        followed = "SELECT * FROM lance_changes('t', since => 1, mode => 'all', follow => true)"
        reader = rpc.stream(client, sql.CommandStatementQuery(query=followed))
        next(reader)  # It follows by now.
        wanted, rows = sum(map(len, STEPS.values())), list[dict[str, Any]]()
        for write in WRITES:
            fetch(connection, write)
        step: list[dict[str, Any]] = []
        while len(rows) < wanted:
            batch = next(reader)
            step += batch.data.to_pylist()
            token = read_token(batch)
            if step and token == step[-1]["_position"]:  # There is no more of this step.
                rows += sorted(step, key=lambda row: row["_sequence"])
                step.clear()
        reader.cancel()
    assert find_steps(rows) == STEPS
