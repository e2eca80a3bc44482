"""Authentication between gateways over the same root, which forward rows to the owner of their region.

They share a secret, which is never sent: a call carries a pass that is signed with it, valid for some minutes
and for the gateway at one address, since addresses are read from files that others may be able to write. A
pass permits nothing but writing rows that another gateway has checked.
"""

import hashlib
import hmac
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow import flight

from lance_gateway.gateway.auth.credentials import Bearer
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.access.rights import Access, TableAccess
from lance_gateway.protos.flight_sql import build_bearer_header, read_tls_files

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

    def issue_pass(self, url: str) -> str:
        """Return a pass to the gateway at an address, valid for some minutes."""
        return self._sign(int(time.time()) + _PASS_SECONDS, url)

    def is_valid_pass(self, credentials: object, url: str) -> bool:
        """Return whether the credentials are a pass for an address, in constant time."""
        match = _PASS.fullmatch(credentials.token) if isinstance(credentials, Bearer) else None
        if match is None:
            return False
        expires = int(match[1])
        is_theirs = hmac.compare_digest(match[0], self._sign(expires, url))
        return is_theirs and abs(expires - time.time() - _PASS_SECONDS / 2) <= _PASS_SECONDS

    def _sign(self, expires: int, url: str) -> str:
        signature = hmac.new(self.text.encode(), f"{expires} {url}".encode(), hashlib.sha256)
        return f"peer.{expires}.{signature.hexdigest()}"


@dataclass(frozen=True, slots=True)
class Trust:
    """The credentials and certificates that gateways use with each other.

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
        """Return a client of another gateway; it connects when it is first used."""
        files = self._files if url.startswith("grpc+tls:") else {}
        # gRPC gives an address that does not answer so long before it tries the next.
        options = [
            ("grpc.min_reconnect_backoff_ms", _CONNECT_MS),
            ("grpc.max_reconnect_backoff_ms", _CONNECT_MS),
        ]
        return flight.FlightClient(url, generic_options=options, **files)

    def build_options(self, url: str, seconds: float) -> flight.FlightCallOptions:
        """Return the options of a call to an address: a pass and a timeout."""
        return flight.FlightCallOptions(
            timeout=seconds, headers=[build_bearer_header(self.token.issue_pass(url))]
        )


@dataclass(frozen=True, eq=False)
class NoAccess:
    """Sees no table and writes none by statements."""

    user: str = PEER.name
    is_admin: bool = False

    def of(self, table: str) -> TableAccess | None:  # noqa: ARG002 - every table alike
        """Return None: no table is visible."""
        return None

    def can_write(self, table: str) -> bool:  # noqa: ARG002 - every table alike
        """Return False."""
        return False

    def covers_schema(self, schema: str, *, to_write: bool = False) -> bool:  # noqa: ARG002 - every schema alike
        """Return False."""
        return False


NO_ACCESS: Access = NoAccess()
