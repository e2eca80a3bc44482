"""What travels through clients unread: tickets and statement handles, as protobuf messages.

A ticket carries the statement and the settings of the session that asked, so it means the same whichever
connection redeems it, and whenever.
"""

from typing import cast

from gateway.wire import pack
from planner.engine import SessionSettings
from planner.snapshot import Consistency
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own


def encode_settings(settings: SessionSettings) -> own.SessionSettings:
    """Returns the message that stands for `settings`."""
    return own.SessionSettings(
        catalog=settings.catalog,
        schema=settings.schema,
        consistency=settings.consistency,
        max_staleness_ms=settings.max_staleness_ms,
        region_pruning=settings.region_pruning,
    )


def decode_settings(message: own.SessionSettings) -> SessionSettings:
    """Returns the settings that `message` stands for.

    Raises:
        InvalidInputError: the message asks for what does not exist.
    """
    return SessionSettings(
        catalog=message.catalog,
        schema=message.schema,
        consistency=cast("Consistency", message.consistency),
        max_staleness_ms=message.max_staleness_ms,
        region_pruning=message.region_pruning,
    )


def statement_ticket(query: str, settings: SessionSettings, plan_id: int) -> bytes:
    """Returns the ticket of a query without parameters."""
    handle = own.StatementHandle(query=query, settings=encode_settings(settings), plan_id=plan_id)
    return pack(sql.TicketStatementQuery(statement_handle=handle.SerializeToString()))


def prepared_ticket(handle: bytes, settings: SessionSettings, binding_id: int) -> bytes:
    """Returns the ticket of one execution of the prepared statement `handle` with that set of parameters."""
    return pack(
        own.PreparedTicket(
            prepared_statement_handle=handle, settings=encode_settings(settings), binding_id=binding_id
        )
    )
