"""Protobuf messages as Flight SQL puts them on the wire: how they are read, found out, and refused."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any as AnyType
from typing import Generic, Protocol, TypeVar

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from protos.flight_sql import TYPE_PREFIX, pack

__all__ = ["Registry", "decode", "pack", "read_body", "refuse_transaction", "unpack"]
M = TypeVar("M", bound=Message)


def decode(kind: type[M], data: bytes, what: str) -> M:
    """Decodes `data` as a message of `kind`.

    Raises:
        InvalidInputError: the bytes are not such a message; the text calls them `what`.
    """
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InvalidInputError(
            f"{what} cannot be read: {len(data)} bytes that are not a {kind.DESCRIPTOR.full_name}"
        ) from None


def unpack(kind: type[M], data: bytes, what: str) -> M:
    """Decodes `data` as a message of `kind` packed in google.protobuf.Any.

    Raises:
        InvalidInputError: the bytes are something else; the text calls them `what`.
    """
    packed = decode(Any, data, what)
    name = kind.DESCRIPTOR.full_name
    if packed.type_url != TYPE_PREFIX + name and packed.TypeName() != name:
        raise InvalidInputError(f"{what} holds {packed.TypeName() or 'nothing'}; it must hold a {name}")
    return decode(kind, packed.value, what)


def _check_size(data: bytes, what: str, max_bytes: int) -> None:
    """Refuses a message that is too large.

    Raises:
        InvalidInputError: it has more than `max_bytes`.
    """
    if len(data) > max_bytes:
        raise InvalidInputError(
            f"{what} has {len(data)} bytes, more than the {max_bytes} that are allowed: send less, or ask "
            "the operator to raise max_message_bytes"
        )


def read_body(kind: type[M], data: bytes, what: str, max_bytes: int, *, is_bare: bool) -> M:
    """Decodes the body of an action.

    Args:
        kind: of the message that it must hold.
        data: the body.
        what: the text of errors calls it so.
        max_bytes: that it may have.
        is_bare: whether it is the message itself, not packed in google.protobuf.Any.

    Raises:
        InvalidInputError: it is something else, or too large.
    """
    _check_size(data, what, max_bytes)
    return decode(kind, data, what) if is_bare else unpack(kind, data, what)


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
        _check_size(data, self._what, self._max_bytes)
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
