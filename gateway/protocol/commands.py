"""How a Flight SQL command family presents itself to the server.

A family is an object that lists the messages it answers; the server looks a message's type up in a mapping
built once from these lists.

Transactions and savepoints: there are none, and whoever asks is told so.

Each statement reads one state of its tables, and what it writes is there when it is answered. Pretending
would promise that several statements see the same state, or that what they wrote can be taken back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any as AnyType
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message
from pyarrow import flight

from gateway.protocol.identity import Identity
from gateway.protocol.wire import decode, unpack
from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.access.rights import Access
from planner.engine import SessionSettings
from protos import flight_sql_pb2 as sql

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler may know of the call it serves.

    Args:
        peer: address of the client, as gRPC spells it.
        identity: who calls.
        access: what the caller may see.
        session_id: the session that the call's cookie names, None where it names none.
        settings: the settings of that session.
        add_header: sends a header back, before the answer.
        is_cancelled: whether the client has cancelled the call or gone away; only while the call is served.
    """

    peer: str
    identity: Identity
    access: Access
    session_id: str | None
    settings: SessionSettings
    add_header: Callable[[str, str], None]
    is_cancelled: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Planned:
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
    plan: Callable[[M, Call], Planned]


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
class Action:
    """An action: answers DoAction; takes the body as it came, returns that of its result if it has one."""

    name: str
    description: str
    run: Callable[[bytes, Call], bytes | None]


def check_size(data: bytes, what: str, max_bytes: int) -> None:
    """Refuses a message that is too large.

    Raises:
        InvalidInputError: it has more than `max_bytes`.
    """
    if len(data) > max_bytes:
        raise InvalidInputError(
            f"{what} has {len(data)} bytes, more than the {max_bytes} that are allowed: send less, or ask "
            "the operator to raise max_message_bytes"
        )


class _Entry(Protocol):
    @property
    def message(self) -> type[Message]: ...


Entry = TypeVar("Entry", bound=_Entry)


class Registry(Generic[Entry]):
    """Which entry answers which message. Never changes after construction.

    Args:
        what: how a message is called in error texts ("command", "ticket", ...).
        entries: at most one for each message type.
        max_bytes: that a message may have.
        unknown: what is raised for bytes that no entry answers; by default it depends on what they are.
    """

    def __init__(
        self,
        what: str,
        entries: Iterable[Entry],
        max_bytes: int,
        unknown: type[LanceGatewayError] | None = None,
    ) -> None:
        self._unknown = unknown
        self._what = f"the {what}"
        self._max_bytes = max_bytes
        by_type: dict[str, Entry] = {}
        for entry in entries:
            name = entry.message.DESCRIPTOR.full_name
            if name in by_type:
                raise InvalidInputError(f"two families answer the {what} {name}: register one")
            by_type[name] = entry
        self._by_type: Mapping[str, Entry] = MappingProxyType(by_type)
        # What nearly all clients write before the name.
        self._by_url = {f"type.googleapis.com/{name}": entry for name, entry in by_type.items()}

    def find(self, data: bytes) -> tuple[Entry, AnyType]:
        """Returns the entry that answers `data` (a message packed in google.protobuf.Any) and the message.

        Raises:
            InvalidInputError: the bytes are not a packed message, or too many.
            UnsupportedError: no entry answers messages of that type.
        """
        check_size(data, self._what, self._max_bytes)
        try:
            return self._found(data)
        except LanceGatewayError as error:
            if self._unknown is None:
                raise
            raise self._unknown(str(error)) from None

    def _found(self, data: bytes) -> tuple[Entry, AnyType]:
        packed = decode(Any, data, self._what)
        entry = self._by_url.get(packed.type_url) or self._named(packed.TypeName())
        return entry, decode(entry.message, packed.value, self._what)

    def _named(self, name: str) -> Entry:
        if not name:
            raise InvalidInputError(f"{self._what} is empty; it must be a Flight SQL message packed in Any")
        entry = self._by_type.get(name)
        if entry is None:
            raise UnsupportedError(
                f"the gateway does not answer {self._what} {name}; it answers "
                + ", ".join(sorted(self._by_type))
            )
        return entry


_ACTIONS: tuple[tuple[str, type[Message], str], ...] = (
    ("BeginTransaction", sql.ActionBeginTransactionRequest, "transaction"),
    ("EndTransaction", sql.ActionEndTransactionRequest, "transaction"),
    ("BeginSavepoint", sql.ActionBeginSavepointRequest, "savepoint"),
    ("EndSavepoint", sql.ActionEndSavepointRequest, "savepoint"),
)


class Transactions:
    """The four actions about transactions, refused."""

    def actions(self) -> tuple[Action, ...]:
        """Returns the actions of this family."""
        return tuple(_refusal(name, message, what) for name, message, what in _ACTIONS)


def refuse_transaction(request: Message) -> None:
    """Lets a request pass that belongs to no transaction.

    Raises:
        UnsupportedError: the request names a transaction.
    """
    if request.HasField("transaction_id"):
        raise UnsupportedError(
            f"{request.DESCRIPTOR.name} names a transaction, and the gateway has none: each statement stands "
            "alone; connect with autocommit, and send no transaction_id"
        )


def _refusal(name: str, message: type[Message], what: str) -> Action:
    def run(body: bytes, _call: Call) -> bytes | None:
        unpack(message, body, f"the body of {name}")
        raise UnsupportedError(
            f"{name}: the gateway has no {what}s: each statement stands alone, and what it writes stays; "
            "connect with autocommit"
        )

    return Action(name, f"Refused: there are no {what}s.", run)
