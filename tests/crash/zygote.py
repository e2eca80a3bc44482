"""Gateways in children that are killed."""

import json
import os
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

    def start(
        self, root: Path, log: Path, clients: list[int], seed: int, number: int, **options: Any
    ) -> "Child":
        """A child that writes as so many clients from that statement number on."""
        pid = self.command(
            do="start",
            root=str(root),
            log=str(log),
            clients=clients,
            seed=seed,
            number=number,
            options=options,
        )
        return Child(self, pid, log)

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
    """A gateway with writers in a process of its own."""

    def __init__(self, zygote: Zygote, pid: int, log: Path) -> None:
        self._zygote = zygote
        self.pid = pid
        self.log = log

    def await_lines(self, count: int) -> None:
        """Return once the log has so many lines, or tells of a failure."""
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            logged = self.log.read_bytes() if self.log.exists() else b""
            if logged.count(b"\n") >= count or b'"failed"' in logged:
                return
            assert time.monotonic() < end, f"after {DEADLINE_SECONDS} s the child has logged {logged!r}"
            os.sched_yield()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)
        self._zygote.command(do="wait", pid=self.pid)

    def entries(self) -> list[list[Any]]:
        """The log: client, kind, number and outcome."""
        return list(map(json.loads, self.log.read_text().splitlines())) if self.log.exists() else []

    def sent(self) -> dict[int, list[Statement]]:
        """What each client sent, and what it was told; no error may come out."""
        sent: dict[int, dict[int, Statement]] = {}
        for client, kind, number, outcome in self.entries():
            assert kind != "failed", f"client {client} failed: {outcome}"
            sent.setdefault(client, {})[number] = Statement(kind, number, outcome)
        return {client: list(statements.values()) for client, statements in sent.items()}
