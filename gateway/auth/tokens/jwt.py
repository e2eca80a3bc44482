"""JSON Web Tokens of an identity provider (OpenID Connect)."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jwt
from cachetools import LRUCache

from gateway.auth.credentials import UnauthenticatedError
from gateway.auth.tokens.gateway_tokens import digest_of
from gateway.protocol.identity import Identity
from memwal.errors import InvalidInputError

logger = logging.getLogger(__name__)

# Tokens come with every call, and signatures cost most of what a small query does.
_MAX_VERIFIED = 1000
# A shared secret, or no signature at all, would let whoever knows the public key sign.
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA"}
)


class KeySource(Protocol):
    """Where the keys that sign tokens come from."""

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Returns the key of that id, None where it is not known."""


class JwtVerifier:
    """Decides whom a token stands for.

    Args:
        keys: of the provider.
        issuer: who must have issued a token.
        audience: whom a token must be meant for; one of several is enough.
        algorithms: of the signatures that are accepted.
        user_claim: the claim that names the user.
        roles_claim: the claim that lists roles, or holds them separated by spaces.
        leeway: seconds by which clocks may differ.
        now: the time, in seconds since 1970.

    A claim is found by its name, or step by step by a path with dots ("realm_access.roles").

    Raises:
        InvalidInputError: a check would check nothing, or an algorithm is not safe here.
    """

    def __init__(
        self,
        keys: KeySource,
        issuer: str,
        audience: str | Sequence[str],
        *,
        algorithms: Sequence[str] = ("RS256", "ES256"),
        user_claim: str = "sub",
        roles_claim: str = "roles",
        leeway: float = 30.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not issuer or not audience:
            raise InvalidInputError(
                "JWT without issuer and audience: the provider's tokens for any other service would be "
                "accepted; set both"
            )
        unsafe = [name for name in algorithms if name not in ALGORITHMS]
        if unsafe or not algorithms:
            raise InvalidInputError(
                f"JWT algorithms {list(algorithms)}: choose some of {', '.join(sorted(ALGORITHMS))}"
            )
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._algorithms = list(algorithms)
        self._user_claim = user_claim
        self._roles_claim = roles_claim
        self._leeway = leeway
        self._now = now
        self._lock = threading.Lock()
        self._verified: LRUCache[str, _Verified] = LRUCache(_MAX_VERIFIED)

    def verify(self, token: str) -> Identity:
        """Returns whom a token stands for.

        Raises:
            UnauthenticatedError: the token is not valid, for a reason that only the log tells.
            UnavailableError: the provider's keys cannot be fetched.
        """
        digest = digest_of(token)
        with self._lock:
            known = self._verified.get(digest)
        if known is not None and self._still_counts(known):
            return known.identity
        try:
            verified = self._verify(token)
        except (jwt.PyJWTError, InvalidInputError) as error:
            # What these say names claims and algorithms, never the token.
            logger.warning("JWT refused: %s: %s", type(error).__name__, error)
            raise UnauthenticatedError("the token is not valid, or no longer") from None
        with self._lock:
            self._verified[digest] = verified
        return verified.identity

    def _still_counts(self, known: "_Verified") -> bool:
        # A key that was fetched again is another one.
        return known.expires > self._now() - self._leeway and self._keys.find(known.key_id) is known.key

    def _verify(self, token: str) -> "_Verified":
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in self._algorithms:
            raise jwt.InvalidAlgorithmError(f"algorithm {algorithm!r:.40} is not accepted")
        key_id = header.get("kid")
        key = self._keys.find(key_id)
        if key is None:
            raise jwt.InvalidKeyError("the key that it names is not known")
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=self._algorithms,
            issuer=self._issuer,
            audience=self._audience,
            leeway=self._leeway,
            options={"require": ["exp", "iss", "aud"]},
        )
        name = _claim(claims, self._user_claim)
        if not isinstance(name, str):
            raise jwt.InvalidTokenError(f"claim {self._user_claim!r} is not there, or no text")
        identity = Identity(name, _roles(_claim(claims, self._roles_claim)), "jwt")
        return _Verified(identity, int(claims["exp"]), key_id, key)


@dataclass(frozen=True, slots=True)
class _Verified:
    """A token whose signature was right: only time and its key can change that.

    Args:
        identity: whom it stands for.
        expires: in seconds since 1970.
        key_id: that it names.
        key: that signed it.
    """

    identity: Identity
    expires: int
    key_id: str | None
    key: jwt.PyJWK


def looks_like_jwt(token: str) -> bool:
    """Whether a token has the form of a signed JWT: three parts between dots."""
    return token.count(".") == 2


def _claim(claims: dict[str, Any], name: str) -> object:
    # Providers use URLs, with dots, as claim names: the plain name goes first.
    if name in claims:
        return claims[name]
    value: object = claims
    for step in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _roles(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return frozenset(role for role in value if isinstance(role, str))
    return frozenset()
