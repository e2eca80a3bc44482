"""Authentication: from credentials to an identity."""

import logging

from lance_gateway.gateway.auth.credentials import (
    Basic,
    Bearer,
    Credentials,
    Throttle,
    UnauthenticatedError,
    parse_peer_address,
)
from lance_gateway.gateway.auth.gateway_tokens import ApiTokens, IssuedTokens
from lance_gateway.gateway.auth.jwt import JwtVerifier, is_jwt_shaped
from lance_gateway.gateway.auth.tls import Certificates
from lance_gateway.gateway.auth.users import Passwords
from lance_gateway.gateway.protocol.identity import Identity

logger = logging.getLogger(__name__)


class Authenticator:
    """Identifies callers by their credentials: tokens, passwords or certificates.

    Args:
        peers: refuses addresses that failed too often.
        passwords: None where users have none; then there are no issued tokens either.
        issued: tokens of those who logged in.
        api_tokens: static tokens.
        jwt: tokens of an identity provider.
        certificates: names in client certificates, for callers who present nothing else.
    """

    def __init__(
        self,
        peers: Throttle,
        *,
        passwords: Passwords | None = None,
        issued: IssuedTokens | None = None,
        api_tokens: ApiTokens | None = None,
        jwt: JwtVerifier | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self._peers = peers
        self._passwords = passwords
        self._issued = issued
        self._api_tokens = api_tokens
        self._jwt = jwt
        self._certificates = certificates

    @property
    def uses_certificates(self) -> bool:
        """Whether a certificate alone may identify a caller."""
        return self._certificates is not None

    def check_address(self, address: str) -> None:
        """Check that an address, as `normalise_address` writes it, may try to log in.

        Raises:
            ThrottledError: it failed too often.
        """
        self._peers.check(address)

    def login(self, credentials: Basic, address: str | None = None) -> str:
        """Return a bearer token for a user name and password.

        Args:
            credentials: of the user.
            address: that failures count for beside the user, as `normalise_address` writes it; None where it
                is not known.

        Raises:
            UnauthenticatedError: they are wrong, or failed too often.
            UnavailableError: too many logins at once.
        """
        if self._passwords is None or self._issued is None:
            raise UnauthenticatedError("this gateway accepts no passwords: send a token")
        if address is not None:
            self._peers.check(address)
        try:
            user = self._passwords.verify(credentials)
        except UnauthenticatedError:
            if address is not None:
                self._peers.record_failure(address)
            raise
        logger.info("user %r logged in", user.name)
        return self._issued.issue(user)

    def check(self, credentials: Credentials | None) -> Identity:
        """Return the identity of a caller whose address and certificate are not known.

        Handshakes do not know them, and streams do not before their first message.

        Raises:
            UnauthenticatedError: they are not valid.
            UnavailableError: it cannot be decided now.
        """
        match credentials:
            case None:
                raise self._create_refusal()
            case Bearer(token):
                return self._identify_token(token)
            case Basic():
                return self._identify_password(credentials)

    def identify(self, credentials: Credentials | None, peer: str, peer_identity: bytes) -> Identity:
        """Return the identity of a caller.

        Args:
            credentials: what the headers of the call present.
            peer: address of the caller, as gRPC writes it.
            peer_identity: name in the caller's verified certificate, if any.

        Raises:
            UnauthenticatedError: the caller is unknown.
            UnavailableError: it cannot be decided now.
        """
        if credentials is None:
            if self._certificates is not None:
                return self._certificates.identify(peer_identity)
            raise self._create_refusal()
        address = parse_peer_address(peer)
        try:
            if isinstance(credentials, Bearer):
                # Tokens can't be guessed: they are accepted from an address with failures, too.
                return self._identify_token(credentials.token)
            self._peers.check(address)
            return self._identify_password(credentials)
        except UnauthenticatedError:
            logger.warning("a call from %s was refused", address)
            self._peers.record_failure(address)
            raise

    def _identify_password(self, credentials: Basic) -> Identity:
        if self._passwords is None:
            raise UnauthenticatedError(f"this gateway accepts no passwords: {self._list_methods()}")
        return self._passwords.verify(credentials).to_identity("password")

    def _identify_token(self, token: str) -> Identity:
        for source in (self._issued, self._api_tokens):
            identity = None if source is None else source.find(token)
            if identity is not None:
                return identity
        if self._jwt is not None and is_jwt_shaped(token):
            return self._jwt.verify(token)
        raise UnauthenticatedError("the token is not valid, or no longer: log in again")

    def _create_refusal(self) -> UnauthenticatedError:
        return UnauthenticatedError(f"authentication is required: {self._list_methods()}")

    def _list_methods(self) -> str:
        if self._passwords is None:
            return "send a bearer token"
        return "send a user name and password, or a bearer token"
