"""`lance-gateway serve`: from a root directory to a server that stops when it is told to."""

import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version

import pyarrow as pa

from gateway.server import GatewayServer
from memwal.errors import InvalidInputError, UnavailableError
from planner import compatibility
from planner.catalog import Catalog
from planner.engine import QueryEngine

logger = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# How long streams that were told to end may take to do so.
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What to serve, and where.

    Args:
        root: directory (or `s3://bucket/prefix`) that holds `<name>.lance` tables.
        host: address to listen on.
        port: port to listen on; 0 takes any free one.
        storage_options: what the object store needs, as Lance names it.
        drain_seconds: how long running streams may go on after a signal to stop.
    """

    root: str
    host: str = "127.0.0.1"
    port: int = 31337
    storage_options: Mapping[str, str] = field(default_factory=dict)
    drain_seconds: float = 30.0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise InvalidInputError(
                f"port {self.port} does not exist: choose one up to 65535, or 0 for any free one"
            )
        if self.drain_seconds < 0:
            raise InvalidInputError(
                f"drain time {self.drain_seconds} s is negative: choose 0 to stop at once"
            )


def serve(options: ServeOptions) -> None:
    """Serves until SIGINT or SIGTERM.

    The first line on stdout names the address, once it accepts connections. The first signal refuses new
    connections and lets running streams finish for `drain_seconds`; then they fail with UNAVAILABLE. A second
    signal ends the process at once. Must be called from the main thread.

    Raises:
        LanceGatewayError: the installed versions do not fit, there is no such root, or the address is taken.
    """
    compatibility.check()
    if not _is_loopback(options.host):
        logger.warning(
            "listening on %s, which other machines may reach, without authentication", options.host
        )
    engine = QueryEngine(Catalog.open(options.root, options.storage_options))
    try:
        server = _listen(engine, options)
        stop = _stop_on_signals()
        address = f"[{options.host}]" if ":" in options.host else options.host
        uri = f"grpc://{address}:{server.port}"
        sys.stdout.write(f"Lance Gateway {version('lance-gateway')} serves {options.root} at {uri}\n")
        sys.stdout.flush()
        stop.wait()
        _drain(server, options.drain_seconds)
    finally:
        engine.close()


def _listen(engine: QueryEngine, options: ServeOptions) -> GatewayServer:
    try:
        return GatewayServer(engine, options.host, options.port)
    except pa.ArrowException as error:
        raise UnavailableError(
            f"cannot listen on {options.host}:{options.port}: "
            f"{_reason(options.host, options.port) or error}; "
            "choose another --port (0 takes any free one) or --host"
        ) from error


def _reason(host: str, port: int) -> str | None:
    """Asks the operating system why an address cannot be listened on; gRPC only logs it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        return error.strerror
    return None


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def handle(number: int, _frame: types.FrameType | None) -> None:
        if stop.is_set():
            logger.warning("second signal: stopping at once")
            os._exit(128 + number)
        stop.set()

    for number in _STOP_SIGNALS:
        signal.signal(number, handle)
    return stop


def _drain(server: GatewayServer, seconds: float) -> None:
    logger.info("stopping; %d streams are running", server.streams.running)
    # Refuses new calls at once and returns when the running ones have ended.
    shutdown = threading.Thread(target=server.shutdown, name="shutdown", daemon=True)
    shutdown.start()
    shutdown.join(seconds)
    if shutdown.is_alive():
        logger.warning(
            "%d streams are still running after %g s: ending them", server.streams.running, seconds
        )
        server.streams.end()
        shutdown.join(_GRACE_SECONDS)
    if shutdown.is_alive():
        # A client that does not read, or a query that computes, cannot be waited for any longer.
        logger.warning("leaving without %d streams", server.streams.running)
        logging.shutdown()
        os._exit(0)
    logger.info("stopped")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
