"""The HTTP port: metrics for Prometheus, and health for orchestrators and load balancers.

- `/metrics`: in the format that the scraper asks for
- `/livez`: 200 while the process serves at all
- `/readyz`: 200 while it should be sent queries, else 503; either with the reasons
- `/healthz`: the same in the words of gRPC's health protocol, as JSON
- `/console/` and `/api/`: the console, where it is offered

The event loop of this port answers probes itself. Whatever may wait runs in threads of an executor of its
own, so that neither scrapers nor users of the console keep probes waiting.
"""

import asyncio
import gzip
import logging
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from http import HTTPStatus

import uvicorn
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from lance_gateway.gateway.observability.connections import BoundedConnection, Connections
from lance_gateway.gateway.observability.hosts import HostCheck, RequestCheck
from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.memwal.storage.files import Storage

# Probes come every few seconds from several sides; storage is asked at most this often.
_KEPT_SECONDS = 1.0
_LISTING_SECONDS = 5.0


class Readiness:
    """Readiness: from the start of the gateway to its draining, while the root can be listed.

    The reasons name neither the root nor what storage said: everybody may ask for them. The log has both.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._state: str | None = "the gateway is starting"
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

    async def list_reasons(self) -> list[str]:
        """Return why the gateway is not ready; an empty list if it is. For use on one event loop."""
        return [reason for reason in (self._state, await self._check_listing()) if reason is not None]

    async def _check_listing(self) -> str | None:
        if self._known is not None and time.monotonic() - self._known[0] < _KEPT_SECONDS:
            return self._known[1]
        # A listing that hangs is waited for again, not repeated.
        if self._listing is None:
            self._listing = self._executor.submit(self._list)
        listing = self._listing
        await asyncio.wait([asyncio.wrap_future(listing)], timeout=_LISTING_SECONDS)
        if not listing.done():
            return f"the root was not listed within {_LISTING_SECONDS:g} s"
        if self._listing is listing:
            self._listing = None
            self._known = (time.monotonic(), listing.result())
        return listing.result()

    def _list(self) -> str | None:
        try:
            if self._storage.list() or self._storage.exists("")[0]:
                return None
        except (LanceGatewayError, OSError) as error:
            logger.warning("not ready: %s can't be listed: %s", self._storage.uri, error)
            return "the root can't be listed"
        logger.warning("not ready: %s does not exist", self._storage.uri)
        return "the root does not exist"


logger = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
_UNCACHED = {"Cache-Control": "no-store"}
# Streams that are under way when the server closes are ended after so long.
_GRACE_SECONDS = 1
_BACKLOG = 128
_SCRAPING_THREADS = 2
PROBES = frozenset({"/livez", "/readyz", "/healthz"})
"""Paths that are answered even when the port has as many connections as it may."""


class HttpServer:
    """Serves metrics, health and what else it is given from a thread of its own until it is closed.

    Args:
        registry: what `/metrics` shows.
        readiness: what `/readyz` says.
        host: address to listen on.
        port: port to listen on; 0 takes any free one, which `port` then tells.
        max_connections: connections at a time. Some more are taken for probes.
        hosts: the names under which requests may come; None takes all of them.

    Raises:
        UnavailableError: the address can't be listened on.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        readiness: Readiness,
        host: str,
        port: int,
        *,
        max_connections: int = 512,
        hosts: HostCheck | None = None,
    ) -> None:
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._watching = _Watching(registry, readiness)
        self._app = Starlette(
            routes=self._watching.list_routes(), exception_handlers={HTTPStatus.NOT_FOUND: _refuse_path}
        )
        connections = Connections(max_connections)
        self._server = uvicorn.Server(
            uvicorn.Config(
                RequestCheck(self._app, connections, PROBES, hosts),
                http=partial(BoundedConnection, connections),  # type: ignore[arg-type]
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="http", daemon=True
        )
        self._thread.start()

    def offer(self, routes: Sequence[BaseRoute]) -> None:
        """Serve more paths."""
        self._app.router.routes.extend(routes)

    def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self._watching.close()


class _Watching:
    """The paths that scrapers and probes ask."""

    def __init__(self, registry: CollectorRegistry, readiness: Readiness) -> None:
        self._registry = registry
        self._readiness = readiness
        self._executor = ThreadPoolExecutor(_SCRAPING_THREADS, thread_name_prefix="metrics")

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def list_routes(self) -> list[BaseRoute]:
        return [
            Route("/metrics", self._send_metrics),
            Route("/livez", self._send_liveness),
            Route("/readyz", self._send_readiness),
            Route("/healthz", self._send_health),
        ]

    async def _send_metrics(self, request: Request) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._encode, request)

    def _encode(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        body, headers = encode(self._registry), dict(_UNCACHED)
        if "gzip" in request.headers.get("accept-encoding", ""):
            body = gzip.compress(body, compresslevel=3)
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers={**headers, "Content-Type": content_type})

    async def _send_liveness(self, request: Request) -> Response:  # noqa: ARG002 - every handler has one
        return Response(b"ok\n", headers=_UNCACHED, media_type=_TEXT)

    async def _send_readiness(self, request: Request) -> Response:  # noqa: ARG002 - as above
        reasons = await self._readiness.list_reasons()
        text = "".join(f"{reason}\n" for reason in reasons) or "ok\n"
        return Response(text, _choose_status(reasons), _UNCACHED, _TEXT)

    async def _send_health(self, request: Request) -> Response:  # noqa: ARG002 - as above
        reasons = await self._readiness.list_reasons()
        health = {"status": "NOT_SERVING" if reasons else "SERVING", "reasons": reasons}
        return JSONResponse(health, _choose_status(reasons), _UNCACHED)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UnavailableError(
            f"cannot listen on {host}:{port} for metrics and health: {error.strerror or error}; choose "
            "another --http-port (0 takes any free one, off goes without) or --http-host"
        ) from error


async def _refuse_path(request: Request, error: Exception) -> Response:  # noqa: ARG001 - as Starlette calls it
    body = b"there are /metrics, /livez, /readyz and /healthz; the console, if it is on, is at /console/\n"
    return Response(body, HTTPStatus.NOT_FOUND, _UNCACHED, _TEXT)


def _choose_status(reasons: list[str]) -> HTTPStatus:
    return HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
