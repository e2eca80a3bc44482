"""OpenTelemetry spans: one per call, statement plan, execution, exec node and write, sent to a collector.

This module is imported only where a collector is configured; without one nothing is paid.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lance_gateway.execnodes import MeasuredNode, MetricsSet
from lance_gateway.gateway.auth.calls import RpcObserver
from lance_gateway.gateway.execution.query import Query, QueryState, current_statement
from lance_gateway.gateway.execution.running_queries import QueryObserver
from lance_gateway.gateway.observability.statements import shorten_session_id, shorten_statement
from lance_gateway.memwal.writing.observing import WriteObserver
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.plan_cache import StatementKey
from lance_gateway.planner.plans.query_planner import CreateQuery, CreateUnbound
from lance_gateway.planner.tables.state.catalog import Catalog

_SERVICE = "lance-gateway"
_RPC_SERVICE = "arrow.flight.protocol.FlightService"
_W3C = TraceContextTextMapPropagator()
_EXPORT_SECONDS = 3.0
_HEADERS = ("traceparent", "tracestate")


class Tracing(QueryObserver, RpcObserver, WriteObserver):
    """Observes calls, statements and writers, and exports spans.

    Args:
        endpoint: of an OTLP/HTTP collector, without `/v1/traces`.
        sample_ratio: share of traces that are kept; a client's decision in `traceparent` goes first.
    """

    def __init__(self, endpoint: str, sample_ratio: float) -> None:
        resource = Resource.create({"service.name": _SERVICE, "service.version": version(_SERVICE)})
        self._provider = TracerProvider(
            resource=resource, sampler=ParentBased(TraceIdRatioBased(sample_ratio)), shutdown_on_exit=False
        )
        # A collector that is gone holds up the end of the process for so long.
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer(_SERVICE, version(_SERVICE))
        # By thread: see gateway.observability.statements.
        self._calls: dict[int, Span] = {}
        self._executions: dict[str, Span] = {}

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()

    def on_call(self, method: str, headers: Mapping[str, Sequence[str]]) -> None:
        """Begin the span of a call, below the client's span where its headers name one."""
        carrier = {name: headers[name][0] for name in _HEADERS if headers.get(name)}
        self._calls[threading.get_ident()] = self._tracer.start_span(
            method,
            _W3C.extract(carrier) if carrier else otel_context.Context(),
            SpanKind.SERVER,
            {"rpc.system": "grpc", "rpc.service": _RPC_SERVICE, "rpc.method": method},
        )

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:  # noqa: ARG002
        """End the span of a call."""
        span = self._calls.pop(threading.get_ident(), None)
        if span is None:
            return
        span.set_attribute("rpc.grpc.status", status)
        if status != "OK":
            span.set_status(Status(StatusCode.ERROR, status))
        span.end()

    def trace_planning(self, statement: str, plan: Callable[[], PreparedQuery]) -> PreparedQuery:
        """Return what `plan` returns, in a span of its own."""
        attributes = {"db.query.text": shorten_statement(statement)}
        span = self._tracer.start_span("plan", self._find_parent(), attributes=attributes)
        try:
            return plan()
        except Exception as error:
            span.set_status(Status(StatusCode.ERROR, str(error)))
            raise
        finally:
            span.end()

    def on_started(self, query: Query) -> None:
        """Begin the span of an execution; measure its nodes if the span is sampled."""
        span = self._tracer.start_span(
            "execute", self._find_parent(), start_time=_to_nanoseconds(query.created_at)
        )
        if not span.is_recording():
            return
        span.set_attributes(
            {
                "db.system.name": _SERVICE,
                "db.query.text": shorten_statement(query.sql),
                "lance_gateway.query_id": query.id,
                "user.name": query.user,
                "client.address": query.peer,
            }
        )
        session = shorten_session_id(query.session_id)
        if session is not None:
            span.set_attribute("session.id", session)
        span.add_event("started", timestamp=_to_nanoseconds(query.started_at))
        if query.control.metrics is None:
            query.control.metrics = MetricsSet()
        self._executions[query.id] = span

    def on_finished(self, query: Query) -> None:
        """End the span of an execution, with one span below it for each of its nodes."""
        span = self._executions.pop(query.id, None)
        if span is None:
            return
        reads = query.reads
        span.set_attributes(
            {
                "lance_gateway.state": query.state.value,
                "lance_gateway.rows": query.rows,
                "lance_gateway.bytes": query.bytes,
                "lance_gateway.tables": [read.table for read in reads],
                "lance_gateway.regions_kept": sum(read.regions_kept for read in reads),
                "lance_gateway.regions_pruned": sum(read.regions - read.regions_kept for read in reads),
            }
        )
        if query.target is not None:
            span.set_attribute("lance_gateway.target", query.target)
        if query.affected is not None:
            span.set_attribute("lance_gateway.rows_affected", query.affected)
        if query.first_batch_at is not None:
            span.add_event("first batch", timestamp=_to_nanoseconds(query.first_batch_at))
        if query.state is not QueryState.FINISHED:
            span.set_status(Status(StatusCode.ERROR, query.error or query.state.value))
        metrics = query.control.metrics
        if metrics is not None:
            for scan in query.scans:
                measured = scan.measure(metrics)
                if measured is not None:
                    self._record_node(measured, span, _to_nanoseconds(query.started_at))
        span.end(_to_nanoseconds(query.finished_at))

    def on_group(
        self, table: str, region_id: str, requests: int, rows: int, nbytes: int, seconds: float
    ) -> None:
        """Record a span for a group of requests, which are one log entry."""
        self._record_span("write", seconds, table, region_id, requests=requests, rows=rows, bytes=nbytes)

    def on_claim(self, table: str, region_id: str, epoch: int, seconds: float) -> None:
        """Record a span for a claim, which includes the wait for the owner."""
        self._record_span("claim", seconds, table, region_id, epoch=epoch)

    def on_fenced(self, table: str, region_id: str, epoch: int) -> None:
        """Record a span of no duration for a region that was lost."""
        self._record_span("fenced", 0.0, table, region_id, epoch=epoch)

    def on_forward(self, table: str, region_id: str, url: str, rows: int, seconds: float) -> None:
        """Record a span for rows that the owner of a region wrote."""
        self._record_span("forward", seconds, table, region_id, rows=rows, url=url)

    def _record_span(
        self, name: str, seconds: float, table: str, region_id: str, **attributes: str | int
    ) -> None:
        """Record a span that ends now, below the statement that this thread serves, if any."""
        query = current_statement()
        execution = None if query is None else self._executions.get(query.id)
        parent = self._find_parent() if execution is None else trace.set_span_in_context(execution)
        end = time.time_ns()
        span = self._tracer.start_span(name, parent, start_time=end - int(seconds * 1e9))
        named = {f"lance_gateway.{key}": value for key, value in attributes.items()}
        span.set_attributes({"lance_gateway.table": table, "lance_gateway.region": region_id, **named})
        span.end(end)

    def _record_node(self, node: MeasuredNode, parent: Span, start: int | None) -> None:
        """Record one span per node: the time of the node and its inputs, over all partitions."""
        if start is None:
            return
        metrics = node.metrics
        context = trace.set_span_in_context(parent, otel_context.Context())
        span = self._tracer.start_span(node.name, context, start_time=start)
        span.set_attributes(
            {
                "lance_gateway.node": node.description,
                "lance_gateway.output_rows": metrics.output_rows,
                "lance_gateway.output_batches": metrics.output_batches,
                "lance_gateway.elapsed_compute_ms": node.elapsed_compute * 1000,
                **{f"lance_gateway.{name}": count for name, count in metrics.counters.items()},
            }
        )
        for child in node.inputs:
            self._record_node(child, span, start)
        span.end(start + int(metrics.elapsed * 1e9))

    def _find_parent(self) -> otel_context.Context:
        query = current_statement()
        span = self._calls.get(threading.get_ident() if query is None else query.call_thread)
        empty = otel_context.Context()
        return empty if span is None else trace.set_span_in_context(span, empty)


class TracedEngine(QueryEngine):
    """An engine that traces planning; a plan from the cache has no span.

    Args:
        tracing: records the spans.
        catalog: tables and views.
        partitions: of every scan, by default one per core.
        memory_bytes: what one statement may use before it spills to disk; None for no limit.
        create_query: plans queries; by default in this process.
        create_unbound: binds and plans long statements; None binds all of them in this process.
    """

    def __init__(
        self,
        tracing: Tracing,
        catalog: Catalog,
        *,
        partitions: int | None = None,
        memory_bytes: int | None = None,
        create_query: CreateQuery = PreparedQuery,
        create_unbound: CreateUnbound | None = None,
    ) -> None:
        super().__init__(
            catalog,
            partitions=partitions,
            memory_bytes=memory_bytes,
            create_query=create_query,
            create_unbound=create_unbound,
        )
        self._tracing = tracing

    def _prepare_and_keep(self, key: StatementKey, promised: bytes | None) -> PreparedQuery:
        planned = super()._prepare_and_keep
        return self._tracing.trace_planning(key.statement, lambda: planned(key, promised))


def _to_nanoseconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1e9)
