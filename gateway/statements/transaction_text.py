"""Statements about transactions, as text: BEGIN, COMMIT, ROLLBACK, SET TRANSACTION."""

import re
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.planner.engine import first_word

_FIRST_WORDS = frozenset(
    {"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "set"}
)
_COMMENT = re.compile(r"--[^\n]*(?:\n|$)|/\*.*?\*/", re.DOTALL)
_NOISE = r"(?: (?:WORK|TRANSACTION|TRAN))?"
_BEGIN = re.compile(rf"(?:BEGIN{_NOISE}|START TRANSACTION)(?P<modes>(?: .*)?)")
_END = re.compile(rf"(?P<word>COMMIT|END|ROLLBACK|ABORT){_NOISE}(?: AND NO CHAIN)?")
_SET = re.compile(r"SET TRANSACTION(?P<modes> .*)")
_SAVEPOINT = re.compile(rf"(?:SAVEPOINT|RELEASE|ROLLBACK{_NOISE} TO)(?: .*)?")
# Those that are weaker than what is offered are had as well.
_LEVELS = r"REPEATABLE READ|READ COMMITTED|READ UNCOMMITTED|SNAPSHOT"
_MODE = re.compile(rf"(?:ISOLATION LEVEL (?P<level>{_LEVELS}|SERIALIZABLE)|READ (?P<access>ONLY|WRITE))")
_MODES = "READ ONLY, READ WRITE or ISOLATION LEVEL REPEATABLE READ"
_FORMS = MappingProxyType(
    {
        "begin": f"BEGIN or START TRANSACTION, and behind it {_MODES}",
        "start": f"START TRANSACTION, and behind it {_MODES}",
        "set": f"SET TRANSACTION {_MODES}",
    }
)
NO_SAVEPOINTS = "the gateway has no savepoints: roll the whole transaction back, or make several of it"


class Verb(Enum):
    """What a statement does with the transaction."""

    BEGIN = "BEGIN"
    COMMIT = "COMMIT"
    ROLL_BACK = "ROLLBACK"
    SET = "SET TRANSACTION"


@dataclass(frozen=True, slots=True)
class TransactionText:
    """A parsed statement.

    Attributes:
        verb: what it does.
        is_read_only: whether the transaction may only read; None if it does not say.
    """

    verb: Verb
    is_read_only: bool | None = None


def parse_transaction_text(sql: str) -> TransactionText | None:
    """Return what a statement does with the transaction; None for all other statements.

    >>> parse_transaction_text("start transaction read only;")
    TransactionText(verb=<Verb.BEGIN: 'BEGIN'>, is_read_only=True)

    Raises:
        InvalidInputError: it begins like one, and does not go on like one.
        UnsupportedError: it asks for what is not supported.
    """
    word = first_word(sql)
    if word not in _FIRST_WORDS:
        return None
    text = " ".join(_COMMENT.sub(" ", sql).replace(",", " , ").rstrip("; \t\r\n").upper().split())
    if word == "set" and not text.startswith("SET TRANSACTION "):
        return None
    if _SAVEPOINT.fullmatch(text):
        raise UnsupportedError(NO_SAVEPOINTS)
    end = _END.fullmatch(text)
    if end is not None:
        return TransactionText(Verb.COMMIT if end["word"] in ("COMMIT", "END") else Verb.ROLL_BACK)
    begin = _BEGIN.fullmatch(text) or _SET.fullmatch(text)
    if begin is None:
        raise _syntax_error(sql, word)
    verb = Verb.SET if word == "set" else Verb.BEGIN
    return TransactionText(verb, _read_modes(begin["modes"].strip(), sql, word))


def _read_modes(text: str, sql: str, word: str) -> bool | None:
    """Return whether the modes say that the transaction only reads; None if they don't say."""
    is_read_only = None
    for mode in filter(None, re.split(r" ?, ?| (?=READ (?:ONLY|WRITE)\b|ISOLATION )", text)):
        match = _MODE.fullmatch(mode)
        if match is None:
            raise _syntax_error(sql, word)
        if match["level"] == "SERIALIZABLE":
            raise UnsupportedError(
                "transactions are not SERIALIZABLE: they are REPEATABLE READ, which reads one snapshot of "
                "each table and refuses to overwrite what others changed since; ask for that level"
            )
        if match["access"] is not None:
            is_read_only = match["access"] == "ONLY"
    return is_read_only


def _syntax_error(sql: str, word: str) -> InvalidInputError:
    form = _FORMS.get(word, word.upper())
    return InvalidInputError(f"{sql!r} cannot be read: it is written {form}")
