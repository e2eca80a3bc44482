"""User names and passwords.

Verifying a password costs tens of milliseconds of CPU and tens of MiB on purpose. So it happens a few at a
time, and a password that was right is recognised afterwards by a keyed digest, for clients that send it with
every call.
"""

import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from gateway.auth.credentials import Basic, UnauthenticatedError
from gateway.auth.throttle import Throttle
from gateway.auth.users import User, Users
from gateway.protocol.expiring_cache import Keeping
from gateway.protocol.identity import MAX_NAME_LENGTH
from memwal.errors import InvalidInputError, UnavailableError

logger = logging.getLogger(__name__)

HASHER = PasswordHasher()
MIN_LENGTH = 8
MAX_BYTES = 1024
_MAX_RECOGNISED = 1000
_RECOGNISED_SECONDS = 900.0
_MAX_VERIFYING = 2
_MAX_WAIT_SECONDS = 10.0


def hash_password(password: str, hasher: PasswordHasher = HASHER) -> str:
    """Returns the argon2 hash that a user file keeps.

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
    """

    def __init__(
        self,
        users: Callable[[], Users],
        throttle: Throttle,
        *,
        hasher: PasswordHasher = HASHER,
        max_wait: float = _MAX_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._users = users
        self._throttle = throttle
        self._hasher = hasher
        self._max_wait = max_wait
        self._nobody = hasher.hash(secrets.token_urlsafe())
        self._verifying = threading.BoundedSemaphore(_MAX_VERIFYING)
        self._secret = secrets.token_bytes(32)
        # Keyed digest of name and password -> the hash that the password was right for.
        self._recognised: Keeping[bytes, str] = Keeping(_MAX_RECOGNISED, _RECOGNISED_SECONDS, clock=clock)

    def verify(self, credentials: Basic) -> User:
        """Returns the user of a right password.

        Raises:
            UnauthenticatedError: the name or the password is wrong, or the name failed too often.
            UnavailableError: too many others are waiting for the same.
        """
        # Longer names are nobody's, and need not be remembered as they are.
        name, password = credentials.name[: MAX_NAME_LENGTH + 1], credentials.password.encode()
        if len(password) > MAX_BYTES:
            # Costs nothing, so it is not remembered: many of these would wash away what others failed.
            raise _refused(name, "the password is too long")
        # Before anything else: a throttled guess must not learn whether it was right.
        self._throttle.check(name)
        digest = hmac.digest(self._secret, name.encode() + b"\0" + password, hashlib.sha256)
        user = self._recognise(name, digest)
        if user is not None:
            return user
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
            raise self._wrong(
                name, "the password is wrong" if user_exists else "there is no such user"
            ) from None
        if user is None or password_hash is None:
            raise self._wrong(name, "there is no such user")
        self._recognised.put(digest, password_hash)
        return user

    def _wrong(self, name: str, reason: str) -> UnauthenticatedError:
        self._throttle.failed(name)
        return _refused(name, reason)


def _refused(name: str, reason: str) -> UnauthenticatedError:
    logger.warning("login of %.64r refused: %s", name, reason)
    return UnauthenticatedError("the user name or the password is wrong")
