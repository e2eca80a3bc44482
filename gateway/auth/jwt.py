"""JSON Web Tokens of an identity provider (OpenID Connect), and the public keys that sign them."""

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeAlias
from urllib.parse import urlsplit

import jwt
from cachetools import LRUCache

from lance_gateway.gateway.auth.credentials import UnauthenticatedError
from lance_gateway.gateway.auth.files import WatchedFile
from lance_gateway.gateway.auth.gateway_tokens import hash_token
from lance_gateway.gateway.protocol.identity import Identity
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError

# Key id -> key.
Keys: TypeAlias = Mapping[str, jwt.PyJWK]

_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1024 * 1024
# Keys are read again after this time even if no token asks for another.
_REFRESH_SECONDS = 3600.0
# Between two attempts: the first pause after a success, doubled with each failure up to the longest.
_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 300.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# Families of keys whose public half is all that a gateway needs.
_ASYMMETRIC = frozenset({"RSA", "EC", "OKP"})


def parse_keys(text: str, where: str) -> Keys:
    """Return the signature keys of a JSON Web Key Set; skip keys of other uses and kinds.

    Raises:
        InvalidInputError: the text is not a key set, or holds no signature key.
    """
    try:
        document = json.loads(text)
        entries = document["keys"]
        usable = [
            entry for entry in entries if entry.get("kty") in _ASYMMETRIC and entry.get("use", "sig") == "sig"
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidInputError(
            f'{where} is not a key set: it must be JSON such as {{"keys": [...]}}'
        ) from None
    keys: dict[str, jwt.PyJWK] = {}
    for entry in usable:
        try:
            key = jwt.PyJWK(entry)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            logger.warning("%s: key %r is left out: %s", where, entry.get("kid"), error)
            continue
        keys[str(entry.get("kid", ""))] = key
    if not keys:
        raise InvalidInputError(f"{where} holds no RSA, EC or OKP key for signatures")
    return MappingProxyType(keys)


class KeyFile:
    """Keys from a file, read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, parse_keys)

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key of that id; without an id, the only key there is."""
        return _choose_key(self._file(), key_id)


class KeyUrl:
    """Keys from a URL: fetched for the first token, then every hour and when a token names an unknown key.

    An unknown key, which anybody can name, leads to a fetch at most every few seconds; pauses grow while
    fetching fails, and the keys that were known go on to count.

    Args:
        url: `https://...`; `http://` on this machine only.
        clock: seconds, never going back.

    Raises:
        InvalidInputError: a URL of another kind.
    """

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        _check_url(url)
        self._url = url
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: Keys = MappingProxyType({})
        self._fetched: float | None = None
        self._next_attempt = clock()
        self._pause = _PAUSE_SECONDS

    def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """Return the key of that id; without an id, the only key there is.

        Raises:
            UnavailableError: no keys could be fetched yet.
        """
        key = _choose_key(self._keys, key_id)
        if key is not None and not self._is_old():
            return key
        with self._lock:
            # Another call may have fetched while this one waited.
            key = _choose_key(self._keys, key_id)
            if (key is None or self._is_old()) and self._clock() >= self._next_attempt:
                self._fetch()
        if not self._keys:
            raise UnavailableError("the keys that sign tokens cannot be fetched now: try again in a moment")
        return _choose_key(self._keys, key_id)

    def _is_old(self) -> bool:
        return self._fetched is None or self._clock() - self._fetched >= _REFRESH_SECONDS

    def _fetch(self) -> None:
        try:
            self._keys = parse_keys(_download(self._url), self._url)
        except (OSError, ValueError, HTTPException, InvalidInputError) as error:
            logger.warning(
                "keys cannot be fetched from %s: %s; trying again in %g s", self._url, error, self._pause
            )
            self._next_attempt = self._clock() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        else:
            logger.info("fetched %d keys from %s", len(self._keys), self._url)
            self._fetched = self._clock()
            self._pause = _PAUSE_SECONDS
            self._next_attempt = self._clock() + self._pause


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InvalidInputError(
            "keys cannot be fetched from an address that holds a user or a password: they are public, leave "
            "it out"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InvalidInputError(
            f"keys cannot be fetched from {url!r}: whoever changes them on the way is let in; use https"
        )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to URLs that are allowed as the source of keys."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str) -> str:
    with urllib.request.build_opener(_SafeRedirects).open(url, timeout=_TIMEOUT_SECONDS) as response:
        body: bytes = response.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise InvalidInputError(f"it answers with more than {_MAX_BYTES} bytes")
    return body.decode()


def open_keys(location: str) -> KeyFile | KeyUrl:
    """Return the keys of a file or a URL.

    Raises:
        InvalidInputError: there is no such file, it holds no keys, or the URL is not safe.
    """
    return KeyUrl(location) if "://" in location else KeyFile(Path(location))


def _choose_key(keys: Keys, key_id: str | None) -> jwt.PyJWK | None:
    if key_id is not None:
        return keys.get(key_id)
    return next(iter(keys.values())) if len(keys) == 1 else None


logger = logging.getLogger(__name__)

# Tokens come with every call, and signatures cost most of what a small query does.
_MAX_VERIFIED = 1000
# A shared secret, or no signature, would let anyone with the public key sign.
ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "ES256K", "EdDSA"}
)


class JwtVerifier:
    """Verifies tokens and maps their claims to identities.

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
        keys: KeyFile | KeyUrl,
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
        self._verified: LRUCache[str, _VerifiedToken] = LRUCache(_MAX_VERIFIED)

    def verify(self, token: str) -> Identity:
        """Return the identity of a token.

        Raises:
            UnauthenticatedError: the token is not valid, for a reason that only the log tells.
            UnavailableError: the provider's keys cannot be fetched.
        """
        digest = hash_token(token)
        with self._lock:
            cached = self._verified.get(digest)
        if cached is not None and self._is_current(cached):
            return cached.identity
        try:
            verified = self._verify(token)
        except (jwt.PyJWTError, InvalidInputError) as error:
            # What these say names claims and algorithms, never the token.
            logger.warning("JWT refused: %s: %s", type(error).__name__, error)
            raise UnauthenticatedError("the token is not valid, or no longer") from None
        with self._lock:
            self._verified[digest] = verified
        return verified.identity

    def _is_current(self, verified: "_VerifiedToken") -> bool:
        # A key that was fetched again is another one.
        is_alive = verified.expires > self._now() - self._leeway
        return is_alive and self._keys.find(verified.key_id) is verified.key

    def _verify(self, token: str) -> "_VerifiedToken":
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
        name = _read_claim(claims, self._user_claim)
        if not isinstance(name, str):
            raise jwt.InvalidTokenError(f"claim {self._user_claim!r} is not there, or no text")
        identity = Identity(name, _parse_roles(_read_claim(claims, self._roles_claim)), "jwt")
        return _VerifiedToken(identity, int(claims["exp"]), key_id, key)


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """A token with a valid signature: it stays valid until it expires or its key is removed.

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


def is_jwt_shaped(token: str) -> bool:
    """Return whether a token has the form of a signed JWT: three parts between dots."""
    return token.count(".") == 2


def _read_claim(claims: dict[str, Any], name: str) -> object:
    # Providers use URLs, with dots, as claim names: the plain name goes first.
    if name in claims:
        return claims[name]
    value: object = claims
    for step in name.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(step)
    return value


def _parse_roles(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return frozenset(role for role in value if isinstance(role, str))
    return frozenset()
