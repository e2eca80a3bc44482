"""Streams: small batches, errors in the middle, an end when the client is gone."""

import gc
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.execution.running_queries import Queries
from lance_gateway.gateway.execution.streams import Streams, slice_batch
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.protocol.identity import ANONYMOUS
from lance_gateway.memwal.errors import CorruptDataError, UnavailableError
from lance_gateway.planner.access.rights import FULL_ACCESS
from lance_gateway.planner.scans.settings import SessionSettings
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("rows", "expected"), [(0, []), (1, [1]), (10, [10]), (11, [10, 1]), (25, [10, 10, 5])]
)
def test_a_batch_is_sliced_at_the_limit(rows: int, expected: list[int]) -> None:
    width = 100_000
    batch = pa.record_batch({"a": pa.array([b"x" * width] * rows, pa.binary(width))})
    limit = pa.ipc.get_record_batch_size(batch.slice(0, 10)) if rows > 10 else 10**7
    parts = list(slice_batch(batch, limit))
    assert [part.num_rows for part in parts] == expected
    assert all(pa.ipc.get_record_batch_size(part) <= limit for part in parts)


def test_rows_of_very_different_width_are_sliced_to_fit() -> None:
    batch = pa.record_batch({"a": [b"x" * (200_000 if number % 50 == 0 else 10) for number in range(1000)]})
    parts = list(slice_batch(batch, MIB))
    assert all(pa.ipc.get_record_batch_size(part) <= MIB for part in parts)
    assert pa.Table.from_batches(parts).column(0).to_pylist() == batch.column(0).to_pylist()


def test_a_single_row_is_never_divided() -> None:
    batch = pa.record_batch({"a": [b"x" * 1000, b"y" * 1000]})
    assert [part.num_rows for part in slice_batch(batch, 100)] == [1, 1]


def test_batches_of_vectors_stay_below_four_mebibytes_on_the_wire(wire: flight.FlightClient) -> None:
    text = "SELECT range(0, 1024) AS vector FROM orders"
    reader = rpc.stream(wire, sql.CommandStatementQuery(query=text))
    sizes = [pa.ipc.get_record_batch_size(chunk.data) for chunk in reader]
    assert max(sizes) <= LimitsSection().max_batch_bytes < 4 * MIB
    assert sum(sizes) > 1000 * 1024 * 8


@pytest.mark.slow
def test_a_large_result_streams_in_bounded_memory(wire: flight.FlightClient) -> None:
    text = "SELECT value, value * 2 AS twice, 'some text' AS text FROM generate_series(1, 10000000)"
    # The server is this process, too; what is received is dropped at once.
    process = psutil.Process()
    rpc.query(wire, "SELECT count(*) FROM orders")
    before = process.memory_info().rss
    peak = rows = 0
    for chunk in rpc.stream(wire, sql.CommandStatementQuery(query=text)):
        rows += chunk.data.num_rows
        peak = max(peak, process.memory_info().rss)
    assert rows == 10_000_000
    assert peak - before < 300 * MIB


class _Server(flight.FlightServerBase):
    """Sends the readers that a test gives it."""

    def __init__(self, schema: pa.Schema, *readers: pa.RecordBatchReader) -> None:
        self.queries = Queries()
        self._streams = Streams(self.queries)
        self._schema = schema
        self._readers = readers
        super().__init__("grpc://127.0.0.1:0")

    def do_get(self, context: Any, ticket: Any) -> Any:
        call = Call(
            context.peer(),
            ANONYMOUS,
            FULL_ACCESS,
            None,
            SessionSettings(),
            context.add_header,
            context.is_cancelled,
        )
        query = self.queries.redeem(secrets.token_bytes(16), "SELECT 1", call.settings, call)
        return self._streams.send(self._schema, query, lambda _query: self._readers)


SCHEMA = pa.schema([("a", pa.int64())])
BATCH = pa.record_batch({"a": pa.array(range(10_000), pa.int64())})


def _reader(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


def test_readers_follow_one_another() -> None:
    readers = [_reader(iter([BATCH])), _reader(iter([])), _reader(iter([BATCH, BATCH]))]
    with (
        _Server(SCHEMA, *readers) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        assert client.do_get(flight.Ticket(b"")).read_all().num_rows == 30_000
        assert server.queries.list_active() == ()


def test_an_error_in_the_middle_reaches_the_client_as_it_is() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise CorruptDataError("file 'page.lance' is cut short: restore it.")

    with (
        _Server(SCHEMA, _reader(batches())) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        reader = client.do_get(flight.Ticket(b""))
        assert reader.read_chunk().data.num_rows == 10_000
        with pytest.raises(
            flight.FlightInternalError, match=r"^file 'page.lance' is cut short: restore it\. "
        ) as caught:
            reader.read_chunk()
    assert "Traceback" not in str(caught.value)


@pytest.mark.slow
def test_a_stream_stops_its_work_when_the_client_goes_away() -> None:
    closed = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield BATCH
        finally:
            closed.set()

    with _Server(SCHEMA, _reader(endless())) as server:
        with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
            reader = client.do_get(flight.Ticket(b""))
            reader.read_chunk()
            assert len(server.queries.list_active()) == 1
            reader.cancel()
            del reader
        while server.queries.list_active():
            threading.Event().wait(0.01)
        server._readers = ()
        gc.collect()
        assert closed.wait(10)


def test_streams_that_are_told_to_end_fail_as_unavailable() -> None:
    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            yield BATCH

    with (
        _Server(SCHEMA, _reader(endless())) as server,
        flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client,
    ):
        reader = client.do_get(flight.Ticket(b""))
        reader.read_chunk()
        server.queries.cancel_all(UnavailableError("the gateway is stopping; run the query again elsewhere"))
        with pytest.raises(flight.FlightUnavailableError, match="the gateway is stopping"):
            reader.read_all()
