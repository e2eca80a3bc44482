"""What an operator sees of writes: metrics, system tables, the audit log and spans."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import flight

from lance_gateway.gateway.observability import statements
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.observability.conftest import Watch, Watched
from tests.gateway.observability.test_tracing import Collector, attributes
from tests.gateway.peers.peer_gateways import TABLE, make_table
from tests.support.processes.gateways import EAGER


@pytest.fixture
def watched(watch: Watch, root: Path) -> Watched:
    """A gateway over an empty table of one region."""
    make_table(root)
    return watch(root)


@pytest.fixture
def client(watched: Watched) -> Iterator[flight.FlightClient]:
    with flight.FlightClient(watched.uri) as connected:
        yield connected


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.close()


@pytest.fixture
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


def insert(client: flight.FlightClient, *ids: int, text: str = "x") -> None:
    values = ", ".join(f"({number}, '{text}')" for number in ids)
    rpc.info(client, sql.CommandStatementQuery(query=f"INSERT INTO {TABLE} VALUES {values}"))


def claimed_by_another(root: Path) -> None:
    """Another gateway writes a row to the table."""
    engine = QueryEngine(Catalog.open(str(root), writing=EAGER))
    write = engine.prepare_statement(f"INSERT INTO {TABLE} VALUES (1000, 'elsewhere')")
    assert not isinstance(write, PreparedQuery)
    write.execute()
    engine.close()


@pytest.mark.slow
def test_rows_and_log_entries_are_counted(watched: Watched, client: flight.FlightClient) -> None:
    insert(client, 1, 2, 3)
    insert(client, 4)
    samples = watched.samples()

    def of(name: str) -> float:
        return samples[f"lance_gateway_{name}", frozenset({("table", TABLE)})]

    for name, expected in (
        ("written_rows_total", 4),
        ("write_groups_total", 2),
        ("write_requests_total", 2),
        ("write_group_duration_seconds_count", 2),
        ("write_group_size_sum", 2),
        ("region_claims_total", 1),
        ("region_claim_duration_seconds_count", 1),
        ("owned_regions", 1),
        ("unflushed_written_rows", 4),
        ("region_fences_total", 0),
        ("forwards_total", 0),
        ("writes_in_doubt_total", 0),
        ("lost_rows_total", 0),
        ("write_queue_bytes", 0),
        ("write_queue_requests", 0),
        ("flushes_total", 0),
    ):
        assert of(name) == expected, name
    assert of("written_bytes_total") > 0
    assert of("unflushed_written_bytes") > 0
    assert watched.sample("affected_rows_total") == 4


@pytest.mark.slow
def test_a_region_that_is_lost_and_claimed_back_is_told(
    watched: Watched, client: flight.FlightClient, root: Path
) -> None:
    insert(client, 1)
    claimed_by_another(root)
    insert(client, 2)
    assert watched.sample("region_fences_total", table=TABLE) == 1
    assert watched.sample("region_claims_total", table=TABLE) == 2


def test_who_owns_regions_does_not_matter_to_readiness(
    watched: Watched, client: flight.FlightClient, root: Path
) -> None:
    insert(client, 1)
    claimed_by_another(root)
    assert watched.get("/readyz") == (200, "ok\n")


def test_a_gateway_that_wrote_nothing_lists_no_writers(watched: Watched, client: flight.FlightClient) -> None:
    assert rpc.query(client, "SELECT * FROM system.writers").num_rows == 0
    assert watched.sample("owned_regions", table=TABLE) == 0


@pytest.mark.slow
def test_writers_are_listed(client: flight.FlightClient) -> None:
    insert(client, 1, 2)
    insert(client, 3)
    (row,) = rpc.query(client, "SELECT * FROM system.writers").to_pylist()
    assert row["since"] is not None
    assert row["bytes"] > 0
    assert {name: row[name] for name in ("table_name", "owned", "epoch", "owner_url", "rows", "groups")} == {
        "table_name": TABLE,
        "owned": True,
        "epoch": 1,
        "owner_url": None,
        "rows": 3,
        "groups": 2,
    }
    assert (row["wal_position"], row["unflushed_rows"], row["fenced"]) == (2, 3, 0)
    regions = rpc.query(client, "SELECT region_id FROM system.writers JOIN system.regions USING (region_id)")
    assert regions.num_rows == 1


def test_statements_tell_how_many_rows_they_changed(client: flight.FlightClient) -> None:
    insert(client, 1, 2)
    rpc.query(client, f"SELECT * FROM {TABLE}")
    found = rpc.query(client, "SELECT rows_affected, state FROM system.queries WHERE state = 'finished'")
    assert found.to_pylist() == [
        {"rows_affected": 2, "state": "finished"},
        {"rows_affected": None, "state": "finished"},
    ]


@pytest.mark.usefixtures("_restored_logging")
def test_each_write_is_one_line_without_its_values(
    watch: Watch, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_table(root)
    statements.configure("json", "INFO")
    watched = watch(root, log_queries="none")
    with flight.FlightClient(watched.uri) as client:
        insert(client, 1, 2, text="swordfish")
        rpc.query(client, f"SELECT * FROM {TABLE}")
        with pytest.raises(Exception, match="swordfish"):
            rpc.query(client, f"INSERT INTO {TABLE} SELECT CAST('swordfish' AS BIGINT), text FROM {TABLE}")
        transaction = rpc.begin(client)
        deletion = f"DELETE FROM {TABLE} WHERE text = 'swordfish'"
        rpc.put(client, sql.CommandStatementUpdate(query=deletion, transaction_id=transaction))
        rpc.end(client, transaction, rpc.COMMIT)
    watched.server.shutdown()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    audited = [line for line in lines if line["logger"] == "lance_gateway.audit"]
    assert [
        (line["user"], line["table"], line.get("rows_affected"), line["state"], line["succeeded"])
        for line in audited
    ] == [
        ("anonymous", TABLE, 2, "finished", True),
        ("anonymous", TABLE, None, "failed", False),
        ("anonymous", TABLE, 2, "finished", True),
        ("anonymous", TABLE, None, "finished", True),
    ]
    assert [line["in_transaction"] for line in audited] == [False, False, True, False]
    assert all(len(line["query_id"]) == 32 and line["peer"] for line in audited)
    assert "swordfish" not in json.dumps(audited)


def test_claims_and_log_entries_have_spans(watch: Watch, root: Path, collector: Collector) -> None:
    make_table(root)
    watched = watch(root, otlp_endpoint=collector.endpoint)
    with flight.FlightClient(watched.uri) as client:
        insert(client, 1, 2)
    watched.observability.close()
    spans = {span.name: span for span in collector.spans}
    assert {"execute", "claim", "write"} <= set(spans)
    assert spans["write"].parent_span_id == spans["claim"].parent_span_id == spans["execute"].span_id
    assert attributes(spans["write"])["lance_gateway.rows"] == 2
    assert attributes(spans["claim"])["lance_gateway.epoch"] == 1
    told = attributes(spans["execute"])
    assert (told["lance_gateway.target"], told["lance_gateway.rows_affected"]) == (TABLE, 2)


@pytest.mark.slow
def test_of_a_table_that_was_dropped_no_metric_is_left(watch: Watch, root: Path) -> None:
    watched = watch(root)
    with flight.FlightClient(watched.uri) as client:
        for text in ("CREATE TABLE gone (id BIGINT PRIMARY KEY)", "INSERT INTO gone VALUES (1)"):
            rpc.info(client, sql.CommandStatementQuery(query=text))
        assert watched.sample("write_group_size_count", table="gone") == 1
        rpc.info(client, sql.CommandStatementQuery(query="DROP TABLE gone"))
    assert not [name for name, labels in watched.samples() if ("table", "gone") in labels]
