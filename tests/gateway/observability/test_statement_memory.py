"""`system.queries` tells what statements hold in memory, and what they held at most once they have ended."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pytest

from tests.support.processes.servers import GatewayProcess, open_connection

MIB = 1 << 20
# Not by the value itself, in whose order the series comes: groups would end one after the other.
GROWING = "SELECT value % 10000000019 AS k, count(*) FROM generate_series(1, 100000000000) GROUP BY k"


def look(cursor: Any, state: str, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(
        "SELECT query_id, memory_bytes, spilled_bytes FROM system.queries WHERE state = ? AND statement = ?",
        (state, statement),
    )
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.soak
def test_a_statement_that_grows_is_seen_growing(lake: Path, workers: int) -> None:
    limit = ("--set", "limits.query_memory_bytes=1GiB")
    with (
        GatewayProcess(lake, "--set", f"server.workers={workers}", *limit) as server,
        open_connection(server.uri) as its,
        open_connection(server.uri) as ours,
        ours.cursor() as cursor,
    ):

        def run() -> None:
            with its.cursor() as growing, contextlib.suppress(adbc_driver_manager.Error):
                growing.execute(GROWING)
                growing.fetchall()

        thread = threading.Thread(target=run)
        thread.start()
        seen: list[int] = []
        while not seen or seen[-1] < 32 * MIB:
            seen += [held for _, held, _ in look(cursor, "running", GROWING) if held is not None]
        ((query_id, _, _),) = look(cursor, "running", GROWING)
        cursor.execute(f"KILL QUERY '{query_id}'")
        cursor.fetchall()
        thread.join()
        ((_, most, _),) = look(cursor, "cancelled", GROWING)
    assert seen == sorted(seen)
    assert most >= seen[-1]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_statement_that_has_ended_tells_what_it_took(lake: Path, workers: int) -> None:
    statement = "SELECT count(*) FROM (SELECT DISTINCT value % 1000000 FROM generate_series(1, 4000000))"
    with (
        GatewayProcess(lake, "--set", f"server.workers={workers}") as server,
        open_connection(server.uri) as connection,
        connection.cursor() as cursor,
    ):
        for asked in ("SELECT 1", statement):
            cursor.execute(asked)
            cursor.fetchall()
        ((_, none, nothing),) = look(cursor, "finished", "SELECT 1")
        ((_, most, spilled),) = look(cursor, "finished", statement)
    assert (none, nothing) == (None, None)
    # A million numbers of eight bytes, with their hashes.
    assert 8 * MIB < most < 256 * MIB
    assert spilled == 0
