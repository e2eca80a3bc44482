"""Interfaces between the server and its command families, and the settings inside tickets and handles.

A family lists one handler for each type of message that it answers; the server maps types to handlers.

A ticket carries the statement and the settings of the session that asked, so it means the same whichever
connection redeems it, and whichever gateway over the same root. The rights of the user who redeems it apply.

A ticket that was made in a transaction is redeemed in it, and so by the same gateway alone.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import pyarrow as pa
from google.protobuf.message import Message
from pyarrow import flight

from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.gateway.protocol.open_uploads import OpenUpload
from lance_gateway.gateway.protocol.wire import decode
from lance_gateway.memwal.errors import InvalidInputError, PermissionDeniedError
from lance_gateway.planner.access.rights import Access, SessionAccess
from lance_gateway.planner.engine import SessionSettings
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, ClientTypes, exclude_shortcuts
from lance_gateway.planner.tables.sources.snapshot import Consistency
from lance_gateway.planner.writes.transactions.transaction import Transaction
from lance_gateway.protos import gateway_pb2 as own

# Most sessions choose nothing, or what others chose.
_REMEMBERED = 256
# What is remembered is named by bytes that clients send.
_MAX_BYTES = 1024


@lru_cache(maxsize=_REMEMBERED)
def encode_settings(settings: SessionSettings, transaction_id: bytes = b"", temporary: str = "") -> bytes:
    """Return the message that stands for settings, serialized.

    Args:
        settings: of a session.
        transaction_id: of the transaction; b"" for none.
        temporary: schema of the session's temporary tables; "" for none.
    """
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
        read_only=settings.read_only,
        shortcuts_off=sorted(ALL_SHORTCUTS - settings.shortcuts),
        transaction_id=transaction_id,
        temporary=temporary,
    )
    return message.SerializeToString()


@lru_cache(maxsize=_REMEMBERED)
def decode_settings(data: bytes) -> SessionSettings:
    """Return the settings that a serialized message stands for.

    Raises:
        InvalidInputError: there is no such message, or it asks for what does not exist.
    """
    message = _decode_message(data)
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
        read_only=message.read_only,
        shortcuts=exclude_shortcuts(frozenset(message.shortcuts_off)),
    )


class Origin(NamedTuple):
    """In what a handle or ticket was made, besides settings that it takes along.

    Attributes:
        transaction_id: of the transaction; b"" for none.
        temporary: schema of the session's temporary tables; "" for none.
    """

    transaction_id: bytes
    temporary: str


@lru_cache(maxsize=_REMEMBERED)
def decode_origin(data: bytes) -> Origin:
    """Return the rest of a serialized message of settings.

    Raises:
        InvalidInputError: there is no such message.
    """
    message = _decode_message(data)
    return Origin(message.transaction_id, message.temporary)


def _decode_message(data: bytes) -> own.SessionSettings:
    if len(data) > _MAX_BYTES:
        raise InvalidInputError(f"the settings of the ticket have {len(data)} bytes: send it back unchanged")
    return decode(own.SessionSettings, data, "the settings of the ticket")


STATEMENT_ID_BYTES = 16
new_statement_id = partial(os.urandom, STATEMENT_ID_BYTES)
"""Return an id of one execution of a statement: 16 random bytes."""


UNNAMED = "the ticket names no statement: send the statement to GetFlightInfo"
"""Says that a ticket names no execution: no gateway gave it out."""


M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Call:
    """The call that a handler serves.

    Args:
        peer: address of the client, as gRPC spells it.
        identity: who calls.
        access: what the caller may see.
        session_id: the session that the call's cookie names, None where it names none.
        settings: the settings of that session.
        add_header: sends a header back, before the answer.
        is_cancelled: whether the client has cancelled the call or gone away; only while the call is served.
        upload: the stream that the client sends; None where it sends none.
        chosen: the options that headers of the call choose, in place of the session.
        transaction: that the call is part of; None where each statement stands alone.
        transaction_id: by which the call, or what it brings back, names the transaction; b"" if that is
            the session's.
        offered: the id that a session of the client would have, None where it was offered none.
        request: of the client that the call is for; "" where it names none.
    """

    peer: str
    identity: Identity
    access: Access
    session_id: str | None
    settings: SessionSettings
    add_header: Callable[[str, str], None]
    is_cancelled: Callable[[], bool]
    upload: OpenUpload | None = None
    chosen: frozenset[str] = frozenset()
    transaction: Transaction | None = None
    transaction_id: bytes = b""
    offered: str | None = None
    request: str = ""

    @property
    def temporary(self) -> str:
        """The schema of the session's temporary tables; "" if it has none."""
        access = self.access
        return access.temporary if isinstance(access, SessionAccess) and access.names else ""

    @property
    def principal(self) -> Access:
        """What the caller may see outside of the session."""
        access = self.access
        return access.principal if isinstance(access, SessionAccess) else access

    def find_path(self, settings: SessionSettings) -> SessionSettings:
        """Return the settings of a statement, in which names mean temporary tables of the session first."""
        access = self.access
        if not isinstance(access, SessionAccess):
            return settings
        return replace(settings, schema=access.find_path(settings.schema))

    def check_may_change(self, statement: str) -> None:
        """Check that the session of the call takes statements that change something.

        The settings of a ticket or handle don't count here: another session may have made it.

        Raises:
            PermissionDeniedError: the session is read-only.
        """
        if self.settings.read_only:
            raise PermissionDeniedError(
                f"{statement!r} was not executed, since this session only reads: set the session option "
                "read_only to false, or connect without the header that sets it, to change something"
            )


@dataclass(frozen=True, slots=True)
class PlannedStream:
    """The answer to GetFlightInfo.

    Args:
        schema: of the stream, exactly.
        ticket: fetches it, or its first part.
        others: tickets of its other parts.
        expires_at: until when the tickets of parts can be redeemed, UTC.
        records: how many there are, -1 where that is not known.
    """

    schema: pa.Schema
    ticket: bytes
    others: tuple[bytes, ...] = ()
    expires_at: datetime | None = None
    records: int = -1


@dataclass(frozen=True, slots=True)
class Command(Generic[M]):
    """A command that a flight descriptor may carry: answers GetSchema and GetFlightInfo."""

    message: type[M]
    schema: Callable[[M, Call], pa.Schema]
    plan: Callable[[M, Call], PlannedStream]


@dataclass(frozen=True, slots=True)
class Ticket(Generic[M]):
    """A ticket: answers DoGet."""

    message: type[M]
    stream: Callable[[M, Call], flight.FlightDataStream]


@dataclass(frozen=True, slots=True)
class Upload(Generic[M]):
    """A command of DoPut; receives the stream of the client, returns the metadata to answer with, if any."""

    message: type[M]
    accept: Callable[[M, flight.MetadataRecordBatchReader, Call], bytes | None]


@dataclass(frozen=True, slots=True)
class Exchange(Generic[M]):
    """A command of DoPut whose client waits for answers while it sends; the handler writes them itself."""

    message: type[M]
    run: Callable[[M, flight.MetadataRecordBatchReader, flight.FlightMetadataWriter, Call], None]


@dataclass(frozen=True, slots=True)
class Action(Generic[M]):
    """An action: answers DoAction; returns the body of its result if it has one.

    Args:
        name: of the action.
        description: what it does, for ListActions.
        message: that its body holds.
        run: does it.
        is_bare: whether the body is the message itself, not packed in google.protobuf.Any.
    """

    name: str
    description: str
    message: type[M]
    run: Callable[[M, Call], bytes | None]
    is_bare: bool = False


Handler: TypeAlias = Command[Any] | Ticket[Any] | Upload[Any] | Exchange[Any] | Action[Any]
"""A handler of one type of message."""


class Family(Protocol):
    """Answers some of the messages of clients."""

    def list_handlers(self) -> Sequence[Handler]:
        """Return one handler per message type; no other family handles that type."""
