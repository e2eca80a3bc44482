"""What a caller presents, read from the headers of a call."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from memwal.errors import LanceGatewayError


class UnauthenticatedError(LanceGatewayError):
    """A call whose credentials are missing or wrong.

    The text never tells whether a user exists; what was wrong in particular goes to the log.
    """

    status: ClassVar[str] = "UNAUTHENTICATED"


# Where pyarrow puts the token of the older handshake, whose password travels in a message.
LEGACY_HEADER = "auth-token-bin"


@dataclass(frozen=True, slots=True)
class Basic:
    """A user name and password."""

    name: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token, of whatever kind."""

    token: str = field(repr=False)


Credentials: TypeAlias = Basic | Bearer


def read_credentials(headers: Mapping[str, Sequence[str | bytes]]) -> Credentials | None:
    """Returns what the headers of a call present, None where they present nothing.

    Raises:
        UnauthenticatedError: they cannot be understood.
    """
    values = set(headers.get("authorization", ()))
    if len(values) > 1:
        raise UnauthenticatedError("the call has several authorization headers that differ: send one")
    for value in values:
        return _read_header(_text(value))
    for value in headers.get(LEGACY_HEADER, ()):
        if value:
            return Bearer(_text(value))
    return None


def _text(value: str | bytes) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode("ascii")
    except UnicodeDecodeError:
        raise UnauthenticatedError("the token of the call is not ASCII: log in again") from None


def _read_header(value: str) -> Credentials:
    scheme, _, rest = value.strip().partition(" ")
    rest = rest.strip()
    match scheme.lower():
        case "bearer" if rest:
            return Bearer(rest)
        case "basic" if rest:
            return _read_basic(rest)
        case _:
            raise UnauthenticatedError(
                "the authorization header cannot be read: send 'Basic <base64 of user:password>' or "
                "'Bearer <token>'"
            )


def _read_basic(encoded: str) -> Basic:
    try:
        # Some drivers leave the padding away.
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        name, colon, password = raw.decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise UnauthenticatedError(
            "the Basic credentials cannot be read: they must be the base64 of user:password, in UTF-8"
        )
    return Basic(name, password)
