"""Encryption, and what a client's certificate says about the client."""

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lance_gateway.gateway.auth.credentials import UnauthenticatedError
from lance_gateway.gateway.auth.users import Users
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError


def read_tls_arguments(certificate: Path, key: Path, client_ca: Path | None = None) -> Mapping[str, Any]:
    """Return the arguments of a Flight server with TLS.

    Args:
        certificate: PEM file of the server's certificate, followed by those of intermediate authorities.
        key: PEM file of its private key, not encrypted.
        client_ca: PEM file of the authorities one of which must have signed a client's certificate; None
            asks clients for no certificate.

    Raises:
        InvalidInputError: a file cannot be read, or certificate and key do not belong together.
    """
    pair = (_read_file(certificate, "certificate"), _read_file(key, "key"))
    # gRPC would start with such files and fail every connection.
    try:
        # Without a password for an encrypted key, OpenSSL would ask on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise InvalidInputError(
            f"certificate {str(certificate)!r} and key {str(key)!r} cannot be used: {_format_reason(error)}"
        ) from None
    arguments: dict[str, Any] = {"tls_certificates": [pair]}
    if client_ca is not None:
        authorities = _read_file(client_ca, "client authorities")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(client_ca)
        except ssl.SSLError as error:
            raise InvalidInputError(
                f"client authorities {str(client_ca)!r} cannot be used: {_format_reason(error)}"
            ) from None
        arguments |= {"verify_client": True, "root_certificates": authorities}
    return MappingProxyType(arguments)


class Certificates:
    """Identifies clients by their certificates.

    gRPC tells one name of a certificate whose chain it verified: the first subject alternative name, or the
    common name where there are none.

    Args:
        users: what the user file says now; None without one: then each name is that of a user.
    """

    def __init__(self, users: Callable[[], Users] | None = None) -> None:
        self._users = users

    def identify(self, peer_identity: bytes) -> Identity:
        """Return the identity of a client.

        Raises:
            UnauthenticatedError: no user has that name.
            PreconditionError: the connection tells no name.
        """
        if not peer_identity:
            raise PreconditionError("the connection tells no name of a client certificate")
        try:
            name = peer_identity.decode()
            if self._users is None:
                return Identity(name, frozenset(), "certificate")
            user = self._users().by_certificate.get(name)
        except (UnicodeDecodeError, InvalidInputError):
            user = None
        if user is None:
            raise UnauthenticatedError("the name in the client certificate is not known")
        return user.to_identity("certificate")


def _read_file(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{what} {str(path)!r} cannot be read: {error.strerror}") from None


def _format_reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
