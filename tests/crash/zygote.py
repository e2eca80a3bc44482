"""Gateways in children that are killed."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from tests.crash.load import Statement

DEADLINE_SECONDS = 60.0


class Zygote:
    """Starts children; see `zygote_main`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.zygote_main"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self, root: Path, *, clients: list[int], seed: int, number: int, **options: Any) -> "Child":
        """A child that writes as these clients, from that statement number on."""
        log = root / f"{seed}.log"
        os.mkfifo(log)
        told = {"clients": clients, "seed": seed, "number": number, "options": options}
        # Without waiting for the child, which opens its end later.
        reading = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
        pid = self.command(do="start", root=str(root), log=str(log), **told)
        return Child(self, pid, log, reading)

    def command(self, **command: Any) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Child:
    """A gateway with writers in a process of its own, and the pipe that it logs to."""

    def __init__(self, zygote: Zygote, pid: int, log: Path, reading: int) -> None:
        self._zygote = zygote
        self._log = log
        self._reading = reading
        self._logged = b""
        self.pid = pid

    def await_lines(self, count: int) -> None:
        """Return once the log has so many lines, or tells of a failure."""
        end = time.monotonic() + DEADLINE_SECONDS
        while self._logged.count(b"\n") < count and b'"failed"' not in self._logged:
            select.select([self._reading], [], [], max(end - time.monotonic(), 0))
            assert time.monotonic() < end, f"in {DEADLINE_SECONDS} s the child has logged {self._logged!r}"
            with contextlib.suppress(BlockingIOError):
                self._logged += os.read(self._reading, 1 << 16)

    def kill(self) -> None:
        """End it at once, as a power cut would; what it has logged can still be read."""
        os.kill(self.pid, signal.SIGKILL)
        self._zygote.command(do="wait", pid=self.pid)
        while read := os.read(self._reading, 1 << 16):
            self._logged += read
        os.close(self._reading)
        self._log.unlink()

    def sent(self) -> dict[int, list[Statement]]:
        """What each client sent, and what it was told; no error may come out."""
        sent: dict[int, dict[int, Statement]] = {}
        for client, kind, number, outcome in map(json.loads, self._logged.splitlines()):
            assert kind != "failed", f"client {client} failed: {outcome}"
            sent.setdefault(client, {})[number] = Statement(kind, number, outcome)
        return {client: list(statements.values()) for client, statements in sent.items()}
