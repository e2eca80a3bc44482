"""Server processes under measurement, on free ports; they print their address when they are ready."""

import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from benchmarks.reports.settings import REPOSITORY

_READY_SECONDS = 120
_STOP_SECONDS = 20
_LOCATION = re.compile(r"grpc://(?P<address>\S+:\d+)")
_STORE_LOCATION = re.compile(r"http://(?P<address>\S+:\d+)")
_ROAPI_LOCATION = re.compile(r"Listening on (?P<address>\S+:\d+) for FlightSQL")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server: its Flight location (`grpc://host:port`) and its process id."""

    uri: str
    pid: int


@contextmanager
def start_gateway(
    root: Path | str,
    options: Mapping[str, str] = MappingProxyType({}),
    configured: Mapping[str, object] = MappingProxyType({}),
) -> Iterator[ServerProcess]:
    """Serve a catalog root with `lance-gateway serve` in its own process.

    Args:
        root: A directory or `s3://bucket/prefix`.
        options: Storage options.
        configured: Keys of the configuration that differ from the defaults.
    """
    executable = Path(sys.executable).parent / "lance-gateway"
    command = [str(executable), "serve", "--root", str(root), "--port", "0"]
    for flag, pairs in (("--storage-option", options), ("--set", configured)):
        command += [word for name, value in pairs.items() for word in (flag, f"{name}={value}")]
    # A line per statement on the terminal would bury the findings; the peers keep theirs to themselves too.
    with _start_server([*command, "--log-level", "WARNING"]) as server:
        yield server


@contextmanager
def start_bare_flight(source: str, sql: str) -> Iterator[ServerProcess]:
    """Serve from memory, in its own process, the batches that the gateway at `source` streams for `sql`."""
    with _start_server([sys.executable, "-m", "benchmarks.servers.bare_flight", source, sql]) as server:
        yield server


@contextmanager
def start_slow_store() -> Iterator[str]:
    """Serve an S3 store whose requests take as long as S3's, in its own process; give its URL."""
    with _start_server(
        [sys.executable, "-m", "benchmarks.servers.slow_store"], location=_STORE_LOCATION
    ) as server:
        yield server.uri.replace("grpc://", "http://")


@contextmanager
def start_slow_network(port: int, milliseconds: float) -> Iterator[str]:
    """Put a network with latency in front of a local port, in its own process; give its URL.

    Args:
        port: Of the server behind.
        milliseconds: Of a round trip.
    """
    command = [sys.executable, "-m", "benchmarks.servers.slow_network", str(port), str(milliseconds)]
    with _start_server(command, location=_STORE_LOCATION) as server:
        yield server.uri.replace("grpc://", "http://")


@contextmanager
def start_roapi(table_name: str, parquet: Path, *, in_memory: bool) -> Iterator[ServerProcess]:
    """Serve one Parquet file with ROAPI in its own process.

    Args:
        table_name: What queries call the table.
        parquet: The file.
        in_memory: Whether ROAPI decodes the file once when it starts (its default) or for each query.
    """
    executable = Path(sys.executable).parent / "roapi"
    source = f"{table_name}={parquet},format=parquet,use_memory_table={str(in_memory).lower()}"
    addresses = [f"--addr-{protocol}=127.0.0.1:0" for protocol in ("http", "postgres", "flight-sql")]
    # It tells its address in its log; a line per request would only slow it down.
    environment = {**os.environ, "RUST_LOG": "error,roapi::startup=info"}
    command = [str(executable), *addresses, "--table", source]
    with _start_server(command, location=_ROAPI_LOCATION, environment=environment) as server:
        yield server


@contextmanager
def _start_server(
    command: Sequence[str],
    location: re.Pattern[str] = _LOCATION,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ServerProcess]:
    # ROAPI's log says where it is. Others' stderr is inherited: one that fails says why on the terminal.
    log = subprocess.STDOUT if location is _ROAPI_LOCATION else None
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
    ) as process:
        try:
            yield ServerProcess(_await_location(process, location), process.pid)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_location(process: subprocess.Popen[str], location: re.Pattern[str]) -> str:
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    # Reads to the end, so that a talkative server never waits for a full pipe.
    threading.Thread(target=_read_lines, args=(process, lines), name="server-output", daemon=True).start()
    said = []
    deadline = time.monotonic() + _READY_SECONDS
    try:
        while (line := lines.get(timeout=max(0, deadline - time.monotonic()))) is not None:
            found = location.search(line)
            if found is not None:
                return f"grpc://{found['address']}"
            said.append(line)
    except queue.Empty:
        said.append(f"(nothing more for {_READY_SECONDS} s)")
    raise RuntimeError(f"{process.args!r} gave no location: {''.join(said)!r}")


def _read_lines(process: subprocess.Popen[str], lines: "queue.SimpleQueue[str | None]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)
