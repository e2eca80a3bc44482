"""What travels through clients unread: tickets and statement handles, as protobuf messages.

A ticket carries the statement and the settings of the session that asked, so it means the same whichever
connection redeems it, and whichever gateway over the same root. Who redeems it decides what is seen.
"""

import secrets
from typing import cast

from gateway.wire import pack
from planner.engine import SessionSettings
from planner.settings import ClientTypes
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
        dialect=settings.dialect,
        endpoints=settings.endpoints,
        query_timeout_ms=settings.query_timeout_ms,
        types=settings.types,
        relaxed_writes=not settings.durable_writes,
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
        dialect=message.dialect,
        endpoints=message.endpoints,
        query_timeout_ms=message.query_timeout_ms,
        types=cast("ClientTypes", message.types),
        durable_writes=not message.relaxed_writes,
    )


def new_statement_id() -> bytes:
    """Returns a name for one execution of a statement, 16 bytes that nobody can guess."""
    return secrets.token_bytes(16)


def statement_ticket(query: str, settings: SessionSettings, schema_digest: bytes) -> bytes:
    """Returns the ticket of a query without parameters."""
    handle = own.StatementHandle(
        query=query,
        settings=encode_settings(settings),
        statement_id=new_statement_id(),
        schema_digest=schema_digest,
    )
    return pack(sql.TicketStatementQuery(statement_handle=handle.SerializeToString()))


def prepared_ticket(handle: own.PreparedHandle, settings: SessionSettings, binding_id: int) -> bytes:
    """Returns the ticket of one execution of a prepared statement."""
    return pack(
        own.PreparedTicket(
            handle=handle,
            settings=encode_settings(settings),
            binding_id=binding_id,
            statement_id=new_statement_id(),
        )
    )
