"""Sessions: the options of one client, found again by a cookie.

A session begins when a client first sets or asks for options: the answer sets the cookie
`arrow_flight_session_id`. Calls without the cookie run with the defaults. Calls with a cookie that is not
known (closed, idle too long, or from before a restart) are refused: running them with other settings than
the ones that were set would answer another question.
"""

import dataclasses
import secrets
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pyarrow import flight

from gateway.commands import Action, Call
from gateway.keeping import Keeping
from gateway.wire import decode
from memwal.errors import InvalidInputError, NotFoundError
from planner.engine import SessionSettings
from protos import flight_pb2

COOKIE = "arrow_flight_session_id"
DEFAULTS = SessionSettings()
_MAX_SESSIONS = 10_000
_IDLE_SECONDS = 12 * 3600.0


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{value!r} is no text")
    return value


def _number(value: object) -> int:
    # Drivers that only set strings spell numbers as text; bool is a subclass of int and is no number here.
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInputError(f"{value!r} is no whole number")
    return value


def _flag(value: object) -> bool:
    flag = {"true": True, "false": False}.get(str(value).lower())
    if flag is None:
        raise InvalidInputError(f"{value!r} is neither true nor false")
    return flag


# Option name (also the field of SessionSettings) -> what reads its value, or refuses it.
_OPTIONS: Mapping[str, Callable[[object], str | int | bool]] = MappingProxyType(
    {
        "catalog": _text,
        "schema": _text,
        "consistency": _text,
        "max_staleness_ms": _number,
        "region_pruning": _flag,
    }
)


class SessionMiddleware(flight.ServerMiddleware):
    """Tells the handlers of a call which session its cookie names."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


class HandshakeMiddleware(flight.ServerMiddleware):
    """Answers a handshake with a token; the gateway accepts any."""

    def sending_headers(self) -> dict[str, str]:
        """Returns the header in which clients look for their token."""
        return {"authorization": "Bearer anonymous"}


class SessionMiddlewareFactory(flight.ServerMiddlewareFactory):
    """Reads the cookie of every call."""

    def start_call(
        self, info: flight.CallInfo, headers: Mapping[str, Sequence[str]]
    ) -> flight.ServerMiddleware | None:
        """Returns the middleware of this call; None where it carries no session."""
        if info.method == flight.FlightMethod.HANDSHAKE:
            return HandshakeMiddleware()
        session_id = _session_of(headers.get("cookie", ()))
        return None if session_id is None else SessionMiddleware(session_id)


class OpenHandshake(flight.ServerAuthHandler):
    """Lets everybody in, with or without a name: clients that send a user and password are served too."""

    def authenticate(self, outgoing: object, incoming: object) -> None:
        """Accepts the handshake whatever it says."""

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002 - the signature is Flight's
        """Accepts every token and returns the name of the peer, which is none."""
        return b""


class Sessions:
    """The sessions of a server and the actions SetSessionOptions, GetSessionOptions and CloseSession."""

    def __init__(self, kept: Keeping[str, SessionSettings] | None = None) -> None:
        self._kept = kept if kept is not None else Keeping(_MAX_SESSIONS, _IDLE_SECONDS)

    def settings(self, session_id: str | None) -> SessionSettings:
        """Returns the settings of a session, the defaults where the call has none.

        Raises:
            NotFoundError: the session is not known.
        """
        if session_id is None:
            return DEFAULTS
        settings = self._kept.get(session_id)
        if settings is None:
            raise NotFoundError(
                f"session {session_id!r} is not known: it was closed, was idle too long, or the gateway "
                "restarted; connect again"
            )
        return settings

    def actions(self) -> tuple[Action, ...]:
        """Returns the actions of this family."""
        return (
            Action("SetSessionOptions", "Set options of the session of the cookie.", self._set_options),
            Action("GetSessionOptions", "Get the options of the session of the cookie.", self._get_options),
            Action("CloseSession", "Forget the session of the cookie.", self._close),
        )

    def _set_options(self, body: bytes, call: Call) -> bytes:
        request = decode(flight_pb2.SetSessionOptionsRequest, body, "the body of SetSessionOptions")
        settings = call.settings
        result = flight_pb2.SetSessionOptionsResult()
        for name, value in request.session_options.items():
            if name not in _OPTIONS:
                result.errors[name].value = flight_pb2.SetSessionOptionsResult.INVALID_NAME
                continue
            try:
                settings = _changed(settings, name, value)
            except InvalidInputError:
                result.errors[name].value = flight_pb2.SetSessionOptionsResult.INVALID_VALUE
        self._keep(call, settings)
        return result.SerializeToString()

    def _get_options(self, body: bytes, call: Call) -> bytes:
        decode(flight_pb2.GetSessionOptionsRequest, body, "the body of GetSessionOptions")
        settings = call.settings
        self._keep(call, settings)
        result = flight_pb2.GetSessionOptionsResult()
        for name in _OPTIONS:
            value = getattr(settings, name)
            if isinstance(value, bool):
                result.session_options[name].bool_value = value
            elif isinstance(value, int):
                result.session_options[name].int64_value = value
            else:
                result.session_options[name].string_value = value
        return result.SerializeToString()

    def _close(self, body: bytes, call: Call) -> bytes:
        decode(flight_pb2.CloseSessionRequest, body, "the body of CloseSession")
        if call.session_id is not None:
            self._kept.pop(call.session_id)
            call.add_header("set-cookie", f"{COOKIE}=; Max-Age=0")
        # Without a cookie there is nothing to forget, and drivers close whatever they opened.
        return flight_pb2.CloseSessionResult(status=flight_pb2.CloseSessionResult.CLOSED).SerializeToString()

    def _keep(self, call: Call, settings: SessionSettings) -> None:
        session_id = call.session_id
        if session_id is None:
            session_id = secrets.token_urlsafe(16)
            call.add_header("set-cookie", f"{COOKIE}={session_id}")
        self._kept.put(session_id, settings)


def _session_of(cookies: Sequence[str]) -> str | None:
    for header in cookies:
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == COOKIE and value:
                return value
    return None


def _changed(settings: SessionSettings, name: str, value: flight_pb2.SessionOptionValue) -> SessionSettings:
    kind = value.WhichOneof("option_value")
    # A value of no kind asks for the default.
    chosen: Any = getattr(DEFAULTS, name) if kind is None else _OPTIONS[name](getattr(value, kind))
    return dataclasses.replace(settings, **{name: chosen})
