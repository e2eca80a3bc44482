"""`lance-gateway` in processes that start at once: forked from one that has loaded what it loads."""

import ctypes
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn, Self, TextIO

import lance_gateway.gateway.start.run_server  # noqa: F401 - takes most of the time
from lance_gateway.gateway.cli import main
from lance_gateway.gateway.execution.workers.channel import Channel, ChannelClosedError
from lance_gateway.gateway.execution.workers.template import Child, Template

_PATIENCE_SECONDS = 120
_PR_SET_PDEATHSIG = 1


class CommandProcess:
    """A process of `lance-gateway`, to be handled as one of `subprocess`.

    Attributes:
        pid: of the process.
        stdout: what it writes.
        stderr: what it writes to the log.
        returncode: None before its end has been waited for.

    Args:
        arguments: of the command.
        environment: variables; those of this process if None.
    """

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        options = (list(arguments), dict(environment or os.environ), str(Path.cwd()))
        child, readers = _start(options) or _start(options) or _refuse()
        self.pid = child.pid
        self.stdout, self.stderr = readers
        self.returncode: int | None = None
        self._child = child
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        self._waiter.start()

    def _wait(self) -> None:
        self.returncode = self._child.wait()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._child.kill()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code.

        Raises:
            TimeoutExpired: the process has not ended within so many seconds.
        """
        self._waiter.join(timeout)
        if self.returncode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("lance-gateway", timeout)
        return self.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()


def run_command(
    *arguments: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `lance-gateway` to its end."""
    with CommandProcess(arguments, environment) as process, ThreadPoolExecutor(1) as reader:
        errors = reader.submit(process.stderr.read)
        output = process.stdout.read()
        code = process.wait(_PATIENCE_SECONDS)
        return subprocess.CompletedProcess(arguments, code, output, errors.result())


def _start(options: object) -> tuple[Child, list[TextIO]] | None:
    """Start a process, and return it with what it writes; None if its connection broke before it began.

    That happens once in some ten thousand starts where tests run side by side.
    """
    pipes = [os.pipe(), os.pipe()]
    ours, theirs = socket.socketpair()
    with ours, theirs:
        child = _start_template().start(None, theirs)
        channel = Channel(ours)
        try:
            channel.send(options, *(writing for _, writing in pipes))
            theirs.close()
            channel.receive()
        except ChannelClosedError:
            child.kill()
            child.wait()
            for reading, _ in pipes:
                os.close(reading)
            return None
        finally:
            for _, writing in pipes:
                os.close(writing)
    return child, [os.fdopen(reading) for reading, _ in pipes]


def _refuse() -> NoReturn:
    raise RuntimeError("two processes in a row have lost their connection before they began")


@functools.cache
def _start_template() -> Template:
    # gRPC reads it when the library is loaded; `serve` sets it, too.
    return Template.spawn(run_program, {**os.environ, "GRPC_VERBOSITY": "NONE"})


def run_program(_: None, control: socket.socket) -> NoReturn:
    """Be `lance-gateway` with the arguments, variables and pipes that come over a channel."""
    # The template ends with the tests, however these end.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = Channel(control)
    arguments, environment, folder = channel.receive()
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    for number in (1, 2):
        descriptor = channel.take_descriptor()
        os.dup2(descriptor, number)
        os.close(descriptor)
    channel.send(None)
    channel.close()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["lance-gateway", *arguments]
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else code is not None)
