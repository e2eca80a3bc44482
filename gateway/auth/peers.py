"""Other gateways over the same root, which forward rows to the owner of their region.

They share a secret, and present it as `authorization: Bearer ...`. It opens one door: rows that another gateway has
checked may be written. It reads nothing and runs no statement.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import flight

from gateway.auth.credentials import Bearer, read_credentials
from gateway.auth.errors import UnauthenticatedError
from gateway.auth.identity import Identity
from gateway.auth.security import Security
from memwal.errors import InvalidInputError
from planner.access import Access, TableAccess

PEER = Identity("peer gateway", frozenset(), "peer")
MIN_TOKEN_LENGTH = 16
_PEERS = "peers"


@dataclass(frozen=True, slots=True)
class PeerToken:
    """The secret that all gateways of a root share.

    Args:
        text: at least 16 ASCII characters without spaces.
    """

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        text = self.text
        if len(text) < MIN_TOKEN_LENGTH or not text.isascii() or not text.isprintable() or " " in text:
            raise InvalidInputError(
                f"the peer token has {len(text)} characters: it must be {MIN_TOKEN_LENGTH} or more ASCII "
                "characters without spaces, such as `openssl rand -hex 32` prints"
            )

    def is_that_of(self, credentials: object) -> bool:
        """Whether a caller presents the secret; takes the same time however much of it is right."""
        if not isinstance(credentials, Bearer):
            return False
        given, expected = (
            hashlib.sha256(text.encode(errors="surrogateescape")).digest()
            for text in (credentials.token, self.text)
        )
        return hmac.compare_digest(given, expected)


@dataclass(frozen=True, eq=False)
class NoAccess:
    """Sees no table and writes none by statements."""

    user: str = PEER.name
    is_admin: bool = False

    def of(self, table: str) -> TableAccess | None:  # noqa: ARG002 - every table alike
        """Nothing."""
        return None

    def may_write(self, table: str) -> bool:  # noqa: ARG002 - every table alike
        """Nowhere."""
        return False


_NO_ACCESS: Access = NoAccess()


class PeerSecurity:
    """Lets other gateways in, besides those whom another security lets in.

    Args:
        others: decides about all other callers.
        token: of the gateways.
    """

    def __init__(self, others: Security, token: PeerToken) -> None:
        self._others = others
        self._token = token

    @property
    def auth_handler(self) -> flight.ServerAuthHandler | None:
        """What answers handshakes; gateways shake no hands."""
        return self._others.auth_handler

    @property
    def tls(self) -> Mapping[str, Any]:
        """As of the others."""
        return self._others.tls

    def middleware(self) -> Mapping[str, flight.ServerMiddlewareFactory]:
        """That of the others, and what recognises gateways."""
        return {**self._others.middleware(), _PEERS: _PeerMiddlewareFactory(self._token)}

    def identify(self, context: flight.ServerCallContext) -> Identity:
        """Returns who makes a call.

        Raises:
            UnauthenticatedError: nobody that is known.
            UnavailableError: it cannot be decided now.
        """
        return PEER if context.get_middleware(_PEERS) is not None else self._others.identify(context)

    def access(self, identity: Identity) -> Access:
        """Returns what a principal may see; gateways see nothing."""
        return _NO_ACCESS if identity == PEER else self._others.access(identity)


class _PeerMiddlewareFactory(flight.ServerMiddlewareFactory):
    def __init__(self, token: PeerToken) -> None:
        super().__init__()
        self._token = token

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]]
    ) -> flight.ServerMiddleware | None:
        if info.method != flight.FlightMethod.DO_PUT:
            return None
        try:
            credentials = read_credentials(headers)
        except UnauthenticatedError:
            # The others say what is wrong with them.
            return None
        return flight.ServerMiddleware() if self._token.is_that_of(credentials) else None
