"""Flight SQL by hand: messages in, messages out."""

from typing import TypeVar

import pyarrow as pa
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.protos import flight_sql_pb2 as sql

M = TypeVar("M", bound=Message)
COMMIT = sql.ActionEndTransactionRequest.END_TRANSACTION_COMMIT
ROLLBACK = sql.ActionEndTransactionRequest.END_TRANSACTION_ROLLBACK


def packed(message: Message) -> bytes:
    envelope = Any()
    envelope.Pack(message)
    return envelope.SerializeToString()


def descriptor(message: Message) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(packed(message))


def info(client: flight.FlightClient, message: Message) -> flight.FlightInfo:
    return client.get_flight_info(descriptor(message))


def stream(client: flight.FlightClient, message: Message) -> flight.FlightStreamReader:
    return client.do_get(info(client, message).endpoints[0].ticket)


def fetch(client: flight.FlightClient, message: Message) -> pa.Table:
    return stream(client, message).read_all()


def query(client: flight.FlightClient, text: str) -> pa.Table:
    return fetch(client, sql.CommandStatementQuery(query=text))


def act(client: flight.FlightClient, name: str, body: bytes) -> list[bytes]:
    return [result.body.to_pybytes() for result in client.do_action(flight.Action(name, body))]


def unpacked(kind: type[M], body: bytes) -> M:
    envelope = Any.FromString(body)
    message = kind()
    assert envelope.Unpack(message), envelope.type_url
    return message


def prepare(client: flight.FlightClient, text: str) -> sql.ActionCreatePreparedStatementResult:
    request = sql.ActionCreatePreparedStatementRequest(query=text)
    (body,) = act(client, "CreatePreparedStatement", packed(request))
    return unpacked(sql.ActionCreatePreparedStatementResult, body)


def bind(client: flight.FlightClient, handle: bytes, parameters: pa.Table) -> bytes:
    """Binds parameters and returns the handle to go on with."""
    command = descriptor(sql.CommandPreparedStatementQuery(prepared_statement_handle=handle))
    writer, reader = client.do_put(command, parameters.schema)
    with writer:
        writer.write_table(parameters)
        writer.done_writing()
        answer = sql.DoPutPreparedStatementResult.FromString(reader.read().to_pybytes())
    return answer.prepared_statement_handle


def put(
    client: flight.FlightClient, command: Message, rows: pa.Table | None = None, batch_rows: int = 100_000
) -> int:
    """Sends a command that changes something, with rows or none; the number of rows that it answers."""
    writer, reader = client.do_put(descriptor(command), pa.schema([]) if rows is None else rows.schema)
    with writer:
        if rows is not None:
            writer.write_table(rows, batch_rows)
        writer.done_writing()
        answer = reader.read()
    return sql.DoPutUpdateResult.FromString(answer.to_pybytes()).record_count


def encode_frame(header: bytes, body: bytes = b"", descriptor: bytes = b"") -> bytes:
    """Writes a FlightData message: descriptor, header and body of one IPC message, none empty."""

    def field(tag: bytes, value: bytes) -> bytes:
        size, encoded = len(value), bytearray()
        while size > 0x7F:
            encoded.append(size & 0x7F | 0x80)
            size >>= 7
        encoded.append(size)
        return tag + bytes(encoded) + value if value else b""

    return field(b"\x0a", descriptor) + field(b"\x12", header) + field(b"\xc2\x3e", body)


def split_message(message: pa.Buffer) -> tuple[bytes, bytes]:
    """Header and body of an encapsulated message."""
    data = message.to_pybytes()
    size = int.from_bytes(data[4:8], "little")
    return data[8 : 8 + size], data[8 + size :]


def update(client: flight.FlightClient, text: str) -> int:
    return put(client, sql.CommandStatementUpdate(query=text))


def schema_of(message: bytes) -> pa.Schema:
    """Reads an encapsulated IPC schema message."""
    return pa.ipc.read_schema(pa.py_buffer(message))


def begin(client: flight.FlightClient) -> bytes:
    """Begins a transaction and returns its id."""
    (body,) = act(client, "BeginTransaction", packed(sql.ActionBeginTransactionRequest()))
    return unpacked(sql.ActionBeginTransactionResult, body).transaction_id


def end(client: flight.FlightClient, transaction: bytes, action: int) -> None:
    """Ends a transaction by an action, such as COMMIT."""
    request = sql.ActionEndTransactionRequest(transaction_id=transaction, action=action)  # type: ignore[arg-type]
    assert act(client, "EndTransaction", packed(request)) == []
