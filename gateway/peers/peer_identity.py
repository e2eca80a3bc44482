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
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow import flight

from gateway.auth.credentials import Bearer
from gateway.protocol.identity import Identity
from memwal.errors import InvalidInputError
from planner.access.rights import Access, TableAccess
from protos.flight_sql import build_bearer_header, read_tls_files

PEER = Identity("peer gateway", frozenset(), "peer")
MIN_TOKEN_LENGTH = 16
# Clocks of gateways may differ by half of it.
_PASS_SECONDS = 300
_CONNECT_MS = 2000
_PASS = re.compile(r"peer\.([0-9]{1,12})\.[0-9a-f]{64}")


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


@dataclass(frozen=True, slots=True)
class Trust:
    """How gateways know each other.

    Args:
        token: their secret.
        encrypted: whether rows may travel with TLS only.
        ca: PEM file of the authorities of their certificates; None trusts those of this machine.
        certificate: PEM file that is presented to gateways which demand one, with `key`.
        key: PEM file of its private key.
    """

    token: PeerToken
    encrypted: bool = False
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    _files: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InvalidInputError(
                "the certificate for other gateways and its key belong together: give both"
            )
        try:
            self._files.update(read_tls_files(self.ca, self.certificate, self.key))
        except OSError as error:
            raise InvalidInputError(f"{error.filename!r} cannot be read: {error.strerror}") from None

    def connect(self, url: str) -> flight.FlightClient:
        """Returns a client of another gateway; it connects when it is first used."""
        files = self._files if url.startswith("grpc+tls:") else {}
        # gRPC gives an address that does not answer so long before it tries the next.
        options = [
            ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
            ("grpc.max_reconnect_backoff_ms", _CONNECT_MS),
        ]
        return flight.FlightClient(url, generic_options=options, **files)

    def options(self, url: str, seconds: float) -> flight.FlightCallOptions:
        """Returns what a call to an address carries, that may take so long."""
        return flight.FlightCallOptions(
            timeout=seconds, headers=[build_bearer_header(self.token.pass_for(url))]
        )


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


NO_ACCESS: Access = NoAccess()
