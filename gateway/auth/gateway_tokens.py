"""Bearer tokens that the gateway makes itself: issued for a login, or static ones for programs.

Both are 256 random bits. The gateway remembers only their SHA-256 digests, which it looks up: what a guess
shares with a digest says nothing about the token, so the time that a lookup takes says nothing either.
"""

import datetime as dt
import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import tomlkit
from cachetools import TTLCache
from pydantic import Field

from lance_gateway.gateway.auth.files import Strict, read_text, read_toml
from lance_gateway.gateway.auth.users import User, Users, put_table, write_private
from lance_gateway.gateway.protocol.identity import Identity, check_name
from lance_gateway.memwal.errors import InvalidInputError

_MAX_ISSUED = 20_000
_STATIC_PREFIX = "lgw_"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def hash_token(token: str) -> str:
    """Return the SHA-256 digest of a token, in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


class IssuedTokens:
    """The tokens of users who logged in with a password.

    A token ends after its lifetime, when its user is taken out of the user file, and when the user's password
    changes. Beyond `capacity`, the one unused longest ends early.

    Args:
        users: what the user file says now.
        lifetime: of a token, in seconds.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        users: Callable[[], Users],
        lifetime: float,
        *,
        capacity: int = _MAX_ISSUED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if lifetime <= 0:
            raise InvalidInputError(f"a token lifetime of {lifetime} s: give it some time")
        self._users = users
        self._lock = threading.Lock()
        self._issued: TTLCache[str, User] = TTLCache(capacity, lifetime, timer=clock)

    def issue(self, user: User) -> str:
        """Return a new token of a user."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._issued[hash_token(token)] = user
        return token

    def find(self, token: str) -> Identity | None:
        """Return the user of a token with present roles; None if the token is unknown or has expired."""
        with self._lock:
            issued_to = self._issued.get(hash_token(token))
        if issued_to is None:
            return None
        user = self._users().by_name.get(issued_to.name)
        if user is None or user.password_hash != issued_to.password_hash:
            return None
        return user.to_identity("password")


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A line of the token file.

    Args:
        name: of the token, for those who manage the file.
        digest: SHA-256 of the token, in hex.
        user: whom it stands for.
        roles: what a policy grants to.
        expires: when it ends; None for never.
    """

    name: str
    digest: str = field(repr=False)
    user: str
    roles: frozenset[str] = frozenset()
    expires: dt.datetime | None = None

    def __post_init__(self) -> None:
        check_name(self.user)
        if not _SHA256.fullmatch(self.digest):
            raise InvalidInputError(
                f"token {self.name!r}: sha256 must be 64 lower-case hex digits; make one with "
                "`lance-gateway token create`"
            )
        if self.expires is not None and self.expires.tzinfo is None:
            raise InvalidInputError(
                f"token {self.name!r}: expires {self.expires} has no time zone: append Z or an offset"
            )


class _TokenTable(Strict):
    sha256: str
    user: str
    roles: tuple[str, ...] = ()
    expires: dt.datetime | None = None


class _TokenFile(Strict):
    tokens: dict[str, _TokenTable] = Field(default_factory=dict)


def parse_tokens(text: str, where: str) -> Mapping[str, ApiToken]:
    """Return digest -> token for the text of a token file.

    Raises:
        InvalidInputError: what is wrong, and in which file.
    """
    by_digest: dict[str, ApiToken] = {}
    for name, table in read_toml(text, where, _TokenFile).tokens.items():
        try:
            token = ApiToken(name, table.sha256, table.user, frozenset(table.roles), table.expires)
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
        if token.digest in by_digest:
            raise InvalidInputError(
                f"{where}: {by_digest[token.digest].name!r} and {name!r} are the same token: remove one"
            )
        by_digest[token.digest] = token
    return MappingProxyType(by_digest)


class ApiTokens:
    """The static tokens of a token file.

    Args:
        tokens: what the token file says now, by digest.
        now: the time.
    """

    def __init__(
        self,
        tokens: Callable[[], Mapping[str, ApiToken]],
        *,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self._tokens = tokens
        self._now = now

    def find(self, token: str) -> Identity | None:
        """Return the identity of a token; None if it is unknown or has expired."""
        token_entry = self._tokens().get(hash_token(token))
        if token_entry is None or (token_entry.expires is not None and token_entry.expires <= self._now()):
            return None
        return Identity(token_entry.user, token_entry.roles, "token")


def create_token(
    path: Path, name: str, user: str, roles: frozenset[str], expires: dt.datetime | None = None
) -> str:
    """Create a static token, add its digest to a token file, and return it; it is stored nowhere else.

    Raises:
        InvalidInputError: there is one of that name already, or the file is not a token file.
    """
    text = read_text(path) if path.exists() else ""
    if name in {token.name for token in parse_tokens(text, str(path)).values()}:
        raise InvalidInputError(f"token {name!r} is in {path} already: revoke it first, or choose a name")
    token = _STATIC_PREFIX + secrets.token_urlsafe(32)
    entry = ApiToken(name, hash_token(token), user, roles, expires)
    document = tomlkit.parse(text)
    table = tomlkit.table()
    table["sha256"] = entry.digest
    table["user"] = entry.user
    table["roles"] = sorted(entry.roles)
    if expires is not None:
        table["expires"] = expires
    put_table(document, "tokens", name, table)
    write_private(path, tomlkit.dumps(document))
    return token


def revoke_token(path: Path, name: str) -> None:
    """Remove a static token from a token file.

    Raises:
        InvalidInputError: there is none of that name.
    """
    text = read_text(path)
    if name not in {token.name for token in parse_tokens(text, str(path)).values()}:
        raise InvalidInputError(f"token {name!r} is not in {path}")
    document = tomlkit.parse(text)
    cast("dict[str, Any]", document["tokens"]).pop(name)
    write_private(path, tomlkit.dumps(document))
