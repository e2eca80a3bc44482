"""Rows that are damaged on their way, compressed or not: each is refused, nothing of them is written."""

import random
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.protocol.test_errors import assert_clean
from tests.support.processes.servers import GatewayProcess

# A server in a process of its own, which damaged memory could end.
pytestmark = pytest.mark.slow

ROWS = 1000
_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNIMPLEMENTED,
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    root: Path = tmp_path_factory.mktemp("corrupted")
    with GatewayProcess(root, "--http-port", "off") as process, flight.connect(process.uri) as client:
        create = "CREATE TABLE notes (id BIGINT PRIMARY KEY, text VARCHAR, tags VARCHAR[])"
        rpc.put(client, sql.CommandStatementUpdate(query=create))
        yield process


def build_rows() -> pa.RecordBatch:
    return pa.record_batch(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "text": [f"note {number}" * (number % 7) for number in range(ROWS)],
            "tags": [["a", "b"] * (number % 3) for number in range(ROWS)],
        }
    )


def list_messages(rows: pa.RecordBatch, compression: str | None) -> list[tuple[bytes, bytes]]:
    """Metadata and body of each message of a stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    messages = [reader.read_next_message(), reader.read_next_message()]
    return [(bytes(one.metadata), b"" if one.body is None else bytes(one.body)) for one in messages]


def send(gateway: GatewayProcess, messages: list[tuple[bytes, bytes]]) -> grpc.StatusCode:
    """Ingest messages as they are; return the status."""
    descriptor = rpc.descriptor(ingest_command()).serialize()
    parts = [
        rpc.encode_frame(header, body, descriptor if at == 0 else b"")
        for at, (header, body) in enumerate(messages)
    ]
    with grpc.insecure_channel(gateway.uri.removeprefix("grpc://")) as channel:
        put = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
        call = put(iter(parts), timeout=60)
        try:
            list(call)
        except grpc.RpcError:
            assert_clean(call.details())
            assert "/tmp" not in call.details()
        return call.code()


def count(gateway: GatewayProcess) -> int:
    with flight.connect(gateway.uri) as client:
        return int(rpc.query(client, "SELECT count(*) AS n FROM notes")["n"][0].as_py())


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.soak
def test_damaged_rows_are_refused_or_whole(gateway: GatewayProcess, compression: str | None) -> None:
    schema, (header, body) = list_messages(build_rows(), compression)
    rng = random.Random(7)
    for number in range(60):
        damaged_header, damaged_body = bytearray(header), bytearray(body)
        target = damaged_header if number % 4 == 0 else damaged_body
        if number % 5 == 4:
            del damaged_body[rng.randrange(len(body)) :]
        else:
            for _ in range(rng.randint(1, 4)):
                target[rng.randrange(len(target))] ^= 1 << rng.randrange(8)
        before = count(gateway)
        status = send(gateway, [schema, (bytes(damaged_header), bytes(damaged_body))])
        # A bit within a value makes another value, which can't be told from a good one.
        if status != grpc.StatusCode.OK:
            assert status in _REFUSALS
            assert count(gateway) == before
    assert send(gateway, [schema, (header, body)]) == grpc.StatusCode.OK


def test_texts_that_are_none_are_refused(gateway: GatewayProcess) -> None:
    before = count(gateway)
    good = build_rows()
    ids = pa.array([10_001, 10_002], pa.int64())
    no_tags = pa.nulls(2, good.schema.field("tags").type)
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    for text in (
        pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe")]),
        pa.DictionaryArray.from_arrays(pa.array([0, 7]), ["a"], safe=False),
        pa.DictionaryArray.from_arrays(pa.array([0, -1]), ["a"], safe=False),
    ):
        rows = pa.RecordBatch.from_arrays([ids, text, no_tags], ["id", "text", "tags"])
        with flight.connect(gateway.uri) as client, pytest.raises((pa.ArrowException, OSError)) as caught:
            rpc.put(client, ingest_command(), pa.Table.from_batches([rows]))
        assert_clean(str(caught.value))
        assert count(gateway) == before


def ingest_command() -> sql.CommandStatementIngest:
    options = sql.CommandStatementIngest.TableDefinitionOptions
    return sql.CommandStatementIngest(
        table="notes",
        table_definition_options=options(
            if_not_exist=options.TABLE_NOT_EXIST_OPTION_FAIL, if_exists=options.TABLE_EXISTS_OPTION_APPEND
        ),
    )
