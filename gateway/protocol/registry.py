"""The handlers of the server by the types of the messages that they answer."""

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from lance_gateway.gateway.protocol.wire import decode
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError


class _Entry(Protocol):
    @property
    def message(self) -> type[Message]: ...


Entry = TypeVar("Entry", bound=_Entry)


class Registry(Generic[Entry]):
    """Maps types of messages to their handlers. Never changes after construction.

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
        self._by_type: dict[str, Entry] = {}
        for entry in entries:
            name = entry.message.DESCRIPTOR.full_name
            if name in self._by_type:
                raise InvalidInputError(f"two families answer the {what} {name}: register one")
            self._by_type[name] = entry

    def find(self, data: bytes) -> tuple[Entry, Any]:
        """Return the entry that answers `data` (a message packed in google.protobuf.Any) and the message.

        Raises:
            InvalidInputError: the bytes are not a packed message, or too many.
            UnsupportedError: no entry answers messages of that type.
        """
        check_size(data, self._what, self._max_bytes)
        try:
            packed = AnyMessage.FromString(data)
            entry = self._by_type[packed.type_url.rpartition("/")[2]]
            message = entry.message.FromString(packed.value)
        except (DecodeError, KeyError):
            error = self._refusal(data)
            raise (error if self._unknown is None else self._unknown(str(error))) from None
        return entry, message

    def _refusal(self, data: bytes) -> LanceGatewayError:
        """Return what is wrong with bytes that no entry answers."""
        try:
            packed = decode(AnyMessage, data, self._what)
            name = packed.TypeName()
            if name in self._by_type:
                decode(self._by_type[name].message, packed.value, self._what)
        except InvalidInputError as error:
            return error
        if not name:
            return InvalidInputError(f"{self._what} is empty; it must be a Flight SQL message packed in Any")
        handled = ", ".join(sorted(self._by_type))
        return UnsupportedError(f"the gateway does not answer {self._what} {name}; it answers {handled}")


def check_size(data: bytes, what: str, max_bytes: int) -> None:
    """Check that a message has no more bytes than it may.

    Raises:
        InvalidInputError: it has; the text calls it `what`.
    """
    if len(data) > max_bytes:
        raise InvalidInputError(
            f"{what} has {len(data)} bytes, more than the {max_bytes} that are allowed: send less, or ask "
            "the operator to raise max_message_bytes"
        )
