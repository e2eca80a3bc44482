"""Statements in worker processes: the answers of one process, and no harm to others."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import psutil
import pyarrow as pa
import pytest
from adbc_driver_flightsql import StatementOptions
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.servers import GatewayProcess, open_connection

ENDLESS = "SELECT value, value * 2 AS twice, 'some text' AS text FROM generate_series(1, 100000000000)"
# Neither looks for a stop before it has an answer, which takes half a minute.
DEAF = "SELECT sum(levenshtein(repeat('ab', 20000 + value), repeat('ba', 20000))) FROM generate_series(1, 40)"
# Asks for more memory than there is.
DEADLY = "SELECT lpad('a', n) FROM (VALUES (9223372036854775807)) AS t(n)"


@pytest.fixture(scope="module")
def root(lake: Path) -> Path:
    return lake


@pytest.fixture(scope="module")
def gateway(root: Path) -> Iterator[GatewayProcess]:
    server = GatewayProcess(root, "--set", "server.workers=2")
    yield server
    server.stop()


@pytest.fixture
def cursor(gateway: GatewayProcess) -> Iterator[Any]:
    with open_connection(gateway.uri) as connection, connection.cursor() as cursor:
        yield cursor


def fetch(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def find_workers(cursor: Any) -> set[int]:
    """The ids of the processes that take statements."""
    return {pid for (pid,) in fetch(cursor, "SELECT pid FROM system.workers WHERE state = 'ready'")}


def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        pass


@pytest.mark.slow
def test_a_gateway_has_the_workers_that_it_was_told(gateway: GatewayProcess, cursor: Any) -> None:
    wait_until(lambda: len(find_workers(cursor)) == 2)
    children = {child.pid for child in psutil.Process(gateway.pid).children(recursive=True)}
    assert find_workers(cursor) < children


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT 1 + 1", [(2,)]),
        ("SELECT customer FROM orders WHERE id = 8", [("customer 1",)]),
        ("SELECT count(*) FROM orders WHERE amount IS NULL", [(100,)]),
        ("SELECT count(*) FROM orders AS a JOIN big_orders AS b ON a.id = b.id", [(180,)]),
        ("SELECT table_name FROM information_schema.tables WHERE table_name = 'typed'", [("typed",)]),
        (
            "SELECT oid::regclass, oid = 'typed'::regclass FROM pg_class WHERE relname = 'typed'",
            [("typed", True)],
        ),
        (
            "SELECT if(id > 7, to_char(DATE '2024-02-29', 'DD.MM'), 'n') FROM orders WHERE id = 8",
            [("29.02",)],
        ),
        ("SELECT state FROM system.queries WHERE statement LIKE '%system.queries%' LIMIT 1", [("running",)]),
    ],
)
@pytest.mark.slow
def test_answers_are_those_of_one_process(cursor: Any, statement: str, rows: list[tuple[Any, ...]]) -> None:
    assert fetch(cursor, statement) == rows


@pytest.mark.slow
def test_values_decide_on_types_there_too(cursor: Any) -> None:
    for value, expected in ((2, 2), (2.0, 2.5), ("-2", None)):
        if expected is None:
            with pytest.raises(adbc_driver_manager.Error, match="abs"):
                cursor.execute("SELECT abs(?) AS v", (value,))
            continue
        cursor.execute("SELECT id / ? AS v FROM orders WHERE id = 5", (value,))
        assert cursor.fetchall() == [(expected,)]


def test_json_is_written_by_the_types_of_values_there_too(cursor: Any) -> None:
    for value, written in ((2, "2"), ("2", '"2"')):
        cursor.execute("SELECT json_object('id': id, 'v': ?) AS j FROM orders WHERE id = 5", (value,))
        assert cursor.fetchall() == [(f'{{"id":5,"v":{written}}}',)]
    with pytest.raises(adbc_driver_manager.Error, match="'x' is not valid JSON"):
        fetch(cursor, "SELECT CAST('x' || '' AS JSON)")


def test_outputs_that_share_a_name_come_from_workers_too(cursor: Any) -> None:
    cursor.execute("SELECT id, id, ? AS id FROM orders WHERE id = ?", ("x", 5))
    assert [column[0] for column in cursor.description] == ["id", "id", "id"]
    assert cursor.fetchall() == [(5, 5, "x")]


def test_large_batches_come_whole_and_in_order(cursor: Any) -> None:
    cursor.execute("SELECT value, repeat('x', 100) AS text FROM generate_series(1, 1000000)")
    rows = cursor.fetch_arrow_table()
    assert rows.num_rows == 1_000_000
    assert rows.column("value").to_pylist() == list(range(1, 1_000_001))
    assert set(rows.column("text").unique().to_pylist()) == {"x" * 100}


@pytest.mark.slow
def test_parts_of_a_result_come_from_workers_too(gateway: GatewayProcess) -> None:
    with flight.FlightClient(gateway.uri) as client:
        options = flight.FlightCallOptions(headers=[(b"x-lance-gateway-endpoints", b"4")])
        command = rpc.descriptor(sql.CommandStatementQuery(query="SELECT id FROM orders"))
        info = client.get_flight_info(command, options)
        parts = [client.do_get(endpoint.ticket).read_all() for endpoint in info.endpoints]
    assert sorted(pa.concat_tables(parts).column("id").to_pylist()) == list(range(1000))


@pytest.mark.slow
def test_a_killed_worker_takes_only_its_statements_with_it(gateway: GatewayProcess) -> None:
    with (
        open_connection(gateway.uri) as one,
        one.cursor() as endless,
        open_connection(gateway.uri) as other,
        other.cursor() as cursor,
    ):
        wait_until(lambda: len(find_workers(cursor)) == 2)
        endless.adbc_statement.set_options(**{StatementOptions.QUEUE_SIZE.value: "1"})
        endless.execute(ENDLESS)
        reader = endless.fetch_record_batch()
        reader.read_next_batch()
        for pid in find_workers(cursor):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(OSError, match="may be sent again"):
            for _ in reader:
                pass
        assert fetch(cursor, "SELECT count(*) FROM orders") == [(1000,)]


@pytest.mark.slow
def test_a_statement_that_ends_workers_is_refused_for_a_while(gateway: GatewayProcess, cursor: Any) -> None:
    for _ in range(2):
        with pytest.raises(adbc_driver_manager.Error, match=r"has ended the process .* \(signal 6\)"):
            fetch(cursor, DEADLY)
    with pytest.raises(adbc_driver_manager.Error, match="has ended 2 processes of the gateway"):
        fetch(cursor, DEADLY)
    assert fetch(cursor, "SELECT count(*) FROM orders") == [(1000,)]
    assert psutil.pid_exists(gateway.pid)


@pytest.mark.slow
def test_a_statement_that_does_not_listen_is_stopped_with_its_worker(
    gateway: GatewayProcess, cursor: Any
) -> None:
    wait_until(lambda: len(find_workers(cursor)) == 2)
    before = find_workers(cursor)
    with flight.FlightClient(gateway.uri) as client:
        options = flight.FlightCallOptions(headers=[(b"query_timeout_ms", b"500")])
        info = client.get_flight_info(rpc.descriptor(sql.CommandStatementQuery(query=DEAF)), options)
        with pytest.raises(flight.FlightTimedOutError, match="longer than it may"):
            client.do_get(info.endpoints[0].ticket).read_all()
    wait_until(lambda: find_workers(cursor) != before and len(find_workers(cursor)) == 2)


@pytest.mark.slow
def test_a_worker_may_not_take_all_of_the_memory(lake: Path) -> None:
    server = GatewayProcess(lake, "--set", "server.workers=1", "--set", "limits.worker_memory_bytes=1GiB")
    try:
        with open_connection(server.uri) as connection, connection.cursor() as cursor:
            with pytest.raises(adbc_driver_manager.Error, match="has ended the process"):
                fetch(
                    cursor,
                    "SELECT max(repeat(value::TEXT, 10000000 + value)) FROM generate_series(1, 90)",
                )
            assert fetch(cursor, "SELECT count(*) FROM orders") == [(1000,)]
    finally:
        server.stop()


@pytest.mark.slow
def test_a_program_that_serves_is_not_run_again_by_its_workers(lake: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys\n"
        "print('begins', flush=True)\n"
        "from lance_gateway.gateway.cli import main\n"
        "sys.argv = ['lance-gateway', 'serve', '--root', os.environ['ROOT'], '--port', '0']\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"ROOT": str(lake)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        uri = process.stdout.readline().split()[-1]
        with open_connection(uri) as connection, connection.cursor() as cursor:
            assert fetch(cursor, "SELECT count(*) FROM orders") == [(1000,)]
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
