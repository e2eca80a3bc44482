"""What `/metrics` shows after calls and statements of real clients."""

import gzip
import urllib.request
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyarrow import flight

from lance_gateway.gateway.protocol.errors import find_status, to_client_error
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.tables.shared.files import SharedFiles
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.observability.conftest import Watch, Watched
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess


def test_calls_are_counted_by_method_and_status(watched: Watched, client: flight.FlightClient) -> None:
    rpc.query(client, "SELECT 1 AS one")
    with pytest.raises(pa.ArrowInvalid, match="bracket"):
        rpc.query(client, "SELECT ) FROM orders")
    with pytest.raises(KeyError):
        rpc.query(client, "SELECT * FROM missing")
    assert watched.sample("rpcs_total", method="GetFlightInfo", status="OK") == 1
    assert watched.sample("rpcs_total", method="GetFlightInfo", status="INVALID_ARGUMENT") == 1
    assert watched.sample("rpcs_total", method="GetFlightInfo", status="NOT_FOUND") == 1
    assert watched.sample("rpc_duration_seconds_count", method="GetFlightInfo") == 3


def test_statements_are_counted_with_what_they_sent(watched: Watched, client: flight.FlightClient) -> None:
    rpc.query(client, "SELECT id FROM orders")
    reader = rpc.stream(client, sql.CommandStatementQuery(query="SELECT 1 / (id - id) FROM orders"))
    with pytest.raises(pa.ArrowInvalid, match="zero"):
        reader.read_all()
    samples = watched.samples()

    def of(name: str, **labels: str) -> float:
        return samples[f"lance_gateway_{name}", frozenset(labels.items())]

    assert of("queries_total", state="finished") == 1
    assert of("queries_total", state="failed") == 1
    assert of("queries_total", state="cancelled") == 0
    assert of("sent_rows_total") == 1000
    assert of("sent_bytes_total") == 8000
    assert of("query_duration_seconds_count") == 2
    assert of("query_first_batch_seconds_count") == 1
    assert of("queries_running") == of("queries_queued") == 0


@pytest.mark.slow
def test_searches_are_counted_by_kind(watch: Watch, root: Path) -> None:
    vectors = pa.array([[1.0, 0.0], [0.0, 1.0]], pa.list_(pa.float32(), 2))
    rows = pa.table({"id": [1, 2], "vec": vectors, "body": ["a fox", "a hen"]})
    lance.write_dataset(rows, root / "items.lance").create_scalar_index("body", "INVERTED")
    watched = watch(root)
    with flight.FlightClient(watched.uri) as client:
        rpc.query(client, "SELECT items.id FROM lance_vector_search('items', 'vec', [1, 0]) AS s, items")
        rpc.query(client, "SELECT id FROM items ORDER BY l2_distance(vec, [1, 0]) LIMIT 1")
        for _ in range(3):
            rpc.query(client, "SELECT id FROM lance_fts('items', 'body', 'fox')")
        rpc.query(client, "SELECT id FROM lance_hybrid_search('items', 'vec', [1, 0], 'body', 'fox')")
    for kind, count in (("vector", 2), ("text", 3), ("hybrid", 1)):
        assert watched.sample("searches_total", kind=kind) == count


@pytest.mark.parametrize("status", ["RESOURCE_EXHAUSTED", "DATA_LOSS", "FAILED_PRECONDITION", "UNAVAILABLE"])
def test_every_refusal_is_counted_under_its_own_status(status: str) -> None:
    """Whatever pyarrow makes of it: an alert on INTERNAL is for failures of the gateway itself."""
    kind = type("Refusal", (LanceGatewayError,), {"status": status})
    assert find_status(to_client_error(kind("no"), "DoGet")) == status


def test_a_statement_that_runs_is_seen(watched: Watched, client: flight.FlightClient) -> None:
    endless = "SELECT value FROM generate_series(1, 100000000000)"
    reader = rpc.stream(client, sql.CommandStatementQuery(query=endless))
    reader.read_chunk()
    assert watched.sample("queries_running") == 1
    reader.cancel()


def test_files_of_all_processes_are_told(watched: Watched, tmp_path: Path) -> None:
    assert watched.sample("cache_max_bytes", cache="shared") == 0
    files = SharedFiles(tmp_path / "shared", 1 << 20)
    watched.observability.catalog.shared.files = files
    files.put(bytes(24), pa.record_batch({"v": [1]}))
    other = SharedFiles(tmp_path / "shared", 1 << 20)  # as another process opens it
    for name in (bytes(24), bytes(24), b"x" * 24):
        other.get(name)
    other.report_lookups()
    assert watched.sample("cache_max_bytes", cache="shared") == 1 << 20
    assert watched.sample("cache_bytes", cache="shared") == 4096
    assert watched.sample("cache_lookups_total", cache="shared", result="hit") == 2
    assert watched.sample("cache_lookups_total", cache="shared", result="miss") == 1


def test_caches_sessions_and_the_process_are_told(watched: Watched, client: flight.FlightClient) -> None:
    rpc.query(client, "SELECT sum(amount) FROM orders")
    prepared = rpc.prepare(client, "SELECT id FROM orders WHERE id = $1")
    assert prepared.prepared_statement_handle
    samples = watched.samples()
    names = {name for name, _ in samples}
    assert {"process_resident_memory_bytes", "process_open_fds", "python_info"} <= names
    assert samples["lance_gateway_cache_max_bytes", frozenset({("cache", "rows")})] == 256 << 20
    assert samples["lance_gateway_cache_bytes", frozenset({("cache", "lance")})] > 0
    assert samples["lance_gateway_prepared_statements", frozenset()] == 1
    assert samples["lance_gateway_sessions", frozenset()] == 0
    assert not [name for name in names if name.endswith("_created")]


@pytest.mark.slow
def test_tables_tell_how_fresh_they_were_read(watch: Watch, root: Path, writers: WriterProcess) -> None:
    rows = pa.table([[1, 2], [1, 2]], schema=pa.schema([key_field("id", pa.int64()), ("v", pa.int64())]))
    table = LsmTable.create(root, "t", rows, bucketed("id", 2, recorded=True), writers)
    table.put([{"id": number, "v": 3} for number in range(8)])
    table.close_writers()
    table.put([{"id": 1, "v": 4}])
    watched = watch(root)
    with flight.FlightClient(watched.uri) as client:
        rpc.query(client, "SELECT sum(v) FROM t")
        rpc.query(client, "SELECT v FROM t WHERE id = 1 AND v > 0")
    samples = watched.samples()

    def of(name: str, **labels: str) -> float:
        return samples[f"lance_gateway_{name}", frozenset(labels.items())]

    assert of("regions_total", verdict="kept") + of("regions_total", verdict="pruned") == 4
    assert of("table_version", table="t") == lance.dataset(table.path).version
    assert of("table_unflushed_rows", table="t") == 1
    assert 0 <= of("table_snapshot_age_seconds", table="t") < 600


def test_the_scraper_chooses_format_and_compression(watched: Watched) -> None:
    assert watched.observability.http is not None
    request = urllib.request.Request(
        f"http://127.0.0.1:{watched.observability.http.port}/metrics",
        headers={
            "Accept": "application/openmetrics-text; version=1.0.0",
            "Accept-Encoding": "gzip",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert gzip.decompress(answer.read()).decode().endswith("# EOF\n")


def test_every_metric_says_what_it_means(watched: Watched) -> None:
    families = list(text_string_to_metric_families(watched.get("/metrics")[1]))
    ours = [family for family in families if family.name.startswith("lance_gateway")]
    assert len(ours) >= 15
    assert all(family.documentation.endswith(".") for family in ours)
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    for family in ours:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "OK"),
        (flight.FlightUnauthenticatedError("x"), "UNAUTHENTICATED"),
        (flight.FlightTimedOutError("x"), "DEADLINE_EXCEEDED"),
        (pa.ArrowKeyError("x"), "NOT_FOUND"),
        (RuntimeError("x"), "UNKNOWN"),
    ],
)
def test_errors_have_the_name_of_their_status(error: Exception | None, status: str) -> None:
    assert find_status(error) == status
