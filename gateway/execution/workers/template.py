"""The process that workers are forked from, so that a worker starts at once and shares its memory.

It is itself forked from the server, before that starts threads: all processes load the libraries once. Lance
warns of forks, since its threads do not survive them; nothing has called it by then, so there are none.
"""

import gc
import logging
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, Self, TypeAlias

from lance_gateway.gateway.execution.workers.channel import Channel, ChannelClosedError
from lance_gateway.memwal.errors import UnavailableError

logger = logging.getLogger(__name__)

Run: TypeAlias = Callable[[Any, socket.socket], object]
"""What a process does with its options and its end of a connection; a function of a module, which ends it."""

_NUMBER = struct.Struct("<q")
_WAKEUPS = 4096


class Child:
    """A process that was forked from a template.

    Attributes:
        pid: of the process.

    Args:
        pid: of the process.
        status: socket on which the template sends the exit code of the process.
    """

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self._status = status
        # What has ended leaves its id to others.
        self._lock = threading.Lock()
        self._has_ended = False

    def kill(self) -> None:
        """End the process at once, unless it has ended."""
        with self._lock:
            if not self._has_ended:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code; a signal that ended it is negative."""
        code = _read_number(self._status)
        with self._lock:
            self._has_ended = True
        self._status.close()
        return code or 0


class Template:
    """Forks processes from one that has the libraries and no threads; safe to share between threads.

    The process ends with this one. If it ends before, another one is started, which takes seconds.

    Args:
        connected: to a process that runs `serve_template`.
        run: what its processes do.
        reap: waits for the end of that process.
    """

    def __init__(self, connected: socket.socket, run: Run, reap: Callable[[], object]) -> None:
        self._channel = Channel(connected)
        self._run = run
        self._reap = reap
        self._lock = threading.Lock()

    @classmethod
    def fork(cls, run: Run) -> Self:
        """Fork a template from this process, which must not have started threads yet."""
        # A collection of garbage looks at all objects, and these stay: 0.2 ms of each new statement, and
        # pages that processes would otherwise share.
        gc.freeze()
        ours, theirs = socket.socketpair()
        pid = _fork()
        if not pid:
            ours.close()
            serve_template(theirs, run)
        theirs.close()
        return cls(ours, run, lambda: os.waitpid(pid, 0))

    @classmethod
    def spawn(cls, run: Run, environment: Mapping[str, str] | None = None) -> Self:
        """Start a template as a new program, which takes seconds.

        Args:
            run: what its processes do.
            environment: variables of the program; those of this process if None.
        """
        connected, process = _spawn(run, environment)
        return cls(connected, run, process.wait)

    def start(self, options: object, control: socket.socket) -> Child:
        """Start a process.

        Args:
            options: for it.
            control: its end of a connection.

        Raises:
            UnavailableError: the template has ended, and another one as well.
        """
        with self._lock:
            child = self._start(options, control)
            if child is None:
                logger.warning("the process that starts others has ended: starting another one")
                self._reap()
                connected, process = _spawn(self._run)
                self._channel, self._reap = Channel(connected), process.wait
                child = self._start(options, control)
        if child is None:
            raise UnavailableError("no process can be started: the one that starts others ends at once")
        return child

    def _start(self, options: object, control: socket.socket) -> Child | None:
        ours, theirs = socket.socketpair()
        with theirs, suppress(ChannelClosedError):
            self._channel.send(options, control.fileno(), theirs.fileno())
        pid = _read_number(ours)
        return None if pid is None else Child(pid, ours)


def _spawn(
    run: Run, environment: Mapping[str, str] | None = None
) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """Start a process that runs `serve_template`; return a connection to it."""
    ours, theirs = socket.socketpair()
    program = (
        f"import socket; from {__name__} import serve_template; from {run.__module__} import {run.__name__}; "
        f"serve_template(socket.socket(fileno={theirs.fileno()}), {run.__name__})"
    )
    with theirs:
        command = [sys.executable, "-c", program]
        return ours, subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)  # noqa: S603 - our own


def _read_number(status: socket.socket) -> int | None:
    """Receive a process id or an exit code from the template; None if the template has ended."""
    data = status.recv(_NUMBER.size)
    return int(_NUMBER.unpack(data)[0]) if data else None


def serve_template(connected: socket.socket, run: Run) -> NoReturn:
    """Fork processes on request, and report their exit codes, until the connection is closed; then exit.

    Args:
        connected: to a `Template`.
        run: what the processes do; takes what they were started with, and ends the process.
    """
    # The server decides when its processes end; Ctrl-C in a terminal reaches all of them.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    channel = Channel(connected)
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    poll.register(woken, select.POLLIN)
    statuses: dict[int, socket.socket] = {}
    try:
        while True:
            poll.poll()
            with suppress(BlockingIOError):
                os.read(woken, _WAKEUPS)
            _report_exits(statuses)
            while channel.is_ready(0):
                options = channel.receive()
                control, status = (socket.socket(fileno=channel.take_descriptor()) for _ in range(2))
                pid = _fork()
                if not pid:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for one in (connected, status, *statuses.values()):
                        one.close()
                    os.close(woken)
                    os.close(waking)
                    run(options, control)
                control.close()
                statuses[pid] = status
                status.send(_NUMBER.pack(pid))
    except ChannelClosedError:
        pass
    except Exception:
        logger.exception("no process can be started any more")
    finally:
        os._exit(0)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        return os.fork()


def _report_exits(statuses: dict[int, socket.socket]) -> None:
    """Send the exit codes of the processes that have ended."""
    while statuses:
        pid, ended = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with statuses.pop(pid) as status, suppress(OSError):
            status.send(_NUMBER.pack(os.waitstatus_to_exitcode(ended)))
