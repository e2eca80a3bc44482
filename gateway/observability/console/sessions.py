"""Who asks: sessions of browsers, known by a cookie, and scripts, known by their bearer token.

A cookie says who asks and not who wrote the page that asks, so a request that changes something must also
repeat a token that only pages of the gateway can read, and must not come from another site's page.
"""

import secrets
import threading
from dataclasses import dataclass, replace
from functools import partial

from cachetools import TTLCache
from starlette.requests import Request
from starlette.responses import Response

from lance_gateway.gateway.auth.authenticator import Authenticator
from lance_gateway.gateway.auth.credentials import Basic, Bearer, UnauthenticatedError
from lance_gateway.gateway.auth.gateway_tokens import hash_token
from lance_gateway.gateway.observability.console.statements import Connection, OwnGateway
from lance_gateway.gateway.observability.console.visits import Visit
from lance_gateway.gateway.observability.hosts import find_scheme, parse_host, parse_origin
from lance_gateway.gateway.protocol.identity import ANONYMOUS, Identity
from lance_gateway.memwal.errors import InvalidInputError, PermissionDeniedError

COOKIE = "lance_gateway_console"
CSRF_HEADER = "x-csrf-token"
_MAX_SESSIONS = 1_000
_SESSION_SECONDS = 12 * 3600.0
_SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A user who logged in.

    Attributes:
        identity: of the user, when this was last asked.
        csrf: what requests of the page repeat.
        token: bearer token of the gateway; None where it asks for none.
        connection: to the gateway, as this user.
    """

    identity: Identity
    csrf: str
    token: str | None
    connection: Connection

    @property
    def user(self) -> str:
        """Name of the user."""
        return self.identity.name


class ConsoleSessions:
    """The sessions of browsers; beyond a thousand, and after twelve hours, they end.

    Args:
        gateway: that they ask.
        authenticator: knows users; None admits everybody, as the gateway itself does then.
    """

    def __init__(self, gateway: OwnGateway, authenticator: Authenticator | None) -> None:
        self._gateway = gateway
        self._authenticator = authenticator
        self._lock = threading.Lock()
        self._sessions: TTLCache[str, ConsoleSession] = TTLCache(_MAX_SESSIONS, _SESSION_SECONDS)

    @property
    def needs_login(self) -> bool:
        """Whether users have to say who they are."""
        return self._authenticator is not None

    def check_address(self, address: str) -> None:
        """Check that an address may try to log in.

        Raises:
            ThrottledError: it failed too often.
        """
        if self._authenticator is not None:
            self._authenticator.check_address(address)

    def log_in(
        self, user: str | None, password: str | None, token: str | None, address: str
    ) -> tuple[str, ConsoleSession]:
        """Return a new session, and the value of its cookie.

        Args:
            user: with the password.
            password: with the user.
            token: in place of both.
            address: that failures count for, beside the user.

        Raises:
            InvalidInputError: neither a user with a password nor a token is given.
            UnauthenticatedError: they are not valid.
        """
        identity, bearer = ANONYMOUS, None
        if self._authenticator is not None:
            if user is not None and password is not None:
                bearer = self._authenticator.login(Basic(user, password), address)
            elif token is not None:
                bearer = token
            else:
                raise InvalidInputError("log in with user and password, or with token")
            identity = self._authenticator.check(Bearer(bearer))
        session = ConsoleSession(identity, secrets.token_urlsafe(32), bearer, self._gateway.connect(bearer))
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[hash_token(cookie)] = session
        return cookie, session

    def log_out(self, request: Request) -> None:
        """End the session of a request, if it has one."""
        with self._lock:
            session = self._sessions.pop(hash_token(request.cookies.get(COOKIE, "")), None)
        if session is not None:
            session.connection.close()

    @staticmethod
    def check_origin(request: Request) -> None:
        """Refuse what the page of another site asks for.

        Raises:
            PermissionDeniedError: it is refused.
        """
        origin = request.headers.get("origin")
        own = parse_host(request.headers.get("host", ""), find_scheme(request.headers))
        if origin is not None and (own is None or parse_origin(origin) != own):
            raise PermissionDeniedError(f"a page of {origin!r} may not ask this gateway")

    async def enter(self, visit: Visit) -> ConsoleSession:
        """Return the session of a request, which takes a place among those of its user.

        Raises:
            TooManyRequestsError: there is none.
            UnauthenticatedError: see `find`.
            PermissionDeniedError: see `find`.
        """
        session = await visit.check(partial(self.find, visit.request))
        visit.enter(session.user)
        return replace(session, connection=session.connection.for_request(visit.name))

    def find(self, request: Request) -> ConsoleSession:
        """Return the session of a request.

        Raises:
            UnauthenticatedError: it has none, or its login has ended.
            PermissionDeniedError: it has one, but may come from a page of somebody else.
        """
        self.check_origin(request)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._authenticator is not None:
            identity = self._authenticator.check(Bearer(token.strip()))
            return ConsoleSession(identity, "", token.strip(), self._gateway.connect(token.strip()))
        with self._lock:
            session = self._sessions.get(hash_token(request.cookies.get(COOKIE, "")))
        if session is None:
            raise UnauthenticatedError("there is no session, or it has ended: log in with POST /api/login")
        if self._authenticator is not None and session.token is not None:
            # Asked here, so that a login that has ended does not count as a guess from this machine.
            session = replace(session, identity=self._authenticator.check(Bearer(session.token)))
        given = request.headers.get(CSRF_HEADER, "")
        if request.method not in _SAFE_METHODS and not secrets.compare_digest(
            given.encode(), session.csrf.encode()
        ):
            raise PermissionDeniedError(
                f"the header {CSRF_HEADER} is missing or wrong: send the csrf_token of the login"
            )
        return session


def set_cookie(response: Response, value: str, *, is_encrypted: bool) -> None:
    """Let the browser keep a session's cookie, out of the reach of scripts and of other sites."""
    response.set_cookie(COOKIE, value, httponly=True, samesite="strict", secure=is_encrypted, path="/")
