"""The process of a job: what it says, and its end."""

import json
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

_MAX_REPORT_BYTES: Final = 1 << 20
_MAX_LINES: Final = 50
_MAX_LINE_BYTES: Final = 2_000
_READ_BYTES: Final = 1 << 16
GRACE_SECONDS: Final = 10.0
"""How long a process may take to end in order: it can't be interrupted amid a call of Lance."""


class Child:
    """A process with a session of its own, whose output is kept to a bound.

    Args:
        arguments: of its command line.
        environment: all of its variables.
        shared: numbers of open files that it has, too.

    Raises:
        OSError: it can't be started.
    """

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], shared: Sequence[int] = ()
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the gateway's own command line
            arguments,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=shared,
        )
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)
        self._output = bytearray()
        self._is_complete = True
        streams = ((self._keep_output, self._process.stdout), (self._keep_lines, self._process.stderr))
        self._readers = [
            threading.Thread(target=keep, args=(stream,), name="job", daemon=True) for keep, stream in streams
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines that it wrote on stderr."""
        return tuple(self._lines)

    def read_report(self) -> dict[str, Any] | None:
        """Return the JSON object that it wrote on stdout; None where it wrote none, or more than is kept."""
        with suppress(ValueError):
            report = json.loads(self._output) if self._is_complete else None
            return report if isinstance(report, dict) else None
        return None

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code of the process and its output complete; None if it goes on after a while."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join()
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def stop(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """End the process and what it started: in order if it does so in time, and by force otherwise."""
        self._signal(signal.SIGINT)
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        # Once it was waited for, another process may have its number.
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _keep_output(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := stream.read(_READ_BYTES):
                self._is_complete = len(self._output) + len(chunk) <= _MAX_REPORT_BYTES
                if not self._is_complete:
                    self._output.clear()
                    break
                self._output += chunk
            while stream.read(_READ_BYTES):
                pass

    def _keep_lines(self, stream: IO[bytes]) -> None:
        with stream:
            # What is longer than a line may be comes in several.
            while line := stream.readline(_MAX_LINE_BYTES):
                self._lines.append(line.decode(errors="replace").rstrip())
