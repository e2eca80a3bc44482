"""What metrics and traces tell of workers."""

import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_manager
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.observability.test_tracing import Collector, attributes
from tests.support.processes.servers import GatewayProcess, open_connection

DEADLY = "SELECT lpad('a', n) FROM (VALUES (9223372036854775807)) AS t(n)"
LARGE = "SELECT max(repeat(value::TEXT, 10000000 + value)) FROM generate_series(1, 90)"


@pytest.fixture
def collector() -> Iterator[Collector]:
    started = Collector()
    yield started
    started.close()


def fetch(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def read_worker_counts(server: GatewayProcess) -> dict[str, float]:
    """The counts of workers by reason, replacements included."""
    found = re.search(r"http://127\.0\.0\.1:\d+", server.log)
    assert found is not None
    with urllib.request.urlopen(f"{found[0]}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [one for family in families for one in family.samples]
    counts = [one for one in samples if "gateway_worker_" in one.name and one.name.endswith("_total")]
    return {one.labels.get("reason", "replaced"): one.value for one in counts}


@pytest.mark.slow
def test_workers_that_ended_are_counted_by_reason(lake: Path) -> None:
    server = GatewayProcess(
        lake,
        *("--set", "server.workers=1"),
        *("--set", "limits.worker_memory_bytes=1GiB"),
        *("--set", "observability.http_port=0"),
    )
    with server, open_connection(server.uri) as connection, connection.cursor() as cursor:
        ready = "SELECT pid FROM system.workers WHERE state = 'ready'"
        assert fetch(cursor, "SELECT count(*) FROM orders") == [(1000,)]
        assert set(read_worker_counts(server).values()) == {0}
        ((pid,),) = fetch(cursor, ready)
        os.kill(pid, signal.SIGKILL)
        while fetch(cursor, ready) in ([], [(pid,)]):
            pass
        for statement in (DEADLY, LARGE):
            with pytest.raises(adbc_driver_manager.Error, match="has ended the process"):
                fetch(cursor, statement)
        assert fetch(cursor, "SELECT count(*) FROM orders") == [(1000,)]
        counts = read_worker_counts(server)
    assert counts.pop("replaced") == 3
    assert counts.pop("hang") == 0
    assert counts["killed"] == 1
    # The operating system may be faster than the front process, which then sees a crash.
    assert counts["memory"] + counts["crash"] == 2


@pytest.mark.slow
def test_the_nodes_of_a_statement_in_a_worker_have_spans(lake: Path, collector: Collector) -> None:
    endpoint = f"observability.otlp_endpoint={collector.endpoint}"
    with (
        GatewayProcess(lake, "--set", "server.workers=1", "--set", endpoint) as server,
        open_connection(server.uri) as connection,
        connection.cursor() as cursor,
    ):
        assert len(fetch(cursor, "SELECT id FROM orders WHERE amount > 1 ORDER BY id")) == 897
    executed, node = collector.named("execute"), collector.named("LanceScanExec")
    assert node.parent_span_id == executed.span_id
    assert attributes(executed)["lance_gateway.tables"] == ["orders"]
    assert attributes(node)["lance_gateway.output_rows"] == 897
    assert str(attributes(node)["lance_gateway.node"]).startswith("LanceScanExec")
    assert node.start_time_unix_nano < node.end_time_unix_nano
