"""Spans, as a collector receives them over OTLP/HTTP."""

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import lance
import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.observability.conftest import Watch

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"


class Collector:
    """Receives what exporters send to /v1/traces."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.service = ""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    (collector.service,) = (
                        one.value.string_value
                        for one in resource.resource.attributes
                        if one.key == "service.name"
                    )
                    for scope in resource.scope_spans:
                        collector.spans += scope.spans
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def named(self, name: str) -> Span:
        (span,) = (one for one in self.spans if one.name == name)
        return span

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.close()


def attributes(span: Span) -> dict[str, object]:
    found: dict[str, object] = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        assert kind is not None
        value = getattr(one.value, kind)
        found[one.key] = [each.string_value for each in value.values] if kind == "array_value" else value
    return found


@pytest.mark.slow
def test_a_statement_is_a_tree_of_spans_below_that_of_its_client(
    watch: Watch, lake: Path, collector: Collector
) -> None:
    watched = watch(lake, otlp_endpoint=collector.endpoint)
    parent = f"00-{TRACE_ID}-{PARENT_ID}-01".encode()
    options = flight.FlightCallOptions(headers=[(b"traceparent", parent)])
    with flight.FlightClient(watched.uri) as client:
        command = rpc.descriptor(
            sql.CommandStatementQuery(query="SELECT id, amount\nFROM orders WHERE amount > 1 ORDER BY id")
        )
        info = client.get_flight_info(command, options)
        client.do_get(info.endpoints[0].ticket, options).read_all()
    watched.server.shutdown()
    watched.observability.close()
    assert collector.service == "lance-gateway"
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE_ID}
    planned, fetched, executed = (collector.named(name) for name in ("GetFlightInfo", "DoGet", "execute"))
    assert planned.parent_span_id.hex() == fetched.parent_span_id.hex() == PARENT_ID
    assert executed.parent_span_id == fetched.span_id
    plans = [span for span in collector.spans if span.name == "plan"]
    assert planned.span_id in {span.parent_span_id for span in plans}
    told = attributes(executed)
    assert told["db.query.text"] == "SELECT id, amount FROM orders WHERE amount > 1 ORDER BY id"
    assert told["user.name"] == "anonymous"
    assert len(str(told["lance_gateway.query_id"])) == 32
    assert told["lance_gateway.tables"] == ["orders"]
    assert told["lance_gateway.rows"] == 897
    assert (told["lance_gateway.regions_kept"], told["lance_gateway.regions_pruned"]) == (0, 0)
    node = collector.named("LanceScanExec")
    assert node.parent_span_id == executed.span_id
    assert attributes(node)["lance_gateway.output_rows"] == 897
    assert node.start_time_unix_nano <= node.end_time_unix_nano


def test_a_statement_is_planned_once_however_often_it_is_prepared(
    watch: Watch, lake: Path, collector: Collector
) -> None:
    watched = watch(lake, otlp_endpoint=collector.endpoint)
    with flight.FlightClient(watched.uri) as client:
        for _ in range(2):
            rpc.prepare(client, "SELECT id FROM orders WHERE id = ?")
    watched.server.shutdown()
    watched.observability.close()
    plan = collector.named("plan")
    assert attributes(plan)["db.query.text"] == "SELECT id FROM orders WHERE id = ?"
    assert plan.parent_span_id in {span.span_id for span in collector.spans if span.name == "DoAction"}


def test_a_search_is_a_tree_of_spans_too(watch: Watch, root: Path, collector: Collector) -> None:
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0]], pa.list_(pa.float32(), 2))
    rows = pa.table({"id": [1, 2], "vec": vectors, "body": ["a fox", "a hen"]})
    lance.write_dataset(rows, root / "items.lance").create_scalar_index("body", "INVERTED")
    watched = watch(root, otlp_endpoint=collector.endpoint)
    with flight.FlightClient(watched.uri) as client:
        rpc.query(client, "SELECT id FROM lance_hybrid_search('items', 'vec', [1, 0], 'body', 'fox')")
    watched.server.shutdown()
    watched.observability.close()
    names = {span.span_id: span.name for span in collector.spans}
    ancestors = {span.name: names.get(span.parent_span_id) for span in collector.spans}
    assert ancestors["KnnExec"] == "KnnUnionExec"
    assert ancestors["FtsExec"] == "UnionExec"
    assert ancestors["TakeRowsExec"] == "execute"
    fused = attributes(collector.named("HybridExec"))
    assert fused["lance_gateway.node"] == "HybridExec: weighted, alpha=0.5"
    assert (fused["lance_gateway.output_rows"], fused["lance_gateway.found_by_both"]) == (2, 1)


def test_failures_are_marked(watch: Watch, lake: Path, collector: Collector) -> None:
    watched = watch(lake, otlp_endpoint=f"{collector.endpoint}/")
    with flight.FlightClient(watched.uri) as client:
        with pytest.raises(KeyError):
            rpc.query(client, "SELECT * FROM missing")
        with pytest.raises(Exception, match="zero"):
            rpc.query(client, "SELECT 1 / (id - id) FROM orders")
    watched.server.shutdown()
    watched.observability.close()
    failed = [span for span in collector.spans if span.status.code == 2]
    assert {span.name for span in failed} == {"GetFlightInfo", "plan", "execute", "DoGet"}
    assert "missing" in next(span for span in failed if span.name == "plan").status.message
    assert "zero" in next(span for span in failed if span.name == "execute").status.message


def test_what_is_not_sampled_is_not_sent(watch: Watch, lake: Path, collector: Collector) -> None:
    watched = watch(lake, otlp_endpoint=collector.endpoint, otlp_sample_ratio=0.0)
    with flight.FlightClient(watched.uri) as client:
        rpc.query(client, "SELECT id FROM orders")
    watched.server.shutdown()
    watched.observability.close()
    assert collector.spans == []


@pytest.mark.slow
def test_a_collector_that_is_gone_keeps_no_statement_from_running(watch: Watch, lake: Path) -> None:
    gone = Collector()
    gone.close()
    watched = watch(lake, otlp_endpoint=gone.endpoint)
    with flight.FlightClient(watched.uri) as client:
        assert rpc.query(client, "SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 1000}]


@pytest.mark.slow
def test_without_a_collector_nothing_is_loaded() -> None:
    script = (
        "import sys, lance_gateway.gateway.start.run_server, lance_gateway.gateway.start.observability;"
        "print(sorted(one for one in sys.modules if one.startswith('opentelemetry')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout == "[]\n"


@pytest.mark.slow
def test_a_call_of_a_method_that_is_not_offered_is_told_so(
    watch: Watch, lake: Path, collector: Collector
) -> None:
    """ADBC polls where results are wanted bit by bit; to pyarrow that is a method without a name."""
    watched = watch(lake, otlp_endpoint=collector.endpoint)
    with (
        flightsql.connect(watched.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
        with pytest.raises(adbc_driver_manager.NotSupportedError) as caught:
            cursor.adbc_execute_partitions("SELECT 1")
    assert "Traceback" not in str(caught.value)
