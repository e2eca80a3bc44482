"""Credentials in the headers of a call, and the throttle of failed attempts."""

import base64
import binascii
import ipaddress
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from cachetools import LRUCache

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError


class UnauthenticatedError(LanceGatewayError):
    """A call whose credentials are missing or wrong.

    The text never tells whether a user exists; what was wrong in particular goes to the log.
    """

    status: ClassVar[str] = "UNAUTHENTICATED"


class ThrottledError(UnauthenticatedError):
    """A user or an address that failed too often has to wait.

    Args:
        message: for the caller.
        retry_seconds: to wait.
    """

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


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
    """Return the credentials in the headers of a call; None if there are none.

    Raises:
        UnauthenticatedError: they cannot be understood.
    """
    values = set(headers.get("authorization", ()))
    if len(values) > 1:
        raise UnauthenticatedError("the call has several authorization headers that differ: send one")
    for value in values:
        return _read_header(_decode_text(value))
    for value in headers.get(LEGACY_HEADER, ()):
        if value:
            return Bearer(_decode_text(value))
    return None


def _decode_text(value: str | bytes) -> str:
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


_MAX_REMEMBERED = 10_000
# The owner of one IPv6 address usually has its whole network.
_IPV6_PREFIX = 64


class Throttle:
    """Refuses attempts after too many failures, for a while.

    A leaky bucket for each subject: it holds `max_failures`, and empties evenly within `window` seconds.
    Only failures fill it, so that many successful logins at once do no harm. The subjects that failed longest
    ago are forgotten first.

    Args:
        what: the subjects are called in messages ("user", "address").
        max_failures: failures before the first refusal.
        window: seconds after which a full bucket is empty again.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        what: str,
        max_failures: int,
        window: float,
        *,
        capacity: int = _MAX_REMEMBERED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_failures < 1 or window <= 0:
            raise InvalidInputError(
                f"{max_failures} failures in {window} s: allow at least 1 in a time above 0"
            )
        self._what = what
        self._max_failures = max_failures
        self._rate = max_failures / window
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: LRUCache[Hashable, tuple[float, float]] = LRUCache(capacity)

    def check(self, subject: Hashable) -> None:
        """Check that a subject may try again.

        Raises:
            ThrottledError: the subject failed too often; the text says how long to wait.
        """
        with self._lock:
            excess = self._compute_level(subject) - self._max_failures + 1
        if excess > 0:
            seconds = max(1, round(excess / self._rate))
            raise ThrottledError(
                f"too many failed attempts by this {self._what}: wait {seconds} s and try again", seconds
            )

    def record_failure(self, subject: Hashable) -> None:
        """Record a failed attempt."""
        with self._lock:
            level = min(self._compute_level(subject) + 1, self._max_failures)
            self._levels[subject] = (level, self._clock())

    def _compute_level(self, subject: Hashable) -> float:
        level, since = self._levels.get(subject, (0.0, 0.0))
        return max(0.0, level - (self._clock() - since) * self._rate)


def parse_peer_address(peer: str) -> str:
    """Return the address of a peer, without its port, from gRPC's text; throttles count by it.

    >>> address_of("ipv4:127.0.0.1:34567"), address_of("ipv6:%5B2001:db8::7%5D:443")
    ('127.0.0.1', '2001:db8::/64')
    """
    kind, _, rest = peer.partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return kind
    return normalise_address(rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]"))


def normalise_address(host: str) -> str:
    """Return an address as throttles count it: of IPv6, its network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
