"""Server processes under measurement: a free port, awaited by their first line, stopped at the end."""

import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.settings import REPOSITORY

_READY_SECONDS = 120
_STOP_SECONDS = 20


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server: its Flight location (`grpc://host:port`) and its process id."""

    uri: str
    pid: int


@contextmanager
def gateway_server(root: Path) -> Iterator[ServerProcess]:
    """Serves a catalog root with `lance-gateway serve` in its own process."""
    executable = Path(sys.executable).parent / "lance-gateway"
    with _server([str(executable), "serve", "--root", str(root), "--port", "0"]) as server:
        yield server


@contextmanager
def bare_flight_server(source: str, sql: str) -> Iterator[ServerProcess]:
    """Serves from memory, in its own process, the batches that the gateway at `source` streams for `sql`."""
    with _server([sys.executable, "-m", "benchmarks.bare_flight", source, sql]) as server:
        yield server


@contextmanager
def _server(command: Sequence[str]) -> Iterator[ServerProcess]:
    # stderr is inherited: a server that fails says why on the terminal.
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ServerProcess(_await_location(process), process.pid)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _await_location(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(_READY_SECONDS):
            raise TimeoutError(f"{process.args!r} said nothing for {_READY_SECONDS} s")
    line = process.stdout.readline()
    locations = [word.strip(".,()") for word in line.split() if "grpc://" in word]
    if not locations:
        raise RuntimeError(f"{process.args!r} gave no location in its first line: {line!r}")
    return locations[0][locations[0].index("grpc://") :]
