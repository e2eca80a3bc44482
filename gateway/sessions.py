"""Sessions: the options of one client, found again by a cookie.

A session begins when a client first sets or asks for options: the answer sets the cookie
`arrow_flight_session_id`. Calls without the cookie run with the defaults. Calls with a cookie that is not
known (closed, idle too long, or from before a restart) are refused: running them with other settings than
the ones that were set would answer another question.

Drivers that ask for facts about the server when they connect are offered an id by another cookie. Who sends
it back keeps cookies, so a session can begin with the call that needs it: under that id, which calls name
until they have the session's cookie, too.

A call may also choose options for itself, by headers that are named like them: drivers that know no session
options, such as JDBC, let their users send headers. The header wins, except that a session that is
`read_only` stays so: either of the two is enough.
"""

import dataclasses
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from lance_gateway.gateway.config.sections.limits import LimitsSection
from lance_gateway.gateway.protocol.commands import Action, Call, Handler
from lance_gateway.gateway.protocol.expiring_cache import ExpiringCache
from lance_gateway.memwal.errors import InvalidInputError, NotFoundError, PreconditionError
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA
from lance_gateway.planner.access.unknown_names import unknown_schema_error
from lance_gateway.planner.engine import SessionSettings
from lance_gateway.planner.scans.settings import Shortcuts, format_shortcuts, parse_shortcuts
from lance_gateway.protos import flight_pb2

COOKIE = "arrow_flight_session_id"
OFFER = "lance_gateway_offered_session"
"""Cookie with the id that a session of the client would have."""
_ID_BYTES = 16
_OFFERED = re.compile(rf"[\w-]{{{len(secrets.token_urlsafe(_ID_BYTES))}}}", re.ASCII)
NO_SESSION = (
    "the statement was not executed, since the call names no session that could keep the setting: let the "
    "driver keep cookies (ADBC: adbc.flight.sql.rpc.with_cookie_middleware), and execute it again; or "
    "connect with a header that is named like the option"
)
DEFAULTS = SessionSettings()


def _parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{value!r} is not text")
    return value


def _parse_number(value: object) -> int:
    # Drivers that only set strings spell numbers as text; bool is a subclass of int and is not a number here.
    number = value
    if isinstance(value, str) and len(value) < 20 and value.isascii() and value.isdigit():
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or number >= 1 << 63:
        raise InvalidInputError(f"{value!r} is not a whole number of 64 bits")
    return number


def _parse_flag(value: object) -> bool:
    flag = {"true": True, "false": False}.get(str(value).lower())
    if flag is None:
        raise InvalidInputError(f"{value!r} is neither true nor false")
    return flag


def _parse_shortcuts(value: object) -> Shortcuts:
    return parse_shortcuts(_parse_text(value))


# Option name (also the field of SessionSettings) -> what reads its value, or refuses it.
_OPTIONS: Mapping[str, Callable[[object], str | int | bool | Shortcuts]] = MappingProxyType(
    {
        "catalog": _parse_text,
        "schema": _parse_text,
        "consistency": _parse_text,
        "max_staleness_ms": _parse_number,
        "region_pruning": _parse_flag,
        "dialect": _parse_text,
        "endpoints": _parse_number,
        "query_timeout_ms": _parse_number,
        "types": _parse_text,
        "durable_writes": _parse_flag,
        "read_only": _parse_flag,
        "shortcuts": _parse_shortcuts,
    }
)
# Header that chooses an option -> the option; JDBC's driver sends the name alone.
_HEADERS = {f"{prefix}{name}": name for prefix in ("", "x-lance-gateway-") for name in _OPTIONS}
REQUEST_HEADER = "x-lance-gateway-request"
"""Names the request of a client that a call is for, which may take several calls."""
TELLING_HEADERS = frozenset({"cookie", REQUEST_HEADER, *_HEADERS})
"""Names of headers that say something of a session, beside the user agent."""
# What the JDBC driver calls itself; so do other clients in Java, which read the same types.
_JDBC_AGENTS = ("grpc-java", "JDBC")


@dataclass(frozen=True, slots=True)
class SessionHeaders:
    """The session and the options in the headers of a call.

    Args:
        session_id: of the cookie, None where there is none.
        chosen: the value of each option that has a header.
        is_jdbc: whether the client seems to be the JDBC driver.
        offered: the id that the client was offered, None where it sends none.
        request: that the call is for; "" where the client names none.
    """

    session_id: str | None
    chosen: Mapping[str, str]
    is_jdbc: bool
    offered: str | None = None
    request: str = ""

    def apply_to(self, settings: SessionSettings) -> SessionSettings:
        """Return the settings of a session, overridden by the options of this call.

        Raises:
            InvalidInputError: a header has a value that its option cannot have.
        """
        changes: dict[str, Any] = {name: _OPTIONS[name](value) for name, value in self.chosen.items()}
        if settings.read_only:
            # What a session may not do, a header can't allow.
            changes["read_only"] = True
        if self.is_jdbc and changes.get("types", settings.types) == "auto":
            changes["types"] = "jdbc"
        return dataclasses.replace(settings, **changes) if changes else settings


def read_session(headers: Mapping[str, Sequence[str]]) -> SessionHeaders:
    """Read the cookie, the options and the user agent of a call."""
    chosen = {_HEADERS[header]: headers[header][-1] for header in headers.keys() & _HEADERS.keys()}
    cookies = _read_cookies(headers.get("cookie", ()))
    offered = cookies.get(OFFER, "")
    return SessionHeaders(
        cookies.get(COOKIE) or None,
        chosen,
        is_jdbc(*headers.get("user-agent", ())),
        offered if _OFFERED.fullmatch(offered) else None,
        headers.get(REQUEST_HEADER, ("",))[-1],
    )


@lru_cache(maxsize=64)
def is_jdbc(*agents: str) -> bool:
    """Return whether a user agent is that of the JDBC driver."""
    return any(mark in agent for agent in agents for mark in _JDBC_AGENTS)


@dataclass(frozen=True, slots=True)
class Session:
    """State of one session.

    Args:
        user: its owner; no other user can use it.
        peer: address that opened it.
        created_at: UTC.
        settings: chosen so far.
        notes: name -> value of what a client said that changes no answer.
    """

    user: str
    peer: str
    created_at: datetime
    settings: SessionSettings
    notes: Mapping[str, str] = field(default_factory=dict)


class Sessions:
    """The sessions of a server and the actions SetSessionOptions, GetSessionOptions and CloseSession.

    Args:
        limits: of their number and idle time.
        has_schema: returns whether a schema exists for the caller; the option `schema` takes no other.
    """

    def __init__(
        self,
        limits: LimitsSection,
        has_schema: Callable[[str, Call], bool] = lambda schema, _: schema == MAIN_SCHEMA,
    ) -> None:
        self._has_schema = has_schema
        self.on_closed: Callable[[str], None] = lambda _: None
        """Is told of each session that its client closes."""
        self._sessions: ExpiringCache[str, Session] = ExpiringCache(limits.max_sessions, limits.session_idle)

    def watch(self, on_left: Callable[[str], None]) -> None:
        """Tell of each session that was idle too long, or made room for others."""
        self._sessions.on_left = on_left

    def __len__(self) -> int:
        """Return the number of sessions."""
        return len(self._sessions)

    def list_all(self) -> list[tuple[str, float, Session]]:
        """Return the id, the idle seconds and the state of each session."""
        return self._sessions.entries()

    def find_settings(self, session_id: str | None, user: str) -> SessionSettings:
        """Return the settings of a user's session, the defaults where the call has none.

        Raises:
            NotFoundError: the user has no such session.
        """
        if session_id is None:
            return DEFAULTS
        session = self._sessions.get(session_id)
        if session is None or session.user != user:
            raise NotFoundError(
                f"session {session_id!r} is not known: it was closed, was idle too long, or the gateway "
                "restarted; connect again"
            )
        return session.settings

    def find_offered(self, session_id: str | None, user: str) -> str | None:
        """Return an id that a client was offered if a session of the user has begun under it."""
        session = None if session_id is None else self._sessions.get(session_id)
        return None if session is None or session.user != user else session_id

    def find_notes(self, call: Call) -> Mapping[str, str]:
        """Return what the client said in the session of a call that changes no answer."""
        session = None if call.session_id is None else self._sessions.get(call.session_id)
        return {} if session is None else session.notes

    def offer(self, call: Call) -> None:
        """Offer a client the id of a session, unless it has one."""
        if call.session_id is None and call.offered is None:
            call.add_header("set-cookie", f"{OFFER}={secrets.token_urlsafe(_ID_BYTES)}")

    def open(self, call: Call) -> Call:
        """Open a session for a client, unless the call has one: the answer to the call sets its cookie.

        Returns:
            The call, which is in the session if the client was offered it.
        """
        call = self.join(call)
        self._keep(call, self.find_settings(call.session_id, call.identity.name))
        return self.join(call)

    def join(self, call: Call) -> Call:
        """Return the call in the session that has begun since, under the id that its client was offered."""
        if call.session_id is not None:
            return call
        return dataclasses.replace(call, session_id=self.find_offered(call.offered, call.identity.name))

    def change(self, call: Call, settings: SessionSettings, notes: Mapping[str, str]) -> None:
        """Replace the options of the session of a call, and add to its notes.

        Raises:
            PreconditionError: the call has no session.
            NotFoundError: the schema of the settings does not exist for the caller.
        """
        session = None if call.session_id is None else self._sessions.get(call.session_id)
        if call.session_id is None or session is None:
            raise PreconditionError(NO_SESSION)
        self.check_schema(settings, session.settings, call)
        notes = {**session.notes, **notes}
        self._sessions.replace(call.session_id, dataclasses.replace(session, settings=settings, notes=notes))

    def check_schema(self, new: SessionSettings, old: SessionSettings, call: Call) -> None:
        """Check that the schema of new settings exists for the caller, unless it was that of the old ones.

        Raises:
            NotFoundError: it does not.
        """
        if new.schema != old.schema and not self._has_schema(new.schema, call):
            raise unknown_schema_error(new.schema)

    def list_handlers(self) -> Sequence[Handler]:
        """Return the handlers of this family."""
        return (
            Action(
                "SetSessionOptions",
                "Set options of the session of the cookie.",
                flight_pb2.SetSessionOptionsRequest,
                self._set_options,
                is_bare=True,
            ),
            Action(
                "GetSessionOptions",
                "Get the options of the session of the cookie.",
                flight_pb2.GetSessionOptionsRequest,
                self._get_options,
                is_bare=True,
            ),
            Action(
                "CloseSession",
                "Forget the session of the cookie.",
                flight_pb2.CloseSessionRequest,
                self._close,
                is_bare=True,
            ),
        )

    def _set_options(self, request: flight_pb2.SetSessionOptionsRequest, call: Call) -> bytes:
        # What this call chose by headers is not the session's.
        settings = self.find_settings(call.session_id, call.identity.name)
        result = flight_pb2.SetSessionOptionsResult()
        for name, value in request.session_options.items():
            if name not in _OPTIONS:
                result.errors[name].value = flight_pb2.SetSessionOptionsResult.INVALID_NAME
                continue
            try:
                changed = _change_option(settings, name, value)
                self.check_schema(changed, settings, call)
                settings = changed
            except (InvalidInputError, NotFoundError):
                result.errors[name].value = flight_pb2.SetSessionOptionsResult.INVALID_VALUE
        self._keep(call, settings)
        return result.SerializeToString()

    def _get_options(self, _request: flight_pb2.GetSessionOptionsRequest, call: Call) -> bytes:
        self._keep(call, self.find_settings(call.session_id, call.identity.name))
        settings = call.settings
        result = flight_pb2.GetSessionOptionsResult()
        for name, value in list_options(settings).items():
            if isinstance(value, bool):
                result.session_options[name].bool_value = value
            elif isinstance(value, int):
                result.session_options[name].int64_value = value
            else:
                result.session_options[name].string_value = value
        return result.SerializeToString()

    def _close(self, _request: flight_pb2.CloseSessionRequest, call: Call) -> bytes:
        if call.session_id is not None:
            if self._sessions.pop(call.session_id) is not None:
                self.on_closed(call.session_id)
            call.add_header("set-cookie", f"{COOKIE}=; Max-Age=0")
        # Without a cookie there is nothing to forget, and drivers close whatever they opened.
        return flight_pb2.CloseSessionResult(status=flight_pb2.CloseSessionResult.CLOSED).SerializeToString()

    def _keep(self, call: Call, settings: SessionSettings) -> None:
        if call.session_id is not None:
            session = self._sessions.get(call.session_id)
            if session is not None:
                # Not put: a session that another call has closed meanwhile stays closed.
                self._sessions.replace(call.session_id, dataclasses.replace(session, settings=settings))
            return
        session_id = call.offered
        if session_id is None or self._sessions.get(session_id) is not None:
            # What was offered may be the session of another user by now.
            session_id = secrets.token_urlsafe(_ID_BYTES)
        call.add_header("set-cookie", f"{COOKIE}={session_id}")
        self._sessions.put(session_id, Session(call.identity.name, call.peer, datetime.now(UTC), settings))


def change_options(settings: SessionSettings, values: Mapping[str, object]) -> SessionSettings:
    """Return settings with other values of some options; None stands for the default.

    Raises:
        InvalidInputError: an option can't have its value.
    """
    read: dict[str, Any] = {
        name: getattr(DEFAULTS, name) if value is None else _OPTIONS[name](value)
        for name, value in values.items()
    }
    return dataclasses.replace(settings, **read)


def list_options(settings: SessionSettings) -> dict[str, str | int | bool]:
    """Return the value of each option as clients see it."""
    options = {name: getattr(settings, name) for name in _OPTIONS}
    return options | {"shortcuts": format_shortcuts(settings.shortcuts)}


def _read_cookies(headers: Sequence[str]) -> dict[str, str]:
    pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
    return {name: value for name, _, value in pairs}


def _change_option(
    settings: SessionSettings, name: str, value: flight_pb2.SessionOptionValue
) -> SessionSettings:
    kind = value.WhichOneof("option_value")
    # A value of no kind asks for the default.
    return change_options(settings, {name: None if kind is None else getattr(value, kind)})
