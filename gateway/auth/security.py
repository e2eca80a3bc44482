"""What a server asks about its callers."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Any, Protocol

from cachetools import LRUCache, cached
from pyarrow import flight

from gateway.auth.authenticator import Authenticator
from gateway.auth.handshake import CredentialsMiddleware, handshakes
from gateway.auth.identity import ANONYMOUS, Identity
from gateway.auth.tls import PLAINTEXT
from planner.access import FULL_ACCESS, Access, FullAccess

_CREDENTIALS = "credentials"
_MAX_PRINCIPALS = 10_000
# Whoever has it sees and stops the statements of others where no policy says who does.
ADMIN_ROLE = "admin"


class Security(Protocol):
    """Authenticates calls and says what their principals may see."""

    @property
    def auth_handler(self) -> flight.ServerAuthHandler | None:
        """What answers handshakes."""

    @property
    def tls(self) -> Mapping[str, Any]:
        """Arguments of FlightServerBase that turn on TLS; empty for plaintext."""

    def middleware(self) -> Mapping[str, flight.ServerMiddlewareFactory]:
        """What looks at the headers of each call."""

    def identify(self, context: flight.ServerCallContext) -> Identity:
        """Returns who makes a call; every handler asks before it does anything.

        Raises:
            UnauthenticatedError: nobody that is known.
            UnavailableError: it cannot be decided now.
        """

    def access(self, identity: Identity) -> Access:
        """Returns what a principal may see; the same object while the policy lasts."""


def see_everything() -> Callable[[Identity], Access]:
    """Returns what stands for a policy where there is none: everybody sees all tables."""

    @cached(LRUCache(_MAX_PRINCIPALS), lock=Lock())
    def access(identity: Identity) -> Access:
        if identity == ANONYMOUS:
            return FULL_ACCESS
        return FullAccess(identity.name, ADMIN_ROLE in identity.roles)

    return access


class OpenSecurity:
    """Lets everybody in, with or without a name.

    Args:
        access: what everybody, being anonymous, may see.
        tls: arguments of FlightServerBase that turn on TLS.
    """

    def __init__(
        self, access: Callable[[Identity], Access] | None = None, tls: Mapping[str, Any] = PLAINTEXT
    ) -> None:
        self.auth_handler: flight.ServerAuthHandler | None = _OpenHandshake()
        self.tls = tls
        self._access = see_everything() if access is None else access

    def middleware(self) -> Mapping[str, flight.ServerMiddlewareFactory]:
        """Answers handshakes with a token that means nothing."""
        return {_CREDENTIALS: _OpenHandshakeMiddlewareFactory()}

    def identify(self, context: flight.ServerCallContext) -> Identity:  # noqa: ARG002 - every caller alike
        """Everybody is anonymous."""
        return ANONYMOUS

    def access(self, identity: Identity) -> Access:
        """What everybody may see."""
        return self._access(identity)


class GuardedSecurity:
    """Lets nobody in whom the authenticator does not know.

    Args:
        authenticator: decides who a caller is.
        access: what a principal may see; by default everything.
        tls: arguments of FlightServerBase that turn on TLS.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        access: Callable[[Identity], Access] | None = None,
        tls: Mapping[str, Any] = PLAINTEXT,
    ) -> None:
        self._authenticator = authenticator
        self._access = see_everything() if access is None else access
        self.tls = tls
        handshake, self._credentials = handshakes(authenticator)
        # A server that shakes hands does not learn the name in its client's certificate.
        self.auth_handler = None if authenticator.uses_certificates else handshake

    def middleware(self) -> Mapping[str, flight.ServerMiddlewareFactory]:
        """Reads the credentials of each call."""
        return MappingProxyType({_CREDENTIALS: self._credentials})

    def identify(self, context: flight.ServerCallContext) -> Identity:
        """Returns who makes a call.

        Raises:
            UnauthenticatedError: nobody that is known.
            UnavailableError: it cannot be decided now.
        """
        middleware: CredentialsMiddleware = context.get_middleware(_CREDENTIALS)
        return self._authenticator.identify(middleware.credentials, context.peer(), context.peer_identity())

    def access(self, identity: Identity) -> Access:
        """Returns what a principal may see."""
        return self._access(identity)


class _OpenHandshake(flight.ServerAuthHandler):
    def authenticate(self, outgoing: object, incoming: object) -> None:
        pass

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002 - the signature is Flight's
        return b""


class _OpenHandshakeMiddleware(flight.ServerMiddleware):
    def sending_headers(self) -> dict[str, str]:
        # Where clients that send a user and password look for their token.
        return {"authorization": "Bearer anonymous"}


class _OpenHandshakeMiddlewareFactory(flight.ServerMiddlewareFactory):
    def start_call(
        self,
        info: flight.CallInfo,
        headers: Mapping[str, Sequence[str]],  # noqa: ARG002 - the signature is Flight's
    ) -> flight.ServerMiddleware | None:
        return _OpenHandshakeMiddleware() if info.method == flight.FlightMethod.HANDSHAKE else None
