"""Runs statements in a process that is begun again when one has ended it."""

import json
import select
import subprocess
import sys
from collections import deque
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

_WORKER = "tests.fuzz.functions.worker"
_START_SECONDS = 60.0
_ROOT = Path(__file__).parents[3]


class Runner:
    """A worker process and its successors.

    Args:
        kind: `plain` DataFusion, or the gateway's `engine`.
        memory: bytes of address space.
        seconds: that one statement may take.
    """

    def __init__(self, kind: str, memory: int = 8 << 30, seconds: float = 10.0) -> None:
        self._command = [sys.executable, "-m", _WORKER, kind, str(memory)]
        self._seconds = seconds
        self._child: subprocess.Popen[str] | None = None
        self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the runner
        self.deaths: deque[str] = deque(maxlen=100)

    def run(self, sql: str, *options: object) -> tuple[str, str]:
        """Return what became of a statement: see the worker, or `hang`, or `died of ...`."""
        child = self._child or self._start()
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps([sql, *options]) + "\n")
            child.stdin.flush()
            line = self._read_line(child, self._seconds)
        except BrokenPipeError:
            line = ""
        if line:
            outcome, text = json.loads(line)
            return outcome, text
        self._child = None
        hangs = line is None
        child.kill()
        status = child.wait()
        self._close_pipes(child)
        text = self._read_errors()
        return ("hang", text) if hangs else (f"died of {-status if status < 0 else status}", text)

    def _start(self) -> "subprocess.Popen[str]":
        self._errors.seek(0)
        self._errors.truncate()
        child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=_ROOT,
            bufsize=1,
        )
        line = self._read_line(child, _START_SECONDS)
        if line != "ready\n":
            raise RuntimeError(f"the worker did not start: {line!r} {self._read_errors()}")
        self._child = child
        return child

    @staticmethod
    def _read_line(child: "subprocess.Popen[str]", seconds: float) -> str | None:
        """Return the next line, empty at the end; None if there is none within `seconds`."""
        assert child.stdout is not None
        ready, _, _ = select.select([child.stdout], [], [], seconds)
        return child.stdout.readline() if ready else None

    def _read_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]

    @staticmethod
    def _close_pipes(child: "subprocess.Popen[str]") -> None:
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._close_pipes(self._child)
        self._errors.close()
