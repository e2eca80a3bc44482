"""The headers of a call, read once, and the handshakes by which clients log in.

================================================  ==========================================================
what a client sends                               who does so
================================================  ==========================================================
Handshake with `authorization: Basic ...`,        ADBC, JDBC and pyarrow with a user name and password; the
answered by `authorization: Bearer ...`           answer is sent back with every call
Handshake with `authorization: Bearer ...`        JDBC with a token, to try it
Handshake with a BasicAuth message, answered by   older clients (`FlightClient.authenticate`); the token
a message with a token                            comes back as `auth-token-bin`
`authorization: Bearer ...` with every call       everybody with a static token or a JWT
`authorization: Basic ...` with every call        simple clients
================================================  ==========================================================

Flight tells a handshake neither the address of its peer nor its certificate, and a server with a handshake
tells no call its certificate either. Both is left to the handlers of the calls, which know them.

Flight calls the handler of a stream that a client sends when its first message has come, and keeps a thread
for it until then. So who may not send one is refused by the middleware, which is asked before.

A server has one middleware: Flight hands a call to each by itself, and each time the thread has to get hold
of the interpreter, which costs more than what is done there beside short calls.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

from pyarrow import flight

from lance_gateway.gateway.auth.authenticator import Authenticator
from lance_gateway.gateway.auth.credentials import (
    Basic,
    Bearer,
    Credentials,
    UnauthenticatedError,
    read_credentials,
)
from lance_gateway.gateway.execution.streams import CallObserver, ignore_call
from lance_gateway.gateway.protocol.errors import find_status, translate_error, translate_errors
from lance_gateway.gateway.protocol.identity import ANONYMOUS, Identity
from lance_gateway.gateway.protocol.open_uploads import OpenUpload, OpenUploads
from lance_gateway.gateway.sessions import TELLING_HEADERS, SessionHeaders, is_jdbc, read_session
from lance_gateway.memwal.errors import UnavailableError, UnsupportedError
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, FullAccess

Headers = Mapping[str, Sequence[str]]
METHODS: Mapping[flight.FlightMethod, str] = MappingProxyType(
    {
        flight.FlightMethod.HANDSHAKE: "Handshake",
        flight.FlightMethod.LIST_FLIGHTS: "ListFlights",
        flight.FlightMethod.GET_FLIGHT_INFO: "GetFlightInfo",
        flight.FlightMethod.GET_SCHEMA: "GetSchema",
        flight.FlightMethod.DO_GET: "DoGet",
        flight.FlightMethod.DO_PUT: "DoPut",
        flight.FlightMethod.DO_ACTION: "DoAction",
        flight.FlightMethod.LIST_ACTIONS: "ListActions",
        flight.FlightMethod.DO_EXCHANGE: "DoExchange",
    }
)
"""Every method of a call, with its name."""
_MAX_PRINCIPALS = 10_000
# Older handshakes wait for a message, each in a thread of its own, for as long as a client likes.
_MAX_WAITING = 64
# Without a policy, users with this role see and stop the statements of others.
ADMIN_ROLE = "admin"
# What their clients send comes in a stream of its own, behind the headers.
_SENT_STREAMS = frozenset({flight.FlightMethod.DO_PUT, flight.FlightMethod.DO_EXCHANGE})
_OPEN_TOKEN = "anonymous"  # noqa: S105 - opens nothing


@lru_cache(maxsize=_MAX_PRINCIPALS)
def see_everything(identity: Identity) -> Access:
    """Return access to all tables, which everybody has without a policy."""
    if identity == ANONYMOUS:
        return FULL_ACCESS
    return FullAccess(identity.name, ADMIN_ROLE in identity.roles)


@dataclass(frozen=True)
class Security:
    """Authentication and authorization of a server's callers.

    Args:
        authenticator: identifies callers; None admits all of them.
        access: what a principal may see; the same object while the policy lasts.
        tls: arguments of FlightServerBase that turn on TLS; empty for plaintext.
        is_valid_pass: whether credentials are those of another gateway that may forward rows; None: none may.
    """

    authenticator: Authenticator | None = None
    access: Callable[[Identity], Access] = see_everything
    tls: Mapping[str, Any] = field(default_factory=dict)
    is_valid_pass: Callable[[Credentials | None], bool] | None = None


class RpcObserver:
    """Observes calls in the thread that serves them; subclasses override the events that they need."""

    def on_call(self, method: str, headers: Headers) -> None:
        """Observe the begin of a call; names of headers are in lower case."""

    def on_call_finished(self, method: str, status: str, seconds: float) -> None:
        """Observe the end of a call, its stream included."""


class CallHeaders(flight.ServerMiddleware):
    """The headers of one call, parsed.

    Attributes:
        credentials: of the call, if the server has an authenticator.
        session: the session and the options that it names; None where it names none.
        is_peer: whether another gateway calls.
        upload: the stream that the client sends; None where it sends none.
    """

    def __init__(
        self,
        credentials: Credentials | None = None,
        session: SessionHeaders | None = None,
        *,
        is_peer: bool = False,
        upload: OpenUpload | None = None,
    ) -> None:
        self.credentials = credentials
        self.session = session
        self.is_peer = is_peer
        self.upload = upload


NO_HEADERS = CallHeaders()
"""Headers without credentials and session."""


class _ObservedCall(CallHeaders):
    """A call with observers, with a stream of its client, or with a token to send back in a header."""

    def __init__(
        self,
        method: str,
        headers: Headers,
        observers: Sequence[RpcObserver],
        credentials: Credentials | None = None,
        session: SessionHeaders | None = None,
        *,
        is_peer: bool = False,
        upload: OpenUpload | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(credentials, session, is_peer=is_peer, upload=upload)
        self._method = method
        self._observers = observers
        self._token = token
        self._started = time.perf_counter()
        for observer in observers:
            observer.on_call(method, headers)

    def sending_headers(self) -> dict[str, str]:
        # Where clients that send a user and password look for their token.
        return {} if self._token is None else {"authorization": f"Bearer {self._token}"}

    def call_completed(self, exception: Exception | None) -> None:
        if self.upload is not None:
            self.upload.close()
        seconds = time.perf_counter() - self._started
        for observer in self._observers:
            observer.on_call_finished(self._method, find_status(exception), seconds)


class _Messages(Protocol):
    """The two directions of a handshake."""

    def write(self, message: bytes) -> None: ...
    def read(self) -> bytes: ...


class Handshake(flight.ServerAuthHandler):
    """Answers handshakes: those with credentials in their headers, and older ones.

    The middleware sees the headers, and all that the handler gets to know of them is the answer. Flight calls
    both on the same thread. Python's thread-local values do not last from one to the other: a thread that
    Python did not start is a new one to it at each call. Its number stays.

    Args:
        authenticator: checks credentials; None answers all with a meaningless token.
        uploads: gets to know of the handshakes that wait for their client.
    """

    def __init__(self, authenticator: Authenticator | None, uploads: OpenUploads) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._uploads = uploads
        self._answers: dict[int, bytes] = {}
        self._waiting = threading.BoundedSemaphore(_MAX_WAITING)

    def read(self, headers: Headers) -> str | None:
        """Return the token for the credentials in a handshake's headers; None if there are none.

        Raises:
            UnauthenticatedError: they are not valid.
            UnavailableError: too many logins at once.
        """
        authenticator, thread = self._authenticator, threading.get_ident()
        if authenticator is None:
            return _OPEN_TOKEN
        if authenticator.uses_certificates:
            raise UnauthenticatedError(
                "this gateway takes names from client certificates: connect without logging in, or send "
                "credentials with every call"
            )
        self._answers.pop(thread, None)
        match read_credentials(headers):
            case Basic() as login:
                token = authenticator.login(login)
            case Bearer(token) as presented:
                authenticator.check(presented)
            case None:
                return None
        self._answers[thread] = token.encode()
        return token

    def authenticate(self, outgoing: _Messages, incoming: _Messages) -> None:
        """Send the token for the credentials in the headers, or for those in the client's message."""
        if self._authenticator is None:
            return
        with translate_errors("Handshake"):
            answer = self._answers.pop(threading.get_ident(), None)
            if answer is None:
                answer = self._authenticator.login(self._receive(incoming)).encode()
            outgoing.write(answer)

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002 - the signature is Flight's
        """Accept every token: the handler of the call checks it."""
        return b""

    def _receive(self, incoming: _Messages) -> Basic:
        if not self._waiting.acquire(blocking=False):
            raise UnavailableError("too many handshakes wait for their client: try again in a moment")
        upload = self._uploads.open(None, is_limited=False)
        try:
            message = flight.BasicAuth.deserialize(incoming.read())
            return Basic(message.username.decode(), message.password.decode())
        except (OSError, ValueError, flight.FlightError):
            raise UnauthenticatedError(
                "the handshake has no user name and password: send them in an authorization header"
            ) from None
        finally:
            upload.close()
            self._waiting.release()


class CallMiddleware(flight.ServerMiddlewareFactory):
    """The one middleware of a server: reads the headers of each call.

    Attributes:
        name: by which a call finds its headers.
        auth_handler: answers handshakes; None where callers are known by their certificates.

    Args:
        security: says whose credentials are read.
        observers: of calls, by method.
        uploads: the streams that clients send.
        on_refused: observes calls that have no handler because they are refused here.
    """

    name = "calls"

    def __init__(
        self,
        security: Security,
        observers: Mapping[flight.FlightMethod, Sequence[RpcObserver]],
        uploads: OpenUploads,
        on_refused: CallObserver = ignore_call,
    ) -> None:
        super().__init__()
        self._uploads = uploads
        self._on_refused = on_refused
        self._authenticator = security.authenticator
        self._is_valid_pass = security.is_valid_pass
        self._observers = observers
        self._handshake = Handshake(security.authenticator, uploads)
        # A server that shakes hands does not learn the name in its client's certificate.
        uses_certificates = security.authenticator is not None and security.authenticator.uses_certificates
        self.auth_handler = None if uses_certificates else self._handshake

    def start_call(self, info: flight.CallInfo, headers: Headers) -> CallHeaders | None:
        """Parse the headers of a call; return None if no handler needs them."""
        method = info.method
        if method == flight.FlightMethod.HANDSHAKE:
            with translate_errors("Handshake"):
                token = self._handshake.read(headers)
            return _ObservedCall(METHODS[method], headers, self._observers.get(method, ()), token=token)
        credentials = None
        if self._authenticator is not None:
            credentials = _read_credentials(self._authenticator, method, headers)
        is_peer = False
        if self._is_valid_pass is not None and method == flight.FlightMethod.DO_PUT:
            # Wrong credentials are no failure here: without an authenticator they have no meaning.
            with suppress(UnauthenticatedError):
                is_peer = self._is_valid_pass(read_credentials(headers))
        upload = None
        if method in _SENT_STREAMS:
            upload = self._open_upload(method, credentials, is_peer=is_peer)
        session = None
        if not TELLING_HEADERS.isdisjoint(headers) or is_jdbc(*headers.get("user-agent", ())):
            session = read_session(headers)
        observers = self._observers.get(method, ())
        if observers or upload is not None:
            return _ObservedCall(
                METHODS[method], headers, observers, credentials, session, is_peer=is_peer, upload=upload
            )
        if credentials is None and session is None:
            return None
        return CallHeaders(credentials, session, is_peer=is_peer)

    def _open_upload(
        self, method: flight.FlightMethod, credentials: Credentials | None, *, is_peer: bool
    ) -> OpenUpload:
        """Admit a stream that a client is about to send, or refuse it."""
        try:
            user = self._identify_sender(credentials, is_peer=is_peer)
            if method == flight.FlightMethod.DO_EXCHANGE:
                _refuse_exchange()
            return self._uploads.open(user, is_limited=not is_peer)
        except BaseException as error:  # noqa: BLE001 - the boundary: nothing passes it unexamined
            failure = translate_error(error, METHODS[method])
            self._on_refused(METHODS[method], find_status(failure), 0.0)
            raise failure from None

    def _identify_sender(self, credentials: Credentials | None, *, is_peer: bool) -> str | None:
        """Return who sends a stream; None where it is not known before the first message.

        Raises:
            UnauthenticatedError: nobody who is known.
        """
        authenticator = self._authenticator
        # Without an authenticator all are one user. A certificate was verified, but is not known here.
        if authenticator is None or is_peer or (credentials is None and authenticator.uses_certificates):
            return None
        return authenticator.check(credentials).name


def _refuse_exchange() -> NoReturn:
    raise UnsupportedError("Flight SQL does not use DoExchange: send statements to GetFlightInfo")


def _read_credentials(
    authenticator: Authenticator, method: flight.FlightMethod, headers: Headers
) -> Credentials | None:
    with translate_errors("authentication"):
        credentials = read_credentials(headers)
        # What its handler refuses has no status: pyarrow does not look for Flight errors there.
        if method == flight.FlightMethod.GET_SCHEMA and not (
            credentials is None and authenticator.uses_certificates
        ):
            authenticator.check(credentials)
        return credentials
