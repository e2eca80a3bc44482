"""What a server asks about its callers."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyarrow import flight

from gateway.auth.identity import ANONYMOUS, Identity
from planner.access import FULL_ACCESS, Access


class Security(Protocol):
    """Authenticates calls and says what their principals may see."""

    @property
    def auth_handler(self) -> flight.ServerAuthHandler | None:
        """What answers handshakes."""

    @property
    def tls(self) -> Mapping[str, Any]:
        """Arguments of FlightServerBase that turn on TLS; empty for plaintext."""

    def middleware(self) -> Mapping[str, flight.ServerMiddlewareFactory]:
        """What looks at the headers of each call; a factory refuses a call by raising."""

    def identify(self, context: flight.ServerCallContext) -> Identity:
        """Returns who makes a call that the middleware let through."""

    def access(self, identity: Identity) -> Access:
        """Returns what a principal may see; the same object while the policy lasts."""


class OpenSecurity:
    """Lets everybody in, with or without a name, to see everything."""

    def __init__(self) -> None:
        self.auth_handler: flight.ServerAuthHandler | None = _OpenHandshake()
        self.tls: Mapping[str, Any] = {}

    def middleware(self) -> Mapping[str, flight.ServerMiddlewareFactory]:
        """Answers handshakes with a token that means nothing."""
        return {"authentication": _OpenHandshakeMiddlewareFactory()}

    def identify(self, context: flight.ServerCallContext) -> Identity:  # noqa: ARG002 - every caller alike
        """Everybody is anonymous."""
        return ANONYMOUS

    def access(self, identity: Identity) -> Access:  # noqa: ARG002 - every caller alike
        """Everything."""
        return FULL_ACCESS


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
