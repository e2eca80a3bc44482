"""Prometheus metrics of a keeper and its tables, and their HTTP server."""

import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    make_wsgi_app,
)

from lance_gateway.memwal.errors import LanceGatewayError, UnavailableError
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.keeping.keeper import StepResult
from lance_gateway.pipeline.status.reading import TableStatus, read_status
from lance_gateway.pipeline.status.shown import StatusCollector

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
            self._server = make_server(host, port, _build_app(registry), _Server, _Handler)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {host}:{port} for metrics and health: {error.strerror or error}; choose "
                "another --http-port (0 takes any free one)"
            ) from error
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


def _build_app(registry: CollectorRegistry) -> Callable[..., Iterable[bytes]]:
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


_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)


class KeeperMetrics:
    """Observes a keeper."""

    def __init__(self) -> None:
        # When a series began is of no use to Prometheus, and doubles what it stores.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._steps = Counter(
            "lance_pipeline_steps",
            "Steps that have ended, by what became of them: done, idle or failed.",
            ("table", "step", "outcome"),
            registry=self.registry,
        )
        self._step_seconds = Histogram(
            "lance_pipeline_step_duration_seconds",
            "Duration of steps.",
            ("step",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._work = Counter(
            "lance_pipeline_work",
            "What steps did, such as generations that were merged.",
            ("table", "step", "what"),
            registry=self.registry,
        )
        self._failures = Gauge(
            "lance_pipeline_table_failures",
            "Looks at a table in a row that have failed.",
            ("table",),
            registry=self.registry,
        )
        self._kept_at = Gauge(
            "lance_pipeline_table_kept_timestamp_seconds",
            "When a table was looked at last and was as it should be, or was made so.",
            ("table",),
            registry=self.registry,
        )
        self._round_seconds = Histogram(
            "lance_pipeline_round_duration_seconds",
            "Duration of looks at all tables.",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def on_step(self, table: str, step: str, done: StepResult | None, seconds: float) -> None:
        """Counts it."""
        outcome = "failed" if done is None else "done" if done.what else "idle"
        self._steps.labels(table, step, outcome).inc()
        self._step_seconds.labels(step).observe(seconds)
        for what, count in ((done and done.counts) or {}).items():
            self._work.labels(table, step, what).inc(count)

    def on_table(self, table: str, failures: int) -> None:
        """Notes how it is."""
        self._failures.labels(table).set(failures)
        if not failures:
            self._kept_at.labels(table).set_to_current_time()

    def on_gone(self, table: str) -> None:
        """Forgets it."""
        for metric in (self._steps, self._work, self._failures, self._kept_at):
            metric.remove_by_labels({"table": table})

    def on_round(self, seconds: float) -> None:
        """Counts it."""
        self._round_seconds.observe(seconds)

    def watch(self, tables: Callable[[], Iterable[LakeTable]], fresh_seconds: float) -> None:
        """Tell how tables are, too.

        Args:
            tables: gives those that are kept.
            fresh_seconds: how long what was found is told again.
        """
        self.registry.register(StatusCollector(_Statuses(tables, fresh_seconds)))


class _Statuses:
    """Reads statuses when they are asked for, but not too often."""

    def __init__(self, tables: Callable[[], Iterable[LakeTable]], fresh_seconds: float) -> None:
        self._tables = tables
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._known: list[TableStatus] = []

    def __call__(self) -> Iterable[TableStatus]:
        with self._lock:
            if self._read_at is None or time.monotonic() - self._read_at >= self._fresh_seconds:
                self._known = list(self._read())
                self._read_at = time.monotonic()
            return self._known

    def _read(self) -> Iterable[TableStatus]:
        for table in self._tables():
            try:
                yield read_status(table)
            except LanceGatewayError:  # The keeper meets and tells it, too.
                continue
