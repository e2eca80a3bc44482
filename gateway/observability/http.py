"""The HTTP port: metrics for Prometheus, and health for orchestrators and load balancers.

- `/metrics`: in the format that the scraper asks for
- `/livez`: 200 while the process serves at all
- `/readyz`: 200 while it should be sent queries, else 503; either with the reasons
- `/healthz`: the same in the words of gRPC's health protocol, as JSON
"""

import gzip
import json
import logging
import socket
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from memwal.errors import LanceGatewayError, UnavailableError
from memwal.storage.files import Storage

# Probes come every few seconds from several sides; storage is asked at most this often.
_KEPT_SECONDS = 1.0
_LISTING_SECONDS = 5.0


class Readiness:
    """Readiness: from the start of the gateway to its draining, while the root can be listed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._state: str | None = "the gateway is starting"
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._listing: Future[str | None] | None = None
        self._known: tuple[float, str | None] | None = None

    def start(self) -> None:
        """Become ready for queries."""
        self._state = None

    def drain(self) -> None:
        """Become unready: clients should send new queries elsewhere."""
        self._state = "the gateway is stopping"

    def close(self) -> None:
        """Stop checking the root."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def list_reasons(self) -> list[str]:
        """Return why the gateway is not ready; an empty list if it is."""
        return [reason for reason in (self._state, self._check_listing()) if reason is not None]

    def _check_listing(self) -> str | None:
        with self._lock:
            if self._known is not None and time.monotonic() - self._known[0] < _KEPT_SECONDS:
                return self._known[1]
            # A listing that hangs is waited for again, not repeated.
            if self._listing is None:
                self._listing = self._executor.submit(self._list)
            try:
                answer = self._listing.result(_LISTING_SECONDS)
            except TimeoutError:
                return f"{self._storage.uri} was not listed within {_LISTING_SECONDS:g} s"
            self._listing = None
            self._known = (time.monotonic(), answer)
            return answer

    def _list(self) -> str | None:
        try:
            if self._storage.list() or self._storage.exists("")[0]:
                return None
        except (LanceGatewayError, OSError) as error:
            return f"{self._storage.uri} can't be listed: {error}"
        return f"{self._storage.uri} does not exist"


logger = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
# A client that sends half a request and waits.
_PATIENCE_SECONDS = 10.0
# How soon `close` is noticed.
_STOP_SECONDS = 0.1


class HttpServer:
    """Serves metrics and health from threads of its own until it is closed.

    Args:
        registry: what `/metrics` shows.
        readiness: what `/readyz` says.
        host: address to listen on.
        port: port to listen on; 0 takes any free one, which `port` then tells.

    Raises:
        UnavailableError: the address can't be listened on.
    """

    def __init__(self, registry: CollectorRegistry, readiness: Readiness, host: str, port: int) -> None:
        handler = type("Handler", (_Handler,), {"registry": registry, "readiness": readiness})
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        server = type("Server", (_Server,), {"address_family": family})
        try:
            self._server: ThreadingHTTPServer = server((host, port), handler)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {host}:{port} for metrics and health: {error.strerror or error}; choose "
                "another --http-port (0 takes any free one, off goes without) or --http-host"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_STOP_SECONDS,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        logger.debug("a request for metrics or health broke off: %s", sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[CollectorRegistry]
    readiness: ClassVar[Readiness]
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE_SECONDS

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                self._send_metrics()
            case "/livez":
                self._send(HTTPStatus.OK, _TEXT, b"ok\n")
            case "/readyz":
                reasons = self.readiness.list_reasons()
                text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
                self._send(_choose_status(reasons), _TEXT, text.encode())
            case "/healthz":
                reasons = self.readiness.list_reasons()
                health = {"status": "NOT_SERVING" if reasons else "SERVING", "reasons": reasons}
                self._send(_choose_status(reasons), "application/json", json.dumps(health).encode())
            case _:
                body = b"there are /metrics, /livez, /readyz and /healthz\n"
                self._send(HTTPStatus.NOT_FOUND, _TEXT, body)

    do_HEAD = do_GET  # noqa: N815 - as above

    def version_string(self) -> str:
        return "lance-gateway"

    def _send_metrics(self) -> None:
        encode, content_type = choose_encoder(self.headers.get("accept", ""))
        body = encode(self.registry)
        zipped = "gzip" in self.headers.get("accept-encoding", "")
        if zipped:
            body = gzip.compress(body, compresslevel=3)
        self._send(HTTPStatus.OK, content_type, body, zipped=zipped)

    def _send(self, status: HTTPStatus, content_type: str, body: bytes, *, zipped: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if zipped:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        logger.debug(format, *args)


def _choose_status(reasons: list[str]) -> HTTPStatus:
    return HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
