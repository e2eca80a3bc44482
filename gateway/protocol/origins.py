"""Which handles and tickets tell in what they were made."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from google.protobuf.message import DecodeError, Message

from lance_gateway.gateway.protocol.commands import Origin, decode_origin
from lance_gateway.protos import flight_sql_pb2 as sql
from lance_gateway.protos import gateway_pb2 as own


def _read_handle(kind: type[Any], data: bytes) -> bytes:
    try:
        return bytes(kind.FromString(data).settings)
    except DecodeError:
        return b""  # which its handler says


# Type of a message with a handle, or of a ticket -> what reads its settings.
_READERS: Mapping[type[Message], Callable[[Any], bytes]] = MappingProxyType(
    {
        sql.CommandPreparedStatementQuery: lambda message: _read_handle(
            own.PreparedHandle, message.prepared_statement_handle
        ),
        sql.CommandPreparedStatementUpdate: lambda message: _read_handle(
            own.PreparedHandle, message.prepared_statement_handle
        ),
        sql.TicketStatementQuery: lambda message: _read_handle(own.StatementHandle, message.statement_handle),
        own.PreparedTicket: lambda message: bytes(message.settings),
    }
)


def find_origin(message: Message) -> Origin | None:
    """Return in what a handle or ticket was made; None for other messages.

    Raises:
        InvalidInputError: it has settings that no gateway wrote.
    """
    read = _READERS.get(type(message))
    return None if read is None else decode_origin(read(message))
