"""Functions that tell who asks, and where, as constants.

    SELECT current_user, count(*) FROM orders WHERE clerk = current_user
->  SELECT 'anna' AS "current_user", count(*) FROM orders WHERE clerk = 'anna'

Those without brackets are reserved words in PostgreSQL: a column of such a name is written in quotes, or
behind the name of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Final

from planner.sql.edits import Edit, apply_edits
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import STRING, SqlText, quote, tokenize
from planner.system.catalogs.fixed_settings import SERVER_VERSION, find_fixed_setting
from planner.system.catalogs.relations import PG_CATALOG

_RESERVED: Final = frozenset(
    {"CURRENT_USER", "SESSION_USER", "CURRENT_ROLE", "CURRENT_CATALOG", "CURRENT_SCHEMA"}
)
_CONSTANTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # A session has no process and no connection of its own.
        **dict.fromkeys(("PG_BACKEND_PID", "CONNECTION_ID", "PG_MY_TEMP_SCHEMA"), "0"),
        **dict.fromkeys(("PG_CLIENT_ENCODING", "GETDATABASEENCODING"), "'UTF8'"),
        **dict.fromkeys(("INET_CLIENT_ADDR", "INET_SERVER_ADDR"), "CAST(NULL AS TEXT)"),
        **dict.fromkeys(("INET_CLIENT_PORT", "INET_SERVER_PORT"), "CAST(NULL AS INT)"),
    }
)
"""Function without arguments -> its value."""
_OF_MYSQL: Final = frozenset({"USER", "SYSTEM_USER", "DATABASE", "SCHEMA"})
_CALLED: Final = (
    frozenset({"CURRENT_DATABASE", "CURRENT_SCHEMAS", "VERSION", "CURRENT_SETTING"})
    | frozenset({"CURRENT_SCHEMA", "CURRENT_USER", "SESSION_USER"})
    | _CONSTANTS.keys()
    | _OF_MYSQL
)
WORDS: Final = _RESERVED | _CALLED
"""A text without any of these words has none of the functions."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, and where.

    Attributes:
        user: name of the principal.
        catalog: of the session.
        schema: likewise.
    """

    user: str
    catalog: str
    schema: str


def describe_server() -> str:
    """Return what version() tells."""
    return (
        f"Lance Gateway {version('lance-gateway')} on Apache DataFusion {version('datafusion')}, "
        f"with the catalog of PostgreSQL {SERVER_VERSION}"
    )


def tell_asker(text: SqlText, asker: Asker) -> SqlText:
    """Return the text with constants in the places of these functions; the same object if it has none.

    Raises:
        InvalidInputError: current_setting() of a setting that sessions do not have in common.
    """
    edits = list(_find(text, asker))
    return tokenize(apply_edits(text.sql, edits)) if edits else text


def _find(text: SqlText, asker: Asker) -> Iterator[Edit]:
    words = text.words
    for i, word in enumerate(words):
        if word not in WORDS:
            continue
        first = i
        if i > 1 and words[i - 1] == ".":
            if text.name(i - 2) != PG_CATALOG:
                continue
            first = i - 2
        is_called = words[i + 1] == "("
        last = text.closing(i + 1) if is_called else i
        if not words[last]:
            return  # a bracket is not closed, which the binder tells
        value = _compute(text, i, last, asker) if is_called else _find_reserved(text, i, first, asker)
        if value is None:
            continue
        if is_result(text, first, last):
            value = f"{value} AS {quote(word.lower())}"
        yield Edit.replace(text.start(first), text.end(last), value)


def _find_reserved(text: SqlText, i: int, first: int, asker: Asker) -> str | None:
    word = text.words[i]
    if word not in _RESERVED or text.words[i + 1] == "." or (first and text.words[first - 1] in {"AS", "."}):
        return None
    return _literal({"CURRENT_CATALOG": asker.catalog, "CURRENT_SCHEMA": asker.schema}.get(word, asker.user))


def _compute(text: SqlText, i: int, last: int, asker: Asker) -> str | None:
    """Return the value of a call; None where it is another function, or has other arguments."""
    word, arguments = text.words[i], text.words[i + 2 : last]
    if not arguments:
        values = {
            "CURRENT_DATABASE": asker.catalog,
            **dict.fromkeys(("CURRENT_SCHEMA", "DATABASE", "SCHEMA"), asker.schema),
            **dict.fromkeys(("CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"), asker.user),
            "VERSION": describe_server(),
        }
        return _literal(values[word]) if word in values else _CONSTANTS.get(word)
    if word == "CURRENT_SCHEMAS" and arguments in {("TRUE",), ("FALSE",)}:
        names = ["pg_catalog"] * (arguments == ("TRUE",)) + [asker.schema]
        return f"ARRAY[{', '.join(map(_literal, names))}]"
    if word == "CURRENT_SETTING" and arguments[0] == STRING:
        name = text.tokens[i + 2].text
        value = asker.schema if name.lower() == "search_path" else find_fixed_setting(name)
        if value is not None:
            return _literal(value)
        if arguments[1:] == (",", "TRUE"):
            return "CAST(NULL AS TEXT)"
        raise text.error(i + 2, f"current_setting() does not know {name!r}, which SHOW may tell; it stands")
    return None


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
