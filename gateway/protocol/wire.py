"""Protobuf messages as Flight SQL puts them on the wire; a client reads them without the planner."""

from typing import TypeVar

from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError, Message

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.protos.flight_sql import TYPE_PREFIX

M = TypeVar("M", bound=Message)


def decode(kind: type[M], data: bytes, what: str) -> M:
    """Decode `data` as a message of `kind`.

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
    """Decode `data` as a message of `kind` packed in google.protobuf.Any.

    Raises:
        InvalidInputError: the bytes are something else; the text calls them `what`.
    """
    packed = decode(Any, data, what)
    name = kind.DESCRIPTOR.full_name
    if packed.type_url != TYPE_PREFIX + name and packed.TypeName() != name:
        raise InvalidInputError(f"{what} holds {packed.TypeName() or 'nothing'}; it must hold a {name}")
    return decode(kind, packed.value, what)
