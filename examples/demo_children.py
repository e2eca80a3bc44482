"""The two child processes of the demo: the writer of `orders` and a real `lance-gateway serve`."""

import json
import re
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
    """The process that writes `orders`; `demo_writer.py` lists its commands.

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

    def send(self, command: str) -> dict[str, Any]:
        """Send a command, wait for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return self.read()

    @contextmanager
    def pause(self) -> Iterator[dict[str, Any]]:
        """Hold all writes, so that two readers can be asked about one moment; yields the ledger's summary."""
        yield self.send("pause")
        self.send("resume")

    def close(self) -> None:
        """End its input, which ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await_end(self.process, "writer")


class Gateway:
    """A server over `root`, ready when the constructor returns.

    `uri` is where it listens, and `console` the address of its pages; "" if it has none.

    It takes the usual port, or any free one when something else listens there.

    Args:
        root: The directory of tables to serve.
        log: The file that receives its stderr.
    """

    def __init__(self, root: Path, log: Path) -> None:
        for port in (PORT, 0):
            self.process = start_gateway(root, port, log)
            assert self.process.stdout is not None
            first_line = self.process.stdout.readline()
            found = re.search(r"grpc://\S+:\d+", first_line)
            if found is not None:
                self.uri = found.group()
                told = re.search(r"console at (\S+)", log.read_text())
                self.console = told[1] if told else ""
                return
            self.close()
        raise DemoError(f"the gateway did not start; see {log}")

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


def start_gateway(root: Path, port: int, log: Path) -> "subprocess.Popen[str]":
    """Start the console script that is installed beside this interpreter."""
    program = Path(sys.executable).with_name("lance-gateway")
    with log.open("w") as errors:
        return subprocess.Popen(
            [program, "serve", "--root", root, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )


def run_pipeline(root: Path, *command: str) -> str:
    """Run `lance-gateway pipeline ...` on a root; return what it says."""
    program = Path(sys.executable).with_name("lance-gateway")
    arguments = [program, "pipeline", *command, "--root", root]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"pipeline {' '.join(command)} ended with code {done.returncode}: {done.stderr}")
    return done.stdout.rstrip()
