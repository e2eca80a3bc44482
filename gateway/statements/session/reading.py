"""Reads statements about the session: which settings they name, and which values they give to them."""

from dataclasses import dataclass

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.binding.tools.show_lists import LISTED
from lance_gateway.planner.sql.text.statement_reader import StatementReader
from lance_gateway.planner.sql.text.tokens import QUOTED, STRING, fold, tokenize

_NUMBER = "0"
_LISTS = LISTED | {"COLUMNS", "FUNCTIONS", "CREATE", "INDEXES", "INDEX", "KEYS"}
"""What SHOW lists by a query."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One setting with its new value; None for the default."""

    name: str
    value: str | None


def read_set(sql: str) -> tuple[Assignment, ...]:
    """Read SET.

    >>> read_set("SET SESSION statement_timeout TO '5s'")
    (Assignment(name='statement_timeout', value='5s'),)
    >>> read_set("SET TIME ZONE 'UTC'")
    (Assignment(name='timezone', value='UTC'),)

    Raises:
        InvalidInputError: syntax.
        UnsupportedError: it sets something for a transaction, or acts as another user.
    """
    reader = StatementReader(tokenize(sql))
    reader.expect("SET")
    if reader.is_at("TRANSACTION") or reader.is_at("SESSION", "CHARACTERISTICS"):
        raise UnsupportedError(
            "SET SESSION CHARACTERISTICS: sessions have no modes of transactions: name them behind BEGIN"
        )
    if reader.is_at("LOCAL"):
        raise UnsupportedError(
            "SET LOCAL: options are not part of a transaction: write SET, which lasts for the session"
        )
    if not (
        reader.is_at("SESSION", "AUTHORIZATION") or reader.words[1:3] in {("SESSION", "="), ("SESSION", "TO")}
    ):
        reader.take("SESSION")
    assignments = [_read_assignment(reader)]
    while reader.take(","):
        assignments.append(_read_assignment(reader))
    reader.expect_end()
    return tuple(assignments)


@dataclass(frozen=True, slots=True)
class Reset:
    """What returns to how the session began.

    Attributes:
        assignments: of settings; None for all of them.
        drops_temporary: whether temporary tables are dropped.
    """

    assignments: tuple[Assignment, ...] | None
    drops_temporary: bool = False


def read_reset(sql: str) -> Reset:
    """Read RESET or DISCARD.

    Raises:
        InvalidInputError: syntax.
    """
    reader = StatementReader(tokenize(sql))
    if reader.take("DISCARD"):
        # What else it names belongs to no session here.
        if reader.take("PLANS") or reader.take("SEQUENCES"):
            reader.expect_end()
            return Reset(())
        if reader.take("TEMP") or reader.take("TEMPORARY"):
            reader.expect_end()
            return Reset((), drops_temporary=True)
        reader.expect("ALL")
        reader.expect_end()
        return Reset(None, drops_temporary=True)
    reader.expect("RESET")
    if reader.take("ALL"):
        reader.expect_end()
        return Reset(None)
    name = _read_setting(reader)
    reader.expect_end()
    return Reset((Assignment(name, None),))


def read_use(sql: str) -> tuple[str, ...]:
    """Read USE; return the parts of the name behind it.

    Raises:
        InvalidInputError: syntax.
    """
    reader = StatementReader(tokenize(sql))
    reader.expect("USE")
    if reader.word and reader.words[reader.at + 1] not in {"", "."}:
        # USE SCHEMA s, USE CATALOG c; a schema may also be called so.
        for word in ("SCHEMA", "CATALOG", "DATABASE"):
            if reader.take(word):
                break
    parts = reader.read_qualified_name("The name of a catalog or schema")
    reader.expect_end()
    return parts


def read_show(sql: str) -> str | None:
    """Read SHOW; return the name of the setting, "all" for all of them, or None for lists such as of tables.

    Raises:
        InvalidInputError: syntax.
    """
    reader = StatementReader(tokenize(sql))
    reader.expect("SHOW")
    if reader.word in _LISTS or (reader.word == "FULL" and reader.words[2] in _LISTS):
        return None
    if reader.take("ALL"):
        reader.expect_end()
        return "all"
    name = _read_setting(reader)
    reader.expect_end()
    return name


def _read_assignment(reader: StatementReader) -> Assignment:
    if reader.take("NAMES") or reader.take("CHARACTER", "SET"):
        return Assignment("client_encoding", _read_values(reader))
    if reader.is_at("SCHEMA") and reader.words[reader.at + 1] not in {"=", "TO"}:
        reader.at += 1
        return Assignment("schema", _read_values(reader))
    is_clause = (
        reader.is_at("TIME", "ZONE") or reader.is_at("SESSION", "AUTHORIZATION") or reader.is_at("ROLE")
    )
    name = _read_setting(reader)
    if not (reader.take("=") or reader.take("TO") or is_clause):
        raise reader.unexpected_error(f"= or TO is expected behind SET {name}")
    return Assignment(name, _read_values(reader))


def _read_setting(reader: StatementReader) -> str:
    """Read the name of a setting, which may have several words."""
    for words, name in (
        (("TIME", "ZONE"), "timezone"),
        (("SESSION", "AUTHORIZATION"), "session_authorization"),
        (("TRANSACTION", "ISOLATION", "LEVEL"), "transaction_isolation"),
    ):
        if reader.take(*words):
            return name
    return fold(".".join(reader.read_qualified_name("The name of a setting")))


def _read_values(reader: StatementReader) -> str | None:
    """Read a value, or several with commas between them; None for DEFAULT."""
    if reader.take("DEFAULT"):
        return None
    values = [_read_value(reader)]
    # `SET a = 1, b = 2` goes on with another setting.
    while reader.word == "," and not _is_assignment(reader):
        reader.at += 1
        values.append(_read_value(reader))
    return ", ".join(values)


def _is_assignment(reader: StatementReader) -> bool:
    """Return whether another setting with its value follows the comma."""
    return any(word in {"=", "TO"} for word in reader.words[reader.at + 2 : reader.at + 3])


def _read_value(reader: StatementReader) -> str:
    sign = "-" if reader.take("-") else ""
    is_value = reader.word in {STRING, QUOTED, _NUMBER} or reader.text.is_name(reader.at)
    if not is_value or (sign and reader.word != _NUMBER):
        raise reader.unexpected_error("A value is expected: a text in single quotes, a number, or a word")
    reader.at += 1
    return sign + reader.text.tokens[reader.at - 1].text
