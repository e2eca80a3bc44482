"""S3 servers in processes of their own, which can be stopped and continued, or ended and started again."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.error import HTTPError, URLError

import pyarrow.fs

from tests.support.processes.ports import find_free_port
from tests.support.processes.programs import find_or_build

_USER, _PASSWORD = "testing", "testing-password"
_VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


class ObjectStore:
    """A server with one bucket; ended by its process id.

    Args:
        bucket: name of the bucket.
        address: that the command listens at: host and port.
        command: that serves.
        variables: of the environment of the command.

    Attributes:
        options: storage options that lead to the server.
    """

    def __init__(
        self, bucket: str, address: str, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> None:
        self._command = command
        self._environment = {**os.environ, **(variables or {})}
        self.options = {
            "aws_endpoint": f"http://{address}",
            "aws_access_key_id": _USER,
            "aws_secret_access_key": _PASSWORD,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        self._start()
        pyarrow.fs.S3FileSystem(
            access_key=_USER,
            secret_key=_PASSWORD,
            region="us-east-1",
            endpoint_override=address,
            scheme="http",
            allow_bucket_creation=True,
        ).create_dir(bucket)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let the server accept connections, and answer none of them, in this block."""
        os.kill(self._child.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._child.pid, signal.SIGCONT)

    @contextmanager
    def ended(self) -> Iterator[None]:
        """End the server at once, as a power cut would, and start it again after this block."""
        self._end()
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        self._child = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while self._child.poll() is None:
            try:
                with urllib.request.urlopen(self.options["aws_endpoint"]):
                    return
            except HTTPError:
                return  # It answers, if only that it wants to be told who asks.
            except URLError:
                continue
        raise RuntimeError(f"{self._command[0]} did not start")

    def _end(self) -> None:
        self._child.kill()
        self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()


def start_moto(bucket: str) -> ObjectStore:
    """Start moto, which keeps objects in memory: they are gone with its process."""
    port = find_free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return ObjectStore(bucket, f"127.0.0.1:{port}", command)


def start_versitygw(bucket: str, folder: Path) -> ObjectStore:
    """Start Versity's S3 gateway, which keeps objects as files of a folder; build it where it is missing."""
    program = find_or_build("versitygw", _VERSITYGW, folder / "programs")
    objects = folder / "objects"
    objects.mkdir()
    address = f"127.0.0.1:{find_free_port()}"
    variables = {"ROOT_ACCESS_KEY": _USER, "ROOT_SECRET_KEY": _PASSWORD}
    return ObjectStore(bucket, address, [program, "--port", address, "posix", str(objects)], variables)
