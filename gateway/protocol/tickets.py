"""What travels through clients unread: tickets and statement handles, as protobuf messages.

A ticket carries the statement and the settings of the session that asked, so it means the same whichever
connection redeems it, and whichever gateway over the same root. Who redeems it decides what is seen.
"""

import os
from functools import lru_cache
from typing import cast

from gateway.protocol.wire import decode, pack
from memwal.errors import InvalidInputError, NotFoundError
from planner.engine import SessionSettings
from planner.scans.settings import ALL_SHORTCUTS, ClientTypes, without_shortcuts
from planner.tables.sources.snapshot import Consistency
from protos import flight_sql_pb2 as sql
from protos import gateway_pb2 as own

# Most sessions choose nothing, or what others chose.
_REMEMBERED = 256
# What is remembered is named by bytes that clients send.
_MAX_BYTES = 1024


@lru_cache(maxsize=_REMEMBERED)
def encode_settings(settings: SessionSettings) -> bytes:
    """Returns the message that stands for `settings`, serialized."""
    message = own.SessionSettings(
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
        shortcuts_off=sorted(ALL_SHORTCUTS - settings.shortcuts),
    )
    return message.SerializeToString()


@lru_cache(maxsize=_REMEMBERED)
def decode_settings(data: bytes) -> SessionSettings:
    """Returns the settings that a serialized message stands for.

    Raises:
        InvalidInputError: there is no such message, or it asks for what does not exist.
    """
    if len(data) > _MAX_BYTES:
        raise InvalidInputError(f"the settings of the ticket have {len(data)} bytes: send it back unchanged")
    message = decode(own.SessionSettings, data, "the settings of the ticket")
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
        shortcuts=without_shortcuts(frozenset(message.shortcuts_off)),
    )


def new_statement_id() -> bytes:
    """Returns a name for one execution of a statement, 16 bytes that nobody can guess."""
    return os.urandom(16)


def check_statement_id(statement_id: bytes) -> None:
    """Refuses a ticket that names no execution: no gateway gave it out.

    Raises:
        NotFoundError: always said of such tickets.
    """
    if len(statement_id) != 16:
        raise NotFoundError("the ticket names no statement: send the statement to GetFlightInfo")


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
