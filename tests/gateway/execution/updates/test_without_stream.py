"""Updates of clients that send the descriptor alone, without an Arrow stream, as that for Rust does."""

from collections.abc import Iterator

import grpc
import pytest
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.server import GatewayServer
from lance_gateway.protos import flight_sql_pb2 as sql
from tests.gateway import rpc
from tests.gateway.execution.updates.tables import bound, count


@pytest.fixture
def channel(server: GatewayServer) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield channel


def _put(channel: grpc.Channel, command: Message, *messages: bytes) -> int:
    """Send the descriptor in a message of its own, and more messages; return the count that comes."""
    do_put = channel.stream_stream("/arrow.flight.protocol.FlightService/DoPut")
    first = rpc.encode_frame(b"", descriptor=rpc.descriptor(command).serialize())
    (answer,) = do_put(iter((first, *messages)))
    # The count is the metadata of a PutResult, without which it is 0.
    return sql.DoPutUpdateResult.FromString(answer[2:]).record_count


def _prepare(client: flight.FlightClient, text: str) -> sql.CommandPreparedStatementUpdate:
    created = rpc.prepare(client, text)
    return sql.CommandPreparedStatementUpdate(prepared_statement_handle=created.prepared_statement_handle)


def test_a_statement_without_parameters_is_executed(
    client: flight.FlightClient, channel: grpc.Channel, notes: str
) -> None:
    assert _put(channel, sql.CommandStatementUpdate(query=f"INSERT INTO {notes} (id) VALUES (1)")) == 1
    assert _put(channel, _prepare(client, f"INSERT INTO {notes} (id) VALUES (2), (3)")) == 2
    assert count(client, notes) == 3


def test_what_was_bound_before_counts(client: flight.FlightClient, channel: grpc.Channel, notes: str) -> None:
    command = _prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
    handle = rpc.bind(client, command.prepared_statement_handle, bound(3))
    assert _put(channel, sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)) == 3
    assert _put(channel, command) == 3
    assert count(client, notes) == 3


def test_parameters_that_were_never_bound_are_missed(
    client: flight.FlightClient, channel: grpc.Channel, notes: str
) -> None:
    command = _prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
    with pytest.raises(grpc.RpcError, match="2 parameters and 0 were bound") as caught:
        _put(channel, command)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("before", [(), (b"",)])
def test_what_is_no_arrow_stream_is_not_taken_for_none(
    client: flight.FlightClient, channel: grpc.Channel, notes: str, before: tuple[bytes, ...]
) -> None:
    command = _prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
    rpc.bind(client, command.prepared_statement_handle, bound(3))
    with pytest.raises(grpc.RpcError, match="must begin with an Arrow schema") as caught:
        _put(channel, command, *before, rpc.encode_frame(b"nothing"))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert count(client, notes) == 0


def test_a_stream_behind_the_descriptor_is_read(
    client: flight.FlightClient, channel: grpc.Channel, notes: str
) -> None:
    """Some clients send the descriptor first, and the schema in the next message."""
    command = _prepare(client, f"INSERT INTO {notes} (id, text) VALUES (?, ?)")
    (rows,) = bound(3).to_batches()
    schema, data = (rpc.encode_frame(*rpc.split_message(part.serialize())) for part in (rows.schema, rows))
    assert _put(channel, command, schema, data) == 3
    assert _put(channel, command, schema) == 0
    assert count(client, notes) == 3
