"""Other gateways over the same root, which forward rows to the owner of their region.

They share a secret. It never travels: a call carries a pass that was made with it, good for some minutes and
for the gateway at one address. Addresses are read from files beside the tables, and whoever can write there
could have calls sent to himself. A pass opens one door: rows that another gateway has checked may be written.
It reads nothing and runs no statement.
"""

import hashlib
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyarrow import flight

from gateway.auth.credentials import Bearer, UnauthenticatedError, read_credentials
from gateway.auth.security import CallMiddleware, Security
from gateway.protocol.identity import Identity
from gateway.protocol.middleware import CallMiddlewareFactory
from memwal.errors import InvalidInputError
from planner.access.rights import Access, TableAccess

PEER = Identity("peer gateway", frozenset(), "peer")
MIN_TOKEN_LENGTH = 16
# Clocks of gateways may differ by half of it.
_PASS_SECONDS = 300
_PASS = re.compile(r"peer\.([0-9]{1,12})\.[0-9a-f]{64}")
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

    def pass_for(self, url: str) -> str:
        """Returns what opens the gateway at an address for some minutes."""
        return self._signed(int(time.time()) + _PASS_SECONDS, url)

    def opens(self, credentials: object, url: str) -> bool:
        """Whether a caller presents a pass for an address; takes as long however much of it is right."""
        found = _PASS.fullmatch(credentials.token) if isinstance(credentials, Bearer) else None
        if found is None:
            return False
        expires = int(found[1])
        is_theirs = hmac.compare_digest(found[0], self._signed(expires, url))
        return is_theirs and abs(expires - time.time() - _PASS_SECONDS / 2) <= _PASS_SECONDS

    def _signed(self, expires: int, url: str) -> str:
        signature = hmac.new(self.text.encode(), f"{expires} {url}".encode(), hashlib.sha256)
        return f"peer.{expires}.{signature.hexdigest()}"


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
        url: where they reach this one.
    """

    def __init__(self, others: Security, token: PeerToken, url: str) -> None:
        self._others = others
        self._middleware = _PeerMiddlewareFactory(token, url)

    @property
    def auth_handler(self) -> flight.ServerAuthHandler | None:
        """What answers handshakes; gateways shake no hands."""
        return self._others.auth_handler

    @property
    def tls(self) -> Mapping[str, Any]:
        """As of the others."""
        return self._others.tls

    def middleware(self) -> Mapping[str, CallMiddlewareFactory]:
        """That of the others, and what recognises gateways."""
        return {**self._others.middleware(), _PEERS: self._middleware}

    def identify(self, context: flight.ServerCallContext, middleware: CallMiddleware) -> Identity:
        """Returns who makes a call.

        Raises:
            UnauthenticatedError: nobody that is known.
            UnavailableError: it cannot be decided now.
        """
        return PEER if _PEERS in middleware else self._others.identify(context, middleware)

    def access(self, identity: Identity) -> Access:
        """Returns what a principal may see; gateways see nothing."""
        return _NO_ACCESS if identity == PEER else self._others.access(identity)


class _PeerMiddlewareFactory(CallMiddlewareFactory):
    methods = frozenset({flight.FlightMethod.DO_PUT})

    def __init__(self, token: PeerToken, url: str) -> None:
        super().__init__()
        self._token = token
        self._url = url

    def start_call(
        self,
        info: flight.CallInfo,  # noqa: ARG002 - the signature is Flight's
        headers: Mapping[str, Sequence[str | bytes]],
    ) -> flight.ServerMiddleware | None:
        try:
            credentials = read_credentials(headers)
        except UnauthenticatedError:
            # The others say what is wrong with them.
            return None
        return flight.ServerMiddleware() if self._token.opens(credentials, self._url) else None
