"""The settings that SET, SHOW and RESET know: options of the session, and settings of PostgreSQL.

A setting of PostgreSQL that says how statements are answered stands for an option, or has the one value that
is true here. One that changes no answer is noted, so that SHOW tells it back.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lance_gateway.gateway.sessions import list_options
from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from lance_gateway.planner.engine import SessionSettings
from lance_gateway.planner.system.catalogs.fixed_settings import FIXED_SETTINGS

Options = Mapping[str, object]
"""Option -> new value; None for the default."""


@dataclass(frozen=True, slots=True)
class State:
    """What SHOW looks at.

    Attributes:
        settings: of the call.
        notes: of its session.
        user: who calls.
        is_admin: whether that is an administrator.
    """

    settings: SessionSettings
    notes: Mapping[str, str]
    user: str
    is_admin: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting.

    Attributes:
        name: as it is shown.
        description: for SHOW ALL.
        show: returns the value.
        read: reads a new value (None for the default); returns the options that it changes.
        note: reads a new value; returns what is noted. None where nothing is.
    """

    name: str
    description: str
    show: Callable[[State], str]
    read: Callable[[str | None], Options] = lambda _: {}
    note: Callable[[str | None], str] | None = None


def _option(name: str) -> Parameter:
    """Return the setting that is an option of the session."""

    def show(state: State) -> str:
        value = list_options(state.settings)[name]
        return str(value).lower() if isinstance(value, bool) else str(value)

    def read(value: str | None) -> Options:
        is_flag = isinstance(list_options(SessionSettings())[name], bool)
        return {name: _read_flag(name, value) if is_flag and value is not None else value}

    return Parameter(name, "Option of the session.", show, read)


def _own(name: str, show: Callable[[State], str], *, refusal: str, description: str) -> Parameter:
    """Return a setting that can't be changed, and is another one for each session."""

    def read(value: str | None) -> Options:
        if value is not None:
            raise _refuse(name, value, refusal)
        return {}

    return Parameter(name, description, show, read)


def _fixed(name: str, others: str = "", *, value: str = "", refusal: str, description: str) -> Parameter:
    """Return a setting that has one value, with other spellings of it in a regular expression."""
    only = value or FIXED_SETTINGS[name]
    pattern = re.compile(others, re.IGNORECASE)

    def read(given: str | None) -> Options:
        if given is not None and given.lower() != only.lower() and pattern.fullmatch(given) is None:
            raise _refuse(name, given, refusal)
        return {}

    return Parameter(name, description, lambda _: only, read)


def _noted(
    name: str, default: str, normalize: Callable[[str], str | None], valid: str, description: str
) -> Parameter:
    """Return a setting that changes no answer.

    Args:
        name: of the setting.
        default: its first value.
        normalize: returns a valid value as it is shown, None for others.
        valid: what is valid, for messages.
        description: for SHOW ALL.
    """

    def note(given: str | None) -> str:
        value = default if given is None else normalize(given)
        if value is None:
            raise InvalidInputError(f"{name} {given!r}: give {valid}")
        return value

    return Parameter(name, description, lambda state: state.notes.get(name, default), note=note)


def _refuse(name: str, value: str | None, refusal: str) -> LanceGatewayError:
    return UnsupportedError(f"SET {name} = {value!r} was refused: {refusal}")


def _read_flag(name: str, value: str) -> bool:
    word = value.lower()
    if word in {"on", "true", "yes", "1"}:
        return True
    if word in {"off", "false", "no", "0"}:
        return False
    raise InvalidInputError(f"{name} {value!r}: give on or off")


def _flag_option(
    name: str, option: str, description: str, words: Mapping[str, str] = MappingProxyType({})
) -> Parameter:
    """Return a setting that stands for a true or false option; `words` are other spellings of on and off."""

    def read(value: str | None) -> Options:
        return {option: None if value is None else _read_flag(name, words.get(value.lower(), value))}

    def show(state: State) -> str:
        return "on" if getattr(state.settings, option) else "off"

    return Parameter(name, description, show, read)


_DURATION = re.compile(r"(\d{1,15})\s*(us|ms|s|min|h|d)?")
_MILLISECONDS: Final = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _read_timeout(value: str | None) -> Options:
    if value is None:
        return {"query_timeout_ms": None}
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise InvalidInputError(
            f"statement_timeout {value!r}: give milliseconds, or a number with a unit such as '5s' or '2min'"
        )
    number, unit = int(match[1]), match[2] or "ms"
    # A timeout of less than a millisecond is no wish for none.
    milliseconds = -(-number // 1000) if unit == "us" else number * _MILLISECONDS[unit]
    return {"query_timeout_ms": milliseconds}


def _show_timeout(state: State) -> str:
    milliseconds = state.settings.query_timeout_ms
    if not milliseconds:
        return "0"
    unit = max(
        (one for one in _MILLISECONDS if milliseconds % _MILLISECONDS[one] == 0),
        key=_MILLISECONDS.__getitem__,
    )
    return f"{milliseconds // _MILLISECONDS[unit]}{unit}"


def _read_search_path(value: str | None) -> Options:
    """Read a list of schemas, of which the catalogs that are always searched say nothing."""
    named = [part.strip().strip('"') for part in (value or "").split(",")]
    named = [part for part in named if part not in {"$user", "pg_catalog", ""}]
    if len(named) > 1:
        raise UnsupportedError(
            f"search_path {value!r}: one schema is searched; name one, and the others in the names of tables"
        )
    return {"schema": named[0] if named else None}


def _normalize_date_style(value: str) -> str | None:
    words = [word for word in re.split(r"[\s,]+", value.strip().upper()) if word]
    orders = {"MDY": "MDY", "US": "MDY", "DMY": "DMY", "EUROPEAN": "DMY", "EURO": "DMY", "YMD": "YMD"}
    order = "MDY"
    for word in words:
        if word != "ISO" and word not in orders:
            return None
        order = orders.get(word, order)
    return f"ISO, {order}" if words else None


_LEVELS = ("debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error")
_SWITCH = {
    "on": "on",
    "true": "on",
    "1": "on",
    "yes": "on",
    "off": "off",
    "false": "off",
    "0": "off",
    "no": "off",
}
_ZONE = r"utc|gmt|etc/utc|etc/gmt|zulu|z|universal|local|[+-]?0+(:00)?"
_NO_WAITING = "statements wait for no locks and stand in no transaction, so only 0 (never) is true"


def _list_parameters() -> tuple[Parameter, ...]:
    options = list_options(SessionSettings())
    return (
        *(_option(name) for name in options),
        Parameter("statement_timeout", "The option query_timeout_ms.", _show_timeout, _read_timeout),
        Parameter(
            "search_path", "The option schema.", lambda state: state.settings.schema, _read_search_path
        ),
        _flag_option("default_transaction_read_only", "read_only", "The option read_only."),
        _flag_option("transaction_read_only", "read_only", "The option read_only."),
        _flag_option(
            "synchronous_commit",
            "durable_writes",
            "The option durable_writes.",
            {"local": "on", "remote_write": "on", "remote_apply": "on"},
        ),
        _noted("application_name", "", lambda value: value[:64], "a text", "Name of the client's program."),
        _noted(
            "DateStyle",
            "ISO, MDY",
            _normalize_date_style,
            "ISO with MDY, DMY or YMD",
            "How dates are written.",
        ),
        _noted(
            "extra_float_digits",
            "1",
            lambda value: value if value in {"0", "1", "2", "3"} else None,
            "0 to 3, since no digits are left out",
            "Numbers have all digits.",
        ),
        _noted(
            "client_min_messages",
            "notice",
            lambda value: value.lower() if value.lower() in _LEVELS else None,
            "one of " + ", ".join(_LEVELS),
            "No messages are sent.",
        ),
        _noted("jit", "on", lambda value: _SWITCH.get(value.lower()), "on or off", "Changes nothing."),
        _noted(
            "check_function_bodies",
            "on",
            lambda value: _SWITCH.get(value.lower()),
            "on or off",
            "Changes nothing.",
        ),
        *_list_fixed(),
    )


def _list_fixed() -> tuple[Parameter, ...]:
    never = "it can't be changed"
    isolation = "each statement reads one snapshot of its tables, as 'read committed' promises"
    return (
        _fixed(
            "client_encoding",
            "utf-?8|utf8mb[34]|unicode",
            refusal="texts are UTF-8",
            description="Encoding of texts.",
        ),
        _fixed("server_encoding", refusal=never, description="Encoding of texts."),
        _fixed(
            "TimeZone",
            _ZONE,
            refusal="moments are told in UTC; write AT TIME ZONE where another zone is wanted",
            description="Zone of now() and of texts without a zone.",
        ),
        _fixed(
            "standard_conforming_strings",
            "true|1|yes",
            refusal="backslashes in '..' stand for themselves; write E'..' where they escape",
            description="Backslashes in '..' stand for themselves.",
        ),
        _fixed(
            "bytea_output",
            "hex",
            refusal="bytes are not written as text",
            description="How bytes are written.",
        ),
        _fixed("integer_datetimes", refusal=never, description="Moments are whole numbers of a unit."),
        _fixed("lc_collate", refusal=never, description="Texts are ordered by their bytes."),
        _fixed("lc_ctype", refusal=never, description="Texts are ordered by their bytes."),
        _fixed("default_table_access_method", refusal=never, description="Tables are Lance's."),
        _fixed(
            "server_version",
            refusal=never,
            description="PostgreSQL's version of the catalog.",
        ),
        _fixed("server_version_num", refusal=never, description="The same, as a number."),
        _fixed(
            "transaction_isolation",
            "read committed",
            refusal=isolation,
            description="Isolation of statements.",
        ),
        _fixed(
            "default_transaction_isolation",
            refusal=isolation,
            description="Isolation of statements.",
        ),
        _fixed(
            "autocommit",
            "true|1",
            value="on",
            refusal="transactions begin with BEGIN: outside of them, what a statement writes stays",
            description="What a statement writes stays.",
        ),
        *(
            _fixed(name, r"0\s*(us|ms|s|min|h|d)?", value="0", refusal=_NO_WAITING, description="Never.")
            for name in ("lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")
        ),
        _own(
            "session_authorization",
            lambda state: state.user,
            refusal="connect as that user",
            description="The user.",
        ),
        _fixed("role", value="none", refusal="connect as that user", description="No role."),
        _own(
            "is_superuser",
            lambda state: "on" if state.is_admin else "off",
            refusal=never,
            description="Whether the user is an administrator.",
        ),
    )


PARAMETERS: Final[Mapping[str, Parameter]] = MappingProxyType(
    {parameter.name.lower(): parameter for parameter in _list_parameters()}
)
"""Name in lower case -> setting."""
