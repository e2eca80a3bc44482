"""An S3 server in a process of its own, which can be stopped and continued."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self
from urllib.error import URLError

import pyarrow.fs

from tests.support.ports import find_free_port


class StoppableS3:
    """Moto's server; ended by its process id.

    Attributes:
        options: storage options that lead to the server.
    """

    def __init__(self, bucket: str) -> None:
        port = find_free_port()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.options = {
            "aws_endpoint": f"http://127.0.0.1:{port}",
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
            "aws_region": "us-east-1",
            "allow_http": "true",
        }
        self._await_start()
        pyarrow.fs.S3FileSystem(
            access_key="testing",
            secret_key="testing",
            region="us-east-1",
            endpoint_override=f"127.0.0.1:{port}",
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

    def _await_start(self) -> None:
        while self._child.poll() is None:
            try:
                with urllib.request.urlopen(self.options["aws_endpoint"]):
                    return
            except URLError:
                continue
        raise RuntimeError("the S3 server did not start")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.wait()
