"""The user file (names, password hashes, certificates and roles), and how a password is checked.

```toml
[users.alice]
password = "$argon2id$v=19$m=65536,t=3,p=4$..."
roles = ["analyst"]

[users.loader]
certificates = ["loader.example.org"]
roles = ["writer"]
```

Verifying a password costs tens of milliseconds of CPU and tens of MiB on purpose. So it happens a few at a
time, and a password that was right is recognised afterwards by a keyed digest, for clients that send it with
every call.
"""

import hashlib
import hmac
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import tomlkit
from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerificationError
from pydantic import Field

from lance_gateway.gateway.auth.credentials import Basic, Throttle, UnauthenticatedError
from lance_gateway.gateway.auth.files import Strict, read_text, read_toml
from lance_gateway.gateway.protocol.expiring_cache import ExpiringCache
from lance_gateway.gateway.protocol.identity import MAX_NAME_LENGTH, Identity, check_name
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError


@dataclass(frozen=True, slots=True)
class User:
    """A line of the user file.

    Args:
        name: of the user.
        password_hash: argon2 in its usual text form; None for a user who has no password.
        certificates: names in client certificates that stand for the user.
        roles: what a policy grants to.
    """

    name: str
    password_hash: str | None = field(default=None, repr=False)
    certificates: tuple[str, ...] = ()
    roles: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        check_name(self.name)
        if ":" in self.name:
            raise InvalidInputError(
                f"user {self.name!r}: Basic credentials end a name at a colon; leave it out"
            )
        if self.password_hash is not None:
            try:
                extract_parameters(self.password_hash)
            except InvalidHashError:
                raise InvalidInputError(
                    f"user {self.name!r}: the password is not an argon2 hash; make one with "
                    "`lance-gateway user add`"
                ) from None

    def to_identity(self, method: str) -> Identity:
        """Return the identity of the user, authenticated by `method`."""
        return Identity(self.name, self.roles, method)


@dataclass(frozen=True, slots=True)
class Users:
    """The users of a user file.

    Args:
        by_name: name -> user.
        by_certificate: name in a certificate -> user.
    """

    by_name: Mapping[str, User]
    by_certificate: Mapping[str, User]


class _UserTable(Strict):
    password: str | None = None
    certificates: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class _UserFile(Strict):
    users: dict[str, _UserTable] = Field(default_factory=dict)


def parse_users(text: str, where: str) -> Users:
    """Parse the text of a user file.

    Raises:
        InvalidInputError: what is wrong, and in which file.
    """
    by_name: dict[str, User] = {}
    by_certificate: dict[str, User] = {}
    for name, table in read_toml(text, where, _UserFile).users.items():
        try:
            user = User(name, table.password, table.certificates, frozenset(table.roles))
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
        by_name[name] = user
        for certificate in user.certificates:
            other = by_certificate.setdefault(certificate, user)
            if other is not user:
                raise InvalidInputError(
                    f"{where}: the certificate {certificate!r} is assigned to the users {other.name!r} and "
                    f"{name!r}: choose one"
                )
    return Users(MappingProxyType(by_name), MappingProxyType(by_certificate))


def find_user(path: Path, name: str) -> User | None:
    """Return a user of a user file; None if there is no such user or no file."""
    return parse_users(read_text(path), str(path)).by_name.get(name) if path.exists() else None


def write_user(path: Path, user: User, *, replace: bool = False) -> None:
    """Add a user to a user file, and create the file if needed; comments and order are preserved.

    Raises:
        InvalidInputError: the user exists and is not to be replaced, or the file is not a user file.
    """
    if not replace and find_user(path, user.name) is not None:
        raise InvalidInputError(f"user {user.name!r} is in {path} already: use --replace to change it")
    text = read_text(path) if path.exists() else ""
    document = tomlkit.parse(text)
    table = tomlkit.table()
    if user.password_hash is not None:
        table["password"] = user.password_hash
    if user.certificates:
        table["certificates"] = list(user.certificates)
    table["roles"] = sorted(user.roles)
    put_table(document, "users", user.name, table)
    write_private(path, tomlkit.dumps(document))


def remove_user(path: Path, name: str) -> None:
    """Remove a user from a user file.

    Raises:
        InvalidInputError: the user is not there.
    """
    text = read_text(path)
    if name not in parse_users(text, str(path)).by_name:
        raise InvalidInputError(f"user {name!r} is not in {path}")
    document = tomlkit.parse(text)
    cast("dict[str, Any]", document["users"]).pop(name)
    write_private(path, tomlkit.dumps(document))


def put_table(document: tomlkit.TOMLDocument, section: str, name: str, table: object) -> None:
    """Set `[section.name]` of a TOML document."""
    if section not in document:
        document[section] = tomlkit.table(is_super_table=True)
    cast("dict[str, Any]", document[section])[name] = table


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically; only its owner can read a new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidInputError(f"{str(path)!r} cannot be written: {error.strerror}") from None


logger = logging.getLogger(__name__)

HASHER = PasswordHasher()
MIN_LENGTH = 8
MAX_BYTES = 1024
_MAX_RECOGNISED = 1000
_RECOGNISED_SECONDS = 900.0
_MAX_VERIFYING = 2
_MAX_WAIT_SECONDS = 10.0
# Each waits in a thread of its own.
_MAX_WAITING = 256


def hash_password(password: str, hasher: PasswordHasher = HASHER) -> str:
    """Return the argon2 hash of a password.

    Raises:
        InvalidInputError: the password is too short or too long.
    """
    if len(password) < MIN_LENGTH or len(password.encode()) > MAX_BYTES:
        raise InvalidInputError(
            f"a password has {MIN_LENGTH} characters at least and {MAX_BYTES} bytes at most"
        )
    return hasher.hash(password)


class Passwords:
    """Checks passwords against a user file.

    Args:
        users: what the user file says now.
        throttle: of user names.
        hasher: its parameters are those of users who do not exist, so that they take as long as others.
        max_wait: seconds that a login may wait for others to be verified.
        max_waiting: logins that may wait, those that are being verified included.
    """

    def __init__(
        self,
        users: Callable[[], Users],
        throttle: Throttle,
        *,
        hasher: PasswordHasher = HASHER,
        max_wait: float = _MAX_WAIT_SECONDS,
        max_waiting: int = _MAX_WAITING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._throttle = throttle
        self._hasher = hasher
        self._max_wait = max_wait
        self._nobody = hasher.hash(secrets.token_urlsafe())
        self._verifying = threading.BoundedSemaphore(_MAX_VERIFYING)
        self._waiting = threading.BoundedSemaphore(max_waiting)
        self._secret = secrets.token_bytes(32)
        # Keyed digest of name and password -> the hash that the password was right for.
        self._recognised: ExpiringCache[bytes, str] = ExpiringCache(
            _MAX_RECOGNISED, _RECOGNISED_SECONDS, clock=clock
        )

    def verify(self, credentials: Basic) -> User:
        """Return the user if the password is right.

        Raises:
            UnauthenticatedError: the name or the password is wrong, or the name failed too often.
            UnavailableError: too many others are waiting for the same.
        """
        # No user has a longer name, so it need not be stored in full.
        name, password = credentials.name[: MAX_NAME_LENGTH + 1], credentials.password.encode()
        if len(password) > MAX_BYTES:
            # Costs nothing, so it is not remembered: many of these would wash away what others failed.
            raise _create_refusal(name, "the password is too long")
        # Before anything else: a throttled guess must not learn whether it was right.
        self._throttle.check(name)
        digest = hmac.digest(self._secret, name.encode() + b"\0" + password, hashlib.sha256)
        user = self._recognise(name, digest)
        if user is not None:
            return user
        if not self._waiting.acquire(blocking=False):
            raise UnavailableError("too many logins at once: try again in a moment")
        try:
            return self._verify_in_turn(name, password, digest)
        finally:
            self._waiting.release()

    def _verify_in_turn(self, name: str, password: bytes, digest: bytes) -> User:
        if not self._verifying.acquire(timeout=self._max_wait):
            raise UnavailableError("too many logins at once: try again in a moment")
        try:
            # Others may have failed, or have proven the same password, in the meantime.
            self._throttle.check(name)
            user = self._recognise(name, digest)
            return user if user is not None else self._verify(name, password, digest)
        finally:
            self._verifying.release()

    def _recognise(self, name: str, digest: bytes) -> User | None:
        password_hash = self._recognised.get(digest)
        user = self._users().by_name.get(name)
        if user is None or password_hash is None or password_hash != user.password_hash:
            return None
        return user

    def _verify(self, name: str, password: bytes, digest: bytes) -> User:
        user = self._users().by_name.get(name)
        password_hash = None if user is None else user.password_hash
        try:
            self._hasher.verify(self._nobody if password_hash is None else password_hash, password)
        except (VerificationError, InvalidHashError):
            user_exists = password_hash is not None
            raise self._record_failure(
                name, "the password is wrong" if user_exists else "there is no such user"
            ) from None
        if user is None or password_hash is None:
            raise self._record_failure(name, "there is no such user")
        self._recognised.put(digest, password_hash)
        return user

    def _record_failure(self, name: str, reason: str) -> UnauthenticatedError:
        self._throttle.record_failure(name)
        return _create_refusal(name, reason)


def _create_refusal(name: str, reason: str) -> UnauthenticatedError:
    logger.warning("login of %.64r refused: %s", name, reason)
    return UnauthenticatedError("the user name or the password is wrong")
