"""`lance-gateway serve`: start, drain and stop a server, and check whether it could start."""

import dataclasses
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

from lance_gateway.gateway.auth.calls import Security
from lance_gateway.gateway.auth.files import read_text
from lance_gateway.gateway.auth.policy import find_policy_conflicts, parse_policy
from lance_gateway.gateway.config.loader import Loaded, list_fields
from lance_gateway.gateway.config.schema import GatewayConfig, choose_http_port
from lance_gateway.gateway.execution.workers.pool import WorkerPool
from lance_gateway.gateway.execution.workers.remote_query import (
    RemoteQuery,
    bind_in_worker,
    read_write_in_worker,
)
from lance_gateway.gateway.execution.workers.serving import run_worker
from lance_gateway.gateway.execution.workers.template import Template
from lance_gateway.gateway.observability import statements
from lance_gateway.gateway.observability.gauges import WorkerCounts, WriteEvents
from lance_gateway.gateway.observability.system_tables import SystemSettings, SystemWorkers
from lance_gateway.gateway.peers.forwarding import ForwardedRows
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.gateway.start.observability import Observability
from lance_gateway.gateway.start.opening import Writing, open_catalog, open_security, open_writing
from lance_gateway.gateway.start.processes import Processes, SharedDirectory, plan_processes
from lance_gateway.gateway.start.tables_ahead import OpeningAhead
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnavailableError
from lance_gateway.planner.bridge import run_control
from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.tables.shared.cache import SharedCache
from lance_gateway.planner.tables.shared.directory import open_directory
from lance_gateway.planner.tables.state.catalog import Catalog


def allow_open_files() -> None:
    """Raise the soft limit of open files to the hard limit.

    The usual soft limit of 1,024 is one for programs that wait with `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


logger = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A signal may be handed to any thread of a busy process; its handler runs when the main thread wakes up.
_SIGNAL_SECONDS = 0.25
# How long cancelled streams may take to end.
_GRACE_SECONDS = 1.0
# How long storage may take over rows that were acknowledged without waiting for it, and over its last flush.
_SETTLE_SECONDS = 10.0
# How long the line that names the address may wait for tables that are opened ahead: calls need not wait.
_AHEAD_SECONDS = 0.5


def serve(loaded: Loaded) -> None:
    """Serve until SIGINT or SIGTERM, then end the process.

    The first line on stdout names the address, once it accepts connections. The first signal ends the
    readiness, refuses new connections after `server.stop_delay`, and lets running streams finish for
    `server.drain`; then they fail with UNAVAILABLE. Rows that were acknowledged without waiting for storage
    are written then, and regions flushed for `writes.flush_timeout`. A second signal ends the process at
    once. Must be called from the main thread.

    Raises:
        LanceGatewayError: there is no such root, the address is taken, or
            others could reach it without authentication.
    """
    config = loaded.config
    statements.configure(config.observability.log_format, config.observability.log_level)
    allow_open_files()
    plan = plan_processes(config)
    template = None if plan.worker is None else Template.fork(run_worker)
    security = open_security(config.tls, config.auth, host=config.server.host)
    events = WriteEvents()
    writing = open_writing(config, events)
    with ExitStack() as stack:
        stack.callback(writing.close)
        shared = SharedCache.open(plan.shared.directory, plan.shared.nbytes, is_required=plan.shared.is_named)
        catalog = open_catalog(config, writing.options, plan.cache_bytes, shared)
        stack.callback(catalog.close)
        observability = Observability(
            config.observability,
            catalog,
            config.server.port,
            events,
            is_open=security.authenticator is None,
        )
        stack.callback(observability.close)
        pool = None
        if template is not None and plan.worker is not None:
            pool = WorkerPool(template, plan.workers, plan.worker)
            stack.callback(pool.close)
            run_control.set_runner(pool.call)
        ahead = None
        if config.cache.open_ahead:
            ahead = OpeningAhead(catalog, pool, config.server.partitions or None)
            stack.callback(ahead.close)
        server = _start(loaded, security, observability, writing, plan, pool, ahead)
        stop = _stop_on_signals()
        if ahead is not None:
            ahead.wait(_AHEAD_SECONDS)
        gc.freeze()  # what is there now stays: a collection of garbage need not look at it
        _announce(config, server.port, is_encrypted=bool(security.tls))
        while not stop.wait(_SIGNAL_SECONDS):
            pass
        observability.readiness.drain()
        _await_balancers(config.server.stop_delay)
        has_ended = _drain(server, config.server.drain)
        has_closed = _close(catalog, config.writes.flush_timeout)
        if has_ended and has_closed:
            logger.info("stopped")
        else:
            # A client that does not read, or storage that does not answer, cannot be waited for any longer.
            logger.warning("leaving without %d streams", len(server.queries.list_active()))
        if ahead is not None:
            ahead.close()
        if pool is not None:
            pool.close()
        observability.close()
        logging.shutdown()
        # What was told to stop may be in the midst of Python still, in threads of DataFusion: an interpreter
        # that shuts down beneath them aborts the process.
        os._exit(0)


def _announce(config: GatewayConfig, port: int, *, is_encrypted: bool) -> None:
    """Write where the gateway serves, which calls may do now."""
    scheme = "grpc+tls" if is_encrypted else "grpc"
    host = f"[{config.server.host}]" if ":" in config.server.host else config.server.host
    uri = f"{scheme}://{host}:{port}"
    sys.stdout.write(f"Lance Gateway {version('lance-gateway')} serves {config.root} at {uri}\n")
    sys.stdout.flush()


def find_listening_problem(host: str, port: int) -> str | None:
    """Return why an address cannot be listened on; None if it can."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As servers do: connections of a server before this one may linger.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror
    return None


def _start(
    loaded: Loaded,
    security: Security,
    observability: Observability,
    writing: Writing,
    plan: Processes,
    pool: WorkerPool | None,
    ahead: OpeningAhead | None,
) -> GatewayServer:
    config = loaded.config
    forwarded = None
    if writing.token is not None:
        security = dataclasses.replace(
            security, is_valid_pass=partial(writing.token.is_valid_pass, url=config.writes.advertise_url)
        )
        forwarded = ForwardedRows(observability.catalog, config.writes.claim_timeout)
    create_query = PreparedQuery if pool is None else partial(RemoteQuery, pool)
    create_unbound = None if pool is None else partial(bind_in_worker, pool)
    engine = observability.create_engine(
        config.server.partitions or None, plan.query_memory_bytes, create_query, create_unbound
    )
    engine.add_system_tables(SystemSettings(loaded), SystemWorkers(pool))
    if pool is not None:
        engine.read_long_write = partial(read_write_in_worker, pool)
        observability.metrics.registry.register(WorkerCounts(pool))
    host, port = config.server.host, config.server.port
    try:
        server = GatewayServer(
            engine,
            host,
            port,
            security=security,
            limits=config.limits,
            query_history=config.observability.query_history,
            observers=[*observability.list_query_observers(), *([] if ahead is None else [ahead])],
            on_call_finished=observability.metrics.on_call_finished,
            rpc_observers=observability.map_rpc_observers(),
            forwarded=forwarded,
        )
    except pa.ArrowException as error:
        # gRPC only logs the reason.
        raise UnavailableError(
            f"cannot listen on {host}:{port}: {find_listening_problem(host, port) or error}; "
            "choose another --port (0 takes any free one) or --host"
        ) from error
    observability.offer_console(loaded, security, server)
    observability.watch(server)
    return server


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


def _await_balancers(seconds: float) -> None:
    """Go on for a while, so that whoever looks at the readiness sends new calls elsewhere."""
    if seconds:
        logger.info("not ready any more; new calls are refused in %g s", seconds)
        threading.Event().wait(seconds)


def _drain(server: GatewayServer, seconds: float) -> bool:
    """Refuse new calls, and return whether the running ones have ended."""
    logger.info("stopping; %d streams are running", len(server.queries.list_active()))
    # Refuses new calls at once and returns when the running ones have ended.
    shutdown = threading.Thread(target=server.shutdown, name="shutdown", daemon=True)
    shutdown.start()
    shutdown.join(seconds)
    if shutdown.is_alive():
        running = len(server.queries.list_active())
        logger.warning("%d streams are still running after %g s: ending them", running, seconds)
        server.queries.cancel_all(UnavailableError("the gateway is stopping; run the query again elsewhere"))
        shutdown.join(_GRACE_SECONDS)
    return not shutdown.is_alive()


def _close(catalog: Catalog, seconds: float) -> bool:
    """Write acknowledged rows, flush regions for up to `seconds`, and return whether that has ended."""

    def close() -> None:
        for name, regions in catalog.close(seconds).items():
            logger.warning(
                "%d regions of table %r were not flushed within %g s: their rows are safe in the log, from "
                "where the next owner goes on",
                len(regions),
                name,
                seconds,
            )

    closing = threading.Thread(target=close, name="close", daemon=True)
    closing.start()
    closing.join(seconds + _SETTLE_SECONDS)
    if closing.is_alive():
        logger.error(
            "storage does not answer: leaving; rows that were acknowledged as durable are in the log"
        )
    return not closing.is_alive()


def find_problems(loaded: Loaded) -> list[str]:
    """Return one sentence per problem of a configuration; an empty list if a gateway can start."""
    config = loaded.config
    problems = list(_find_missing_files(loaded))
    # Without its files nothing can be said of what is in them.
    checks: list[Callable[[], object]] = []
    if not problems:
        checks += [
            lambda: open_security(config.tls, config.auth, host=config.server.host),
            lambda: open_writing(config),
            lambda: _check_shared_directory(config),
            lambda: _check_root(config),
        ]
    for check in checks:
        try:
            check()
        except LanceGatewayError as error:
            problems.append(str(error))
    return [*problems, *_find_taken_ports(config)]


def _find_missing_files(loaded: Loaded) -> Iterator[str]:
    for key, _, model in list_fields():
        if model is GatewayConfig or not key.endswith("_file"):
            continue
        value: object = loaded.config
        for part in key.split("."):
            value = getattr(value, part)
        if isinstance(value, Path) and not value.is_file():
            yield f"{loaded.sources[key]}: {key} = {str(value)!r}: there is no such file"


def _check_shared_directory(config: GatewayConfig) -> None:
    shared = SharedDirectory.choose(config)
    if shared.is_named and shared.directory is not None and shared.directory.exists():
        os.close(open_directory(shared.directory))


def _check_root(config: GatewayConfig) -> None:
    catalog = open_catalog(config)
    try:
        catalog.names()
        if config.auth.policy_file is not None:
            text = read_text(config.auth.policy_file)
            policy = parse_policy(text, str(config.auth.policy_file))
            conflicts = find_policy_conflicts(policy, catalog)
            if conflicts:
                raise InvalidInputError("; ".join(conflicts))
    finally:
        catalog.close()


def _find_taken_ports(config: GatewayConfig) -> Iterator[str]:
    server, http = config.server, config.observability
    for key, host, port in (
        ("server.port", server.host, server.port),
        ("observability.http_port", http.http_host, choose_http_port(http, server.port)),
    ):
        reason = None if not port else find_listening_problem(host, port)
        if reason is not None:
            yield f"{key}: cannot listen on {host}:{port}: {reason}; choose another port"
