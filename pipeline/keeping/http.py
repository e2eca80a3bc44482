"""Metrics and health of a keeper: /metrics and /livez."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from memwal.errors import UnavailableError

_STOP_SECONDS = 0.1


class HttpServer:
    """Serves from threads of its own until it is closed.

    Args:
        registry: what /metrics shows.
        host: address to listen on.
        port: port to listen on; 0 takes any free one, which `port` then tells.

    Raises:
        UnavailableError: the address can't be listened on.
    """

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        try:
            self._server = make_server(host, port, _app(registry), _Server, _Handler)
        except OSError as error:
            msg = (
                f"cannot listen on {host}:{port} for metrics and health: {error.strerror or error}; choose "
                "another --http-port (0 takes any free one)"
            )
            raise UnavailableError(msg) from error
        self.port: int = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_SECONDS,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Scrapes are no news."""


def _app(registry: CollectorRegistry) -> Callable[..., Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start)
            return found
        status, body = "404 Not Found", b"there are /metrics and /livez\n"
        if path == "/livez":
            status, body = "200 OK", b"ok\n"
        start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [body]

    return answer
