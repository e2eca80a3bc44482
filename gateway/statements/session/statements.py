"""SET, RESET, DISCARD, USE and SHOW, executed on the session of the call.

    SET statement_timeout = '5s'; SHOW query_timeout_ms  ->  5000

They take effect when they are executed: on the session whose cookie the call brings. A client that keeps no
cookies would lose what it sets, so that is refused; drivers prepare statements, and get a session by that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Final

import pyarrow as pa

from lance_gateway.gateway.execution.own_statement import OwnStatement, ReadOwnStatement
from lance_gateway.gateway.protocol.commands import Call
from lance_gateway.gateway.sessions import NO_SESSION, Sessions, change_options, list_options
from lance_gateway.gateway.statements.session.parameters import PARAMETERS, Options, Parameter, State
from lance_gateway.gateway.statements.session.reading import (
    Assignment,
    read_reset,
    read_set,
    read_show,
    read_use,
)
from lance_gateway.memwal.errors import InvalidInputError, PermissionDeniedError, PreconditionError
from lance_gateway.memwal.storage.table_names import CATALOG
from lance_gateway.planner.engine import SessionSettings

_NO_COLUMNS: Final = pa.schema([])
_ALL: Final = pa.schema([(name, pa.string()) for name in ("name", "setting", "description")])


@dataclass(frozen=True)
class Change(OwnStatement):
    """A statement that changes options of the session.

    Attributes:
        sql: its text.
        options: option -> new value; None for the default.
        notes: what changes no answer.
        sessions: of the server.
        resets: whether options return to what the connection began with.
        end_temporary: drops the temporary tables of a session; None leaves them.
    """

    sql: str
    options: Options
    notes: Mapping[str, str]
    sessions: Sessions
    resets: bool = False
    end_temporary: Callable[[str], None] | None = None

    schema = _NO_COLUMNS

    def run(self, call: Call) -> pa.RecordBatch:
        """Change the session of the call.

        Raises:
            InvalidInputError: an option can't have its value.
            PreconditionError: the call has no session to change, or its headers choose an option.
            PermissionDeniedError: the session only reads, and would not any more.
        """
        call = self.sessions.join(call)
        before, after = self.compute(call)
        if call.session_id is not None:
            self.sessions.change(call, after, self.notes)
            if self.end_temporary is not None:
                self.end_temporary(call.session_id)
        elif after != before:
            raise PreconditionError(NO_SESSION)
        return pa.RecordBatch.from_pylist([], self.schema)

    def compute(self, call: Call) -> tuple[SessionSettings, SessionSettings]:
        """Return the options of the call's session, and what they would be; see `run` for errors."""
        before = self.sessions.find_settings(call.session_id, call.identity.name)
        after = change_options(before, self.options)
        if before.read_only and not after.read_only:
            raise PermissionDeniedError(
                f"{self.sql!r} was not executed, since this session only reads, and no SQL lifts that: the "
                "client sets the session option read_only to false"
            )
        for name in self.options.keys() & call.chosen:
            if not self.resets and getattr(after, name) != getattr(call.settings, name):
                raise PreconditionError(
                    f"{self.sql!r} was not executed, since a header of this connection chooses {name} = "
                    f"{getattr(call.settings, name)!r}, and headers win: connect without it"
                )
        return before, after


@dataclass(frozen=True)
class Show(OwnStatement):
    """SHOW of one setting.

    Attributes:
        sql: its text.
        parameter: the setting.
        sessions: of the server.
    """

    sql: str
    parameter: Parameter
    sessions: Sessions

    @cached_property
    def schema(self) -> pa.Schema:
        """One column, with the name of the setting."""
        return pa.schema([(self.parameter.name, pa.string())])

    def run(self, call: Call) -> pa.RecordBatch:
        """Return the value for the call."""
        value = self.parameter.show(_look(self.sessions, call))
        return pa.RecordBatch.from_pylist([{self.parameter.name: value}], self.schema)


@dataclass(frozen=True)
class ShowAll(OwnStatement):
    """SHOW ALL."""

    sql: str
    sessions: Sessions

    schema = _ALL

    def run(self, call: Call) -> pa.RecordBatch:
        """Return all settings, by name."""
        state = _look(self.sessions, call)
        rows = [
            {"name": one.name, "setting": one.show(state), "description": one.description}
            for _, one in sorted(PARAMETERS.items())
        ]
        return pa.RecordBatch.from_pylist(rows, self.schema)


class SessionStatements:
    """Reads the statements about sessions.

    Args:
        sessions: of the server.
        end_temporary: drops the temporary tables of a session.
    """

    def __init__(self, sessions: Sessions, end_temporary: Callable[[str], None]) -> None:
        self._sessions = sessions
        self._end_temporary = end_temporary

    @property
    def readers(self) -> Mapping[str, ReadOwnStatement]:
        """First word -> what reads the statement."""
        return {
            "set": lambda sql, call: self._check(self._set(sql, read_set(sql)), call),
            "reset": lambda sql, call: self._check(self._reset(sql, call), call),
            "discard": lambda sql, call: self._check(self._reset(sql, call), call),
            "use": lambda sql, call: self._check(self._use(sql), call),
            "show": lambda sql, _call: self._show(sql),
        }

    def _check(self, change: Change, call: Call) -> Change:
        """Check a change before it is made, and see that there is a session for it."""
        before, after = change.compute(call)
        if call.session_id is None and after != before:
            self._sessions.open(call)
        return change

    def _set(self, sql: str, assignments: tuple[Assignment, ...], *, resets: bool = False) -> Change:
        options: dict[str, object] = {}
        notes: dict[str, str] = {}
        for one in assignments:
            parameter = _find_parameter(one.name)
            options |= parameter.read(one.value)
            if parameter.note is not None:
                notes[parameter.name] = parameter.note(one.value)
        return Change(sql, options, notes, self._sessions, resets)

    def _reset(self, sql: str, call: Call) -> Change:
        reset = read_reset(sql)
        end_temporary = self._end_temporary if reset.drops_temporary else None
        if reset.assignments is None:
            # What a session may not do, a pool that cleans its connections does not allow again.
            keeps = call.settings.read_only
            names = [name for name in list_options(call.settings) if not (keeps and name == "read_only")]
            notes = {one.name: one.note(None) for one in PARAMETERS.values() if one.note is not None}
            change = Change(sql, dict.fromkeys(names), notes, self._sessions, resets=True)
        else:
            change = self._set(sql, reset.assignments, resets=True)
        return replace(change, end_temporary=end_temporary)

    def _use(self, sql: str) -> Change:
        *qualifiers, name = read_use(sql)
        if len(qualifiers) > 1:
            raise InvalidInputError(f"{sql!r}: write USE schema or USE catalog.schema")
        if qualifiers:
            return Change(sql, {"catalog": qualifiers[0], "schema": name}, {}, self._sessions)
        if name == CATALOG:
            return Change(sql, {"catalog": name}, {}, self._sessions)
        return Change(sql, {"schema": name}, {}, self._sessions)

    def _show(self, sql: str) -> OwnStatement | None:
        name = read_show(sql)
        if name is None:
            return None
        if name == "all":
            return ShowAll(sql, self._sessions)
        return Show(sql, _find_parameter(name), self._sessions)


def _look(sessions: Sessions, call: Call) -> State:
    return State(call.settings, sessions.find_notes(call), call.identity.name, call.access.is_admin)


def _find_parameter(name: str) -> Parameter:
    """Return a setting.

    Raises:
        InvalidInputError: there is none of that name.
    """
    parameter = PARAMETERS.get(name)
    if parameter is not None:
        return parameter
    near = get_close_matches(name, PARAMETERS, n=2)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else f"options are {', '.join(list_options(SessionSettings()))}"
    )
    raise InvalidInputError(f"There is no setting {name!r}: {hint}; SHOW ALL lists all settings")
