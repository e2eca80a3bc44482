"""How clients log in, and how their later calls are recognised.

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
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from pyarrow import flight

from gateway.auth.authenticator import Authenticator
from gateway.auth.credentials import Basic, Bearer, Credentials, UnauthenticatedError, read_credentials
from gateway.protocol.errors import answering
from gateway.protocol.middleware import CallMiddlewareFactory
from memwal.errors import UnavailableError

# Older handshakes wait for a message, each in a thread of its own, for as long as a client likes.
_MAX_WAITING = 64


class Outgoing(Protocol):
    """What a handshake sends messages through."""

    def write(self, message: bytes) -> None:
        """Sends a message."""


class Incoming(Protocol):
    """What a handshake receives messages from."""

    def read(self) -> bytes:
        """Waits for a message."""


class _Answers:
    """What the middleware answers to the handshake that a thread serves: all that its handler gets to know.

    Flight calls both on the same thread. Python's thread-local values do not last from one to the other: a
    thread that Python did not start is a new one to it at each call. Its number stays.
    """

    def __init__(self) -> None:
        self._answers: dict[int, bytes] = {}

    def put(self, answer: bytes | None) -> None:
        """Sets the answer of this thread's handshake; None leaves it to the handler."""
        if answer is None:
            self._answers.pop(threading.get_ident(), None)
        else:
            self._answers[threading.get_ident()] = answer

    def take(self) -> bytes | None:
        """Returns the answer, once."""
        return self._answers.pop(threading.get_ident(), None)


class CredentialsMiddleware(flight.ServerMiddleware):
    """Tells the handlers of a call what it presents."""

    def __init__(self, credentials: Credentials | None) -> None:
        self.credentials = credentials


class _HandshakeMiddleware(flight.ServerMiddleware):
    def __init__(self, token: str) -> None:
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._token}"}


class CredentialsMiddlewareFactory(CallMiddlewareFactory):
    """Reads the credentials of each call, and answers handshakes that carry theirs in a header."""

    def __init__(self, authenticator: Authenticator, answers: _Answers) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._answers = answers

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str | bytes]]
    ) -> flight.ServerMiddleware | None:
        """Returns the middleware of a call; refuses credentials that cannot be read."""
        if info.method != flight.FlightMethod.HANDSHAKE:
            with answering("authentication"):
                credentials = read_credentials(headers)
                # What its handler refuses has no status: pyarrow does not look for Flight errors there.
                if info.method == flight.FlightMethod.GET_SCHEMA and not (
                    credentials is None and self._authenticator.uses_certificates
                ):
                    self._authenticator.check(credentials)
                return CredentialsMiddleware(credentials)
        with answering("Handshake"):
            return self._shake_hands(headers)

    def _shake_hands(self, headers: Mapping[str, Sequence[str | bytes]]) -> flight.ServerMiddleware | None:
        if self._authenticator.uses_certificates:
            raise UnauthenticatedError(
                "this gateway takes names from client certificates: connect without logging in, or send "
                "credentials with every call"
            )
        self._answers.put(None)
        match read_credentials(headers):
            case Basic() as login:
                token = self._authenticator.login(login)
            case Bearer(token) as presented:
                self._authenticator.check(presented)
            case None:
                return None
        self._answers.put(token.encode())
        return _HandshakeMiddleware(token)


class Handshake(flight.ServerAuthHandler):
    """Answers handshakes, after the middleware has seen their headers."""

    def __init__(self, authenticator: Authenticator, answers: _Answers) -> None:
        super().__init__()
        self._authenticator = authenticator
        self._answers = answers
        self._waiting = threading.BoundedSemaphore(_MAX_WAITING)

    def authenticate(self, outgoing: Outgoing, incoming: Incoming) -> None:
        """Sends the token of the header's credentials, or that of those in the client's message."""
        with answering("Handshake"):
            answer = self._answers.take()
            if answer is None:
                answer = self._authenticator.login(self._receive(incoming)).encode()
            outgoing.write(answer)

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002 - the signature is Flight's
        """Leaves the decision to the handler of the call."""
        return b""

    def _receive(self, incoming: Incoming) -> Basic:
        if not self._waiting.acquire(blocking=False):
            raise UnavailableError("too many handshakes wait for their client: try again in a moment")
        try:
            message = flight.BasicAuth.deserialize(incoming.read())
            return Basic(message.username.decode(), message.password.decode())
        except (OSError, ValueError, flight.FlightError):
            raise UnauthenticatedError(
                "the handshake presents no user name and password: send them in an authorization header"
            ) from None
        finally:
            self._waiting.release()


def handshakes(authenticator: Authenticator) -> tuple[Handshake, CredentialsMiddlewareFactory]:
    """Returns the two halves of the handshake, which know of each other."""
    answers = _Answers()
    return Handshake(authenticator, answers), CredentialsMiddlewareFactory(authenticator, answers)
