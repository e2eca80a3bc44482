"""What a server asks about its callers."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from pyarrow import flight

from gateway.auth.authenticator import Authenticator
from gateway.auth.handshake import CredentialsMiddleware, handshakes
from gateway.auth.tls import PLAINTEXT
from gateway.protocol.identity import ANONYMOUS, Identity
from gateway.protocol.middleware import CallMiddlewareFactory
from planner.access.rights import FULL_ACCESS, Access, FullAccess

CallMiddleware: TypeAlias = Mapping[str, flight.ServerMiddleware]
"""What looked at the headers of a call, by name."""
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

    def middleware(self) -> Mapping[str, CallMiddlewareFactory]:
        """What looks at the headers of each call."""

    def identify(self, context: flight.ServerCallContext, middleware: CallMiddleware) -> Identity:
        """Returns who makes a call; every handler asks before it does anything.

        Args:
            context: of the call.
            middleware: of the call, by the names that `middleware` gives.

        Raises:
            UnauthenticatedError: nobody that is known.
            UnavailableError: it cannot be decided now.
        """

    def access(self, identity: Identity) -> Access:
        """Returns what a principal may see; the same object while the policy lasts."""


@lru_cache(maxsize=_MAX_PRINCIPALS)
def _see_everything(identity: Identity) -> Access:
    """What everybody may see where there is no policy: all tables."""
    if identity == ANONYMOUS:
        return FULL_ACCESS
    return FullAccess(identity.name, ADMIN_ROLE in identity.roles)


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
        self._access = _see_everything if access is None else access

    def middleware(self) -> Mapping[str, CallMiddlewareFactory]:
        """Answers handshakes with a token that means nothing."""
        return {_CREDENTIALS: _OpenHandshakeMiddlewareFactory()}

    def identify(self, context: flight.ServerCallContext, middleware: CallMiddleware) -> Identity:  # noqa: ARG002 - every caller alike
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
        self._access = _see_everything if access is None else access
        self.tls = tls
        handshake, self._credentials = handshakes(authenticator)
        # A server that shakes hands does not learn the name in its client's certificate.
        self.auth_handler = None if authenticator.uses_certificates else handshake

    def middleware(self) -> Mapping[str, CallMiddlewareFactory]:
        """Reads the credentials of each call."""
        return MappingProxyType({_CREDENTIALS: self._credentials})

    def identify(self, context: flight.ServerCallContext, middleware: CallMiddleware) -> Identity:
        """Returns who makes a call.

        Raises:
            UnauthenticatedError: nobody that is known.
            UnavailableError: it cannot be decided now.
        """
        presented: CredentialsMiddleware = middleware[_CREDENTIALS]
        return self._authenticator.identify(presented.credentials, context.peer(), context.peer_identity())

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


class _OpenHandshakeMiddlewareFactory(CallMiddlewareFactory):
    methods = frozenset({flight.FlightMethod.HANDSHAKE})

    def start_call(
        self,
        info: flight.CallInfo,  # noqa: ARG002 - the signature is Flight's
        headers: Mapping[str, Sequence[str]],  # noqa: ARG002
    ) -> flight.ServerMiddleware:
        return _OpenHandshakeMiddleware()
