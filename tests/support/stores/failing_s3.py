"""An S3 server whose requests fail on command."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import pyarrow.fs

Fate: TypeAlias = Literal["refused", "throttled", "answer lost"] | None
"""A request fails before it is done, perhaps as the server is too busy, or its answer does not arrive."""


class FailingS3:
    """Moto behind a gate.

    Attributes:
        options: Storage options that lead to the server, with few retries.
        requests: Method and path of each request since the last `arm`.
    """

    def __init__(self, port: int, application: Any) -> None:
        self._application = application
        self._fate: Callable[[int, str, str], Fate] = lambda *_: None
        self._lock = threading.Lock()
        self.requests: list[tuple[str, str]] = []
        self.options = {
            "aws_endpoint": f"http://127.0.0.1:{port}",
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
            "aws_region": "us-east-1",
            "allow_http": "true",
        }

    def arm(self, fate: Callable[[int, str, str], Fate]) -> None:
        """Ask `fate` of the number (from 0), method and path of each request from now on."""
        with self._lock:
            self.requests = []
            self._fate = fate

    def disarm(self) -> None:
        self._fate = lambda *_: None

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        with self._lock:
            fate = self._fate(len(self.requests), method, path)
            self.requests.append((method, path))
        if fate == "refused":
            return _send_failure(start_response)
        if fate == "throttled":
            return _send_failure(start_response, "503 Slow Down", "SlowDown")
        if fate == "answer lost":
            list(self._application(environ, lambda *_: None))
            return _send_failure(start_response)
        return self._application(environ, start_response)  # type: ignore[no-any-return]


def _send_failure(
    start_response: Callable[..., Any],
    status: str = "500 Internal Server Error",
    code: str = "InternalError",
) -> Iterable[bytes]:
    body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()
    start_response(status, [("Content-Length", str(len(body)))])
    return [body]


@contextmanager
def failing_s3(bucket: str) -> Iterator[FailingS3]:
    """Return a server with one bucket."""
    from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415 - takes a second
    from werkzeug.serving import make_server  # noqa: PLC0415

    gate = FailingS3(0, DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, gate, threaded=True)
    gate.options["aws_endpoint"] = f"http://127.0.0.1:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    pyarrow.fs.S3FileSystem(
        access_key="testing",
        secret_key="testing",
        region="us-east-1",
        endpoint_override=f"127.0.0.1:{server.server_port}",
        scheme="http",
        allow_bucket_creation=True,
    ).create_dir(bucket)
    try:
        yield gate
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
