"""The two child processes of the demo: the writer of `orders` and a real `lance-gateway serve`."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PORT = 31337
SECONDS_TO_STOP = 20


class DemoError(Exception):
    """An answer differs from what was acknowledged, or a child process did not do its part."""


class Writer:
    """The process that writes `orders`; `demo_writer.py` says what it obeys.

    Args:
        root: The directory that holds `orders.lance`.
        log: The file that receives its stderr.
    """

    def __init__(self, root: Path, log: Path) -> None:
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("demo_writer.py"), root],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def read(self) -> dict[str, Any]:
        """Wait for the next answer; the first one comes unasked, once a first burst is written."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise DemoError(f"the writer ended with exit code {self.process.wait()}; see {self.log}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def tell(self, command: str) -> dict[str, Any]:
        """Send a command, wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.read()

    @contextmanager
    def paused(self) -> Iterator[dict[str, Any]]:
        """Hold all writes, so that two readers can be asked about one moment; yields the ledger's summary."""
        yield self.tell("pause")
        self.tell("resume")

    def close(self) -> None:
        """End its input, which ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await_end(self.process, "writer")


class Gateway:
    """A server over `root`, ready when the constructor returns; `uri` is where it listens.

    Args:
        root: The directory of tables to serve.
        log: The file that receives its stderr.
    """

    def __init__(self, root: Path, log: Path) -> None:
        program = Path(sys.executable).with_name("lance-gateway")
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [program, "serve", "--root", root, "--port", str(free_port())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        first_line = self.process.stdout.readline()
        found = re.search(r"grpc://\S+:\d+", first_line)
        if found is None:
            self.close()
            raise DemoError(f"the gateway did not start; it said {first_line!r}, see {log}")
        self.uri = found.group()

    def close(self) -> None:
        """Ask the server to drain and stop."""
        self.process.terminate()
        await_end(self.process, "gateway")


def await_end(process: "subprocess.Popen[str]", name: str) -> None:
    """Wait for a child that was told to end; kill it when it stays."""
    try:
        process.wait(timeout=SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        message = f"the {name} (process {process.pid}) did not end within {SECONDS_TO_STOP} s"
        raise DemoError(message) from None


def free_port() -> int:
    """Return the usual port, or 0 (any) when something else listens there."""
    with socket.socket() as probe:
        return 0 if probe.connect_ex(("127.0.0.1", PORT)) == 0 else PORT
