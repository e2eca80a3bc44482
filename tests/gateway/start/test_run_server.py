"""`lance-gateway serve` as a process: start, refuse to start, drain, stop."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.support.processes.forks import CommandProcess, run_command

PROGRAM = str(Path(sys.executable).with_name("lance-gateway"))
# More rows than anybody waits for.
ENDLESS = "SELECT value, value * 2 AS twice, 'some text' AS text FROM generate_series(1, 100000000000)"


class Server:
    """A serving process with its address."""

    def __init__(self, process: CommandProcess, uri: str) -> None:
        self.process = process
        self.uri = uri

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Waits for the process and returns its status and what it logged."""
        logged = self.process.stderr.read()
        return self.process.wait(120), logged


@contextmanager
def serving(root: Path, *options: str) -> Iterator[Server]:
    with CommandProcess(["serve", "--root", str(root), "--port", "0", *options]) as process:
        try:
            line = process.stdout.readline()
            found = re.search(r"grpc://\S+:\d+", line)
            assert found, line
            yield Server(process, found.group())
        finally:
            if process.poll() is None:
                process.kill()


def refused(*options: str) -> str:
    """Runs a server that does not start and returns its complaint."""
    run = run_command("serve", *options)
    assert run.returncode == 1
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    return run.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_the_first_line_names_the_address_and_a_signal_ends_the_server(lake: Path, number: int) -> None:
    with serving(lake) as server:
        with flight.FlightClient(server.uri) as client:
            assert rpc.query(client, "SELECT 1 AS one").to_pylist() == [{"one": 1}]
        server.signal(number)
        status, logged = server.end()
    assert status == 0
    assert "stopped" in logged
    assert "without authentication" not in logged


@pytest.mark.slow
def test_a_running_stream_is_drained_and_new_connections_are_refused(lake: Path) -> None:
    with serving(lake) as server, flight.FlightClient(server.uri) as client:
        text = "SELECT value, value * 2 AS twice, 'some text' AS text FROM generate_series(1, 3000000)"
        reader = rpc.stream(client, sql.CommandStatementQuery(query=text))
        rows = reader.read_chunk().data.num_rows
        server.signal(signal.SIGTERM)
        _until_refused(server.uri)
        rows += sum(chunk.data.num_rows for chunk in reader)
        assert rows == 3_000_000
        assert server.end()[0] == 0


@pytest.mark.slow
def test_draining_ends_after_its_time(lake: Path) -> None:
    with serving(lake, "--drain-seconds", "0.2") as server, flight.FlightClient(server.uri) as client:
        reader = rpc.stream(client, sql.CommandStatementQuery(query=ENDLESS))
        reader.read_chunk()
        server.signal(signal.SIGTERM)
        with pytest.raises(flight.FlightUnavailableError):
            for _ in reader:
                pass
        status, logged = server.end()
    assert status == 0
    assert "still running" in logged


@pytest.mark.slow
def test_work_that_goes_on_in_the_background_lets_the_process_end(tmp_path: Path) -> None:
    """Threads of DataFusion may run Python still, which an interpreter that shuts down would abort."""
    flat = pa.array(range(32 * 200_000)).cast(pa.float32())
    vectors = pa.FixedSizeListArray.from_arrays(flat, 32)
    lance.write_dataset(pa.table({"vec": vectors}), tmp_path / "items.lance")
    search = "SELECT _distance FROM lance_vector_search('items', 'vec', [{}], k => 100)"
    text = " UNION ALL ".join(search.format(", ".join([str(one)] * 32)) for one in range(60))
    with serving(tmp_path, "--drain-seconds", "0") as server, flight.FlightClient(server.uri) as client:
        rpc.stream(client, sql.CommandStatementQuery(query=text))
        server.signal(signal.SIGTERM)
        status, logged = server.end()
    assert status == 0, logged


@pytest.mark.slow
def test_a_client_that_does_not_read_is_left_after_the_drain(lake: Path) -> None:
    with serving(lake, "--drain-seconds", "0.1") as server, flight.FlightClient(server.uri) as client:
        reader = rpc.stream(client, sql.CommandStatementQuery(query=ENDLESS))
        reader.read_chunk()
        server.signal(signal.SIGTERM)
        assert server.end()[0] == 0


@pytest.mark.slow
def test_a_second_signal_stops_at_once(lake: Path) -> None:
    with serving(lake, "--drain-seconds", "600") as server, flight.FlightClient(server.uri) as client:
        reader = rpc.stream(client, sql.CommandStatementQuery(query=ENDLESS))
        reader.read_chunk()
        server.signal(signal.SIGTERM)
        _logged(server, "stopping")
        server.signal(signal.SIGTERM)
        assert server.process.wait(120) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_client_that_is_killed_leaves_a_server_that_serves_on(lake: Path) -> None:
    script = f"""
import sys
from pyarrow import flight
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc

with flight.FlightClient(sys.argv[1]) as client:
    reader = rpc.stream(client, sql.CommandStatementQuery(query={ENDLESS!r}))
    reader.read_chunk()
    print("reading", flush=True)
    for _ in reader:
        pass
"""
    with serving(lake) as server:
        command = [sys.executable, "-c", script, server.uri]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"reading\n"
            victim.kill()
        with flight.FlightClient(server.uri) as client:
            assert rpc.query(client, "SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 1000}]
        # The stream has ended: there is nothing to drain.
        server.signal(signal.SIGTERM)
        assert server.end()[0] == 0


@pytest.mark.slow
def test_a_missing_root_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    assert refused("--root", str(missing)).startswith(f"error: root '{missing}' does not exist")


@pytest.mark.slow
def test_a_port_in_use_is_named(lake: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        complaint = refused("--root", str(lake), "--port", str(port), "--http-port", "0")
    assert complaint.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--port", "70000"), "--port: server.port = 70000: it takes a port up to 65535"),
        (("--drain-seconds", "-1"), "--drain-seconds: server.drain = -1.0: it takes a duration"),
        (("--storage-option", "region"), "'region' is not a pair"),
        (
            ("--log-level", "LOUD"),
            "--log-level: observability.log_level = 'LOUD': it takes one of DEBUG, INFO",
        ),
        (("--set", "server.prot=1"), "--set: the key server.prot does not exist: did you mean server.port"),
        (("--host", "no.such.host.invalid", "--insecure"), "cannot listen on no.such.host.invalid"),
    ],
)
def test_a_wrong_option_is_named(lake: Path, options: Sequence[str], said: str) -> None:
    assert said in refused("--root", str(lake), *options)


@pytest.mark.slow
def test_a_host_that_others_reach_is_warned_about(lake: Path) -> None:
    assert "--insecure" in refused("--root", str(lake), "--host", "0.0.0.0", "--port", "0")
    with serving(lake, "--host", "0.0.0.0", "--insecure") as server:
        server.signal(signal.SIGTERM)
        assert "without authentication" in server.end()[1]


@pytest.mark.slow
def test_the_second_port_tells_health_until_the_drain_ends(lake: Path) -> None:
    with serving(lake, "--log-level", "INFO") as server:
        address = _logged(server, "metrics and health at ").rpartition("http://")[2].strip()
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=10) as answer:
            assert answer.read() == b"ok\n"
        with flight.FlightClient(server.uri) as client:
            reader = rpc.stream(client, sql.CommandStatementQuery(query=ENDLESS))
            reader.read_chunk()
            server.signal(signal.SIGTERM)
            _logged(server, "stopping")
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(f"http://{address}/readyz", timeout=10)
            with refusal.value as answer:
                assert (answer.code, answer.read()) == (503, b"the gateway is stopping\n")
            reader.cancel()
        assert server.end()[0] == 0


@pytest.mark.slow
def test_the_version_is_shown() -> None:
    run = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == f"lance-gateway {version('lance-gateway')}\n"


def _until_refused(uri: str) -> None:
    """Connects again and again until nobody listens."""
    host, _, port = uri.removeprefix("grpc://").partition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except ConnectionError:
            return


def _logged(server: Server, text: str) -> str:
    """Waits until the server has logged `text`, and returns the line."""
    found = next((line for line in server.process.stderr if text in line), None)
    assert found is not None
    return found
