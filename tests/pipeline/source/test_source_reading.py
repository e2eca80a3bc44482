"""Parts of one pinned snapshot, read by tasks that come late, come twice, or lose their gateway."""

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight
from pyspark.sql.datasource import EqualTo, GreaterThan
from pyspark.sql.types import StructType

from lance_gateway.gateway.execution.endpoints import ENDPOINT_SECONDS, Endpoints
from lance_gateway.gateway.server import GatewayServer
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError, UnavailableError
from lance_gateway.pipeline.source import direct
from lance_gateway.pipeline.source.client import Gateway, LanceGatewaySourceError
from lance_gateway.pipeline.source.options import Options
from lance_gateway.pipeline.source.reading import DirectParts, Parts, Whole
from tests.gateway.conftest import serving
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.sources import get_url, list_statements, open_source, plan_read
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int64())])


@pytest.fixture
def items(root: Path, writers: WriterProcess) -> Iterator[LsmTable]:
    """60 rows in a base, 20 in generations and log tails, of which 10 replace rows of the base; 5 deleted."""
    base = pa.table({"id": range(60), "n": [0] * 60}).cast(SCHEMA)
    table = LsmTable.create(
        root, "items", base, bucketed("id", 3, recorded=True), writers, max_memtable_rows=5
    )
    for one in range(50, 70, 2):
        table.put([{"id": one, "n": 1}, {"id": one + 1, "n": 1}])
    table.delete([{"id": one} for one in (0, 10, 20, 30, 69)])
    yield table
    table.close_writers()


EXPECTED = sorted(
    {**dict.fromkeys(range(60), 0), **dict.fromkeys(range(50, 70), 1)}.items()
    - dict.fromkeys((0, 10, 20, 30), 0).items()
    - {(69, 1)}
)


@pytest.fixture
def server(items: LsmTable) -> Iterator[GatewayServer]:
    with serving(items.path.parent) as started:
        yield started


def pairs(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


def write_on(items: LsmTable) -> None:
    """Upserts, deletes and merges, after a snapshot was pinned."""
    items.put([{"id": 1, "n": 5}, {"id": 100, "n": 5}])
    items.delete([{"id": 2}])
    for region in items.regions.values():
        flushed = manifests.read_manifest(items.path, region).flushed_generations
        merge_generations(items.path, region, flushed[-1].generation)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["gateway", "direct"])
@pytest.mark.parametrize("endpoints", ["1", "2", "5", "40"])
def test_parts_are_disjoint_and_complete_while_others_write(
    items: LsmTable, server: GatewayServer, endpoints: str, mode: str
) -> None:
    options = {"mode": mode, "root": str(items.path.parent)} if mode == "direct" else {}
    planned = plan_read(get_url(server), table="items", endpoints=endpoints, **options)
    assert 1 <= len(planned.partitions) <= int(endpoints)
    assert {type(one) for one in planned.partitions} == {DirectParts if options else Parts}
    write_on(items)
    parts = [planned.part(number) for number in range(len(planned.partitions))]
    assert pairs([row for part in parts for row in part]) == EXPECTED
    # A task that Spark repeats, or runs twice.
    assert [pairs(planned.part(number)) for number in range(len(parts))] == [pairs(part) for part in parts]


@pytest.mark.slow
def test_only_columns_that_are_wanted_are_asked_for(server: GatewayServer) -> None:
    filters = [GreaterThan(("id",), 55)]
    planned = plan_read(get_url(server), filters, table="items", columns="n, id", endpoints="2")
    assert planned.handed_back == []
    assert list(planned.rows()[0]) == ["n", "id"]
    assert set(list_statements(server)) == {'SELECT "id", "n" FROM "items" WHERE "id" > 55'}


@pytest.mark.slow
def test_a_join_is_one_partition_that_is_run_when_it_is_read(server: GatewayServer) -> None:
    query = "SELECT n, count(*) AS c FROM items GROUP BY n;"
    planned = plan_read(get_url(server), [GreaterThan(("c",), 20)], query=query, endpoints="8")
    assert planned.partitions == [Whole(planned.partitions[0].statement)]  # type: ignore[attr-defined]
    assert planned.rows() == planned.rows() == [{"n": 0, "c": 46}]


@pytest.mark.slow
def test_changes_end_where_they_were_planned(items: LsmTable, server: GatewayServer) -> None:
    items.dataset().tags.create("loaded", 2)
    options = {"table": "items", "changes": "all", "columns": "id, n, _change"}
    planned = plan_read(get_url(server), [EqualTo(("id",), 60)], since="loaded", **options)
    items.put([{"id": 60, "n": 7}])
    assert planned.rows() == planned.rows() == [{"id": 60, "n": 1, "_change": "insert"}]
    (whole,) = planned.partitions
    assert isinstance(whole, Whole)
    until = whole.statement.partition("until => '")[2].partition("'")[0]
    (one, other) = plan_read(get_url(server), [EqualTo(("id",), 60)], since=until, **options).rows()
    assert [one["n"], one["_change"], other["n"], other["_change"]] == [1, "update_before", 7, "update_after"]
    nothing = {"since": "TIMESTAMP '2020-01-01'", "until": "2", "changes": "net"}
    with pytest.raises(LanceGatewaySourceError, match="the oldest version that is kept is 1"):
        plan_read(get_url(server), table="items", **nothing)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["net", "all"])
def test_many_changes_are_divided_by_their_keys(items: LsmTable, server: GatewayServer, mode: str) -> None:
    options = {"table": "items", "changes": mode, "since": "2", "part_rows": "20"}
    planned = plan_read(get_url(server), endpoints="3", **options)
    assert [one.number for one in planned.partitions] == [0, 1, 2]  # type: ignore[attr-defined]
    write_on(items)
    parts = [planned.part(number) for number in range(3)]
    assert [pairs(planned.part(number)) for number in range(3)] == [pairs(part) for part in parts]
    keys = [{row["id"] for row in part} for part in parts]
    assert all(keys)
    assert sum(map(len, keys)) == len(set.union(*keys))
    until = planned.partitions[0].statement.partition("until => ")[2].split(",")[0]  # type: ignore[attr-defined]
    whole = plan_read(get_url(server), until=until.strip("'"), endpoints="1", **options)
    assert len(whole.partitions) == 1
    assert pairs([row for part in parts for row in part]) == pairs(whole.rows())
    few = plan_read(get_url(server), endpoints="3", **{**options, "part_rows": "1000"})
    assert len(few.partitions) == 1


@pytest.mark.slow
def test_streams_have_changes_and_no_end(server: GatewayServer) -> None:
    for options, message in (
        ({"table": "items"}, "a stream reads changes of a table: give the options changes"),
        ({"table": "items", "changes": "net", "since": "1", "until": "1"}, "leave the option until out"),
    ):
        with pytest.raises(LanceGatewaySourceError, match=message):
            open_source(get_url(server), **options).streamReader(StructType())


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({"query": "SELECT `id` FROM items WHERE id > 60", "dialect": "spark"}, 8),
        ({"query": "SHOW TABLES"}, None),
        ({"table": "items", "consistency": "flushed", "max_staleness_ms": "5"}, None),
    ],
)
def test_other_ways_to_say_what_is_read(
    server: GatewayServer, options: dict[str, str], rows: int | None
) -> None:
    found = plan_read(get_url(server), [EqualTo(("nothing",), 1)], **options).rows()
    assert rows is None or len(found) == rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"query": "DELETE FROM items"}, "option query changes something, and a read must not"),
        ({"query": "SELECT * FROM items WHERE id = ?"}, "has 1 parameters without values"),
        ({"table": "itmes"}, "'itmes' does not exist; did you mean 'items'"),
        ({"table": "items", "columns": "idd"}, "columns names 'idd', which is not there: did you mean id"),
        ({"query": "SHOW TABLES", "columns": "idd"}, "option columns names 'idd', which is not there"),
        ({"query": 'SELECT id, n AS "ID" FROM items'}, "which Spark can't tell apart"),
        (
            {"table": "items", "tls_ca": "/nowhere.pem", "url": "grpc+tls://127.0.0.1:1"},
            "tls_ca = '/nowhere.pem'",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(server: GatewayServer, options: dict[str, str], words: str) -> None:
    with pytest.raises(LanceGatewaySourceError, match=words):
        plan_read(**{"url": get_url(server), **options})
    assert pairs(plan_read(get_url(server), table="items").rows()) == EXPECTED


@pytest.mark.slow
def test_a_task_that_comes_late_renews_its_ticket(server: GatewayServer) -> None:
    planned = plan_read(get_url(server), table="items", endpoints="3")
    assert all(end.expires_at > time.time() for one in planned.partitions for end in one.endpoints)  # type: ignore[attr-defined]
    with Gateway(get_url(server), planned.reader.options) as gateway:
        for number, one in enumerate(planned.partitions):
            assert isinstance(one, Parts)
            late = tuple(dataclasses.replace(end, expires_at=time.time() - 1000) for end in one.endpoints)
            assert all(gateway.renew(end).expires_at > time.time() + 500 for end in late)  # type: ignore[operator]
            planned.partitions[number] = Parts(number, late)
    assert pairs(planned.rows()) == EXPECTED


@pytest.mark.slow
def test_a_clock_that_is_behind_learns_of_the_expiry_from_the_gateway(
    items: LsmTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = [0.0]
    clock = {**(Endpoints.__init__.__kwdefaults__ or {}), "clock": lambda: time.time() + ahead[0]}
    monkeypatch.setattr(Endpoints.__init__, "__kwdefaults__", clock)
    with serving(items.path.parent) as server:
        planned = plan_read(get_url(server), table="items", endpoints="2")
        ahead[0] = ENDPOINT_SECONDS + 100
        assert pairs(planned.rows()) == EXPECTED


@pytest.mark.slow
def test_a_snapshot_that_is_gone_is_an_error_and_never_other_rows(
    items: LsmTable, server: GatewayServer
) -> None:
    planned = plan_read(get_url(server), table="items", endpoints="3")
    write_on(items)
    for region in items.regions.values():
        clean_up_merged(items.path, region)
    with serving(items.path.parent) as other:
        planned.reader.options = dataclasses.replace(planned.reader.options, urls=(get_url(other),))
        with pytest.raises(LanceGatewaySourceError, match="run the query again"):
            planned.rows()


@pytest.mark.slow
def test_other_gateways_over_the_root_take_over(items: LsmTable, server: GatewayServer) -> None:
    with serving(items.path.parent) as other:
        urls = f"grpc://127.0.0.1:1,{get_url(server)},{get_url(other)}"
        planned = plan_read(urls, table="items", endpoints="4", retries="0")
        assert pairs(planned.rows()) == EXPECTED
        assert list_statements(server)
        assert list_statements(other)


def test_a_gateway_that_is_not_there_is_named_after_some_tries() -> None:
    with pytest.raises(LanceGatewaySourceError, match=r"gateway grpc://127.0.0.1:1: .*onnect"):
        plan_read("grpc://127.0.0.1:1", table="items", retries="1")


class Breaking:
    """A stream of a gateway that goes away."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches
        self.cancelled = 0

    def __next__(self) -> Any:
        if not self.batches:
            raise flight.FlightUnavailableError("the connection broke")
        return _Chunk(self.batches.pop(0))

    def cancel(self) -> None:
        self.cancelled += 1


class _Chunk:
    def __init__(self, data: pa.RecordBatch) -> None:
        self.data = data


class Client:
    """In place of pyarrow's; each call is answered by the next stream."""

    def __init__(self, streams: list[Breaking]) -> None:
        self.streams = streams
        self.calls = 0

    def read(self, _ticket: Any, _options: Any) -> Breaking:
        self.calls += 1
        return self.streams.pop(0)

    def close(self) -> None:
        pass


def reading_from(
    streams: list[Breaking], monkeypatch: pytest.MonkeyPatch
) -> tuple[Client, Iterator[pa.RecordBatch]]:
    from lance_gateway.pipeline.source import client as module  # noqa: PLC0415
    from lance_gateway.pipeline.source.client import Endpoint  # noqa: PLC0415

    monkeypatch.setattr(module.time, "sleep", lambda _seconds: None)
    gateway = Gateway("grpc://127.0.0.1:1", Options.of({"table": "t"}))
    fake = Client(streams)
    monkeypatch.setattr(gateway, "_connection", fake)
    return fake, gateway.read(Endpoint(b"", None))


def test_before_its_first_batch_a_stream_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"a": [1]})
    client, batches = reading_from([Breaking([]), Breaking([]), Breaking([batch])], monkeypatch)
    assert next(batches) is batch
    assert client.calls == 3
    batches.close()  # type: ignore[attr-defined]


def test_a_stream_that_breaks_off_later_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"a": [1]})
    stream = Breaking([batch, batch])
    client, batches = reading_from([stream, Breaking([batch] * 3)], monkeypatch)
    given = []
    with pytest.raises(UnavailableError, match="the stream broke off: the connection broke"):
        given.extend(batches)
    assert given == [batch, batch]
    assert (client.calls, stream.cancelled) == (1, 1)


# Direct mode.


@pytest.mark.slow
def test_rows_of_the_direct_mode_never_pass_through_the_gateway(
    items: LsmTable, server: GatewayServer
) -> None:
    planned = plan_read(
        get_url(server), table="items", mode="direct", root=str(items.path.parent), endpoints="3"
    )
    items.put([{"id": 1, "n": 7}])
    assert pairs(planned.rows()) == EXPECTED
    # What the version is, was asked for; no part was redeemed.
    assert list_statements(server) == []


@pytest.mark.slow
def test_an_engine_serves_all_parts_that_a_worker_reads(items: LsmTable, server: GatewayServer) -> None:
    direct._engine.cache_clear()
    planned = plan_read(
        get_url(server), table="items", mode="direct", root=str(items.path.parent), endpoints="3"
    )
    planned.rows()
    info = direct._engine.cache_info()
    assert (info.misses, info.hits) == (1, len(planned.partitions) - 1)


@pytest.mark.slow
def test_rows_that_are_found_by_key_come_from_the_gateway(items: LsmTable, server: GatewayServer) -> None:
    planned = plan_read(
        get_url(server), [EqualTo(("id",), 55)], table="items", mode="direct", root=str(items.path.parent)
    )
    assert planned.rows() == [{"id": 55, "n": 1}]


@pytest.mark.parametrize("query", ["SELECT count(*) FROM items", "SELECT * FROM items LIMIT 5"])
def test_the_direct_mode_reads_scans_only(items: LsmTable, server: GatewayServer, query: str) -> None:
    with pytest.raises(LanceGatewaySourceError, match=r"mode = 'direct' reads .* use mode = 'gateway'"):
        plan_read(get_url(server), query=query, mode="direct", root=str(items.path.parent))


def test_another_version_is_refused_by_name() -> None:
    with pytest.raises(PreconditionError, match=r"gateway is lance-gateway 9\.9 and this executor has 1\.0"):
        direct.check_version("9.9", "1.0")


def test_another_root_is_refused(server: GatewayServer, tmp_path: Path) -> None:
    planned = plan_read(get_url(server), table="items", mode="direct", root=str(tmp_path / "none"))
    with pytest.raises(LanceGatewaySourceError, match=r"root '.*none' does not exist"):
        planned.rows()


def test_other_tickets_are_refused() -> None:
    options = Options.of({"table": "t", "mode": "direct", "root": "/"})
    with pytest.raises(InvalidInputError, match="not one of a part"):
        list(direct.rows_of(b"\xff", direct.version("lance-gateway"), options))
