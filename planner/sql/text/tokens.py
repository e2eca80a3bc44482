"""Tokenizes SQL text by DataFusion's lexical rules.

The rest of the binder reads only words and punctuation, never raw text, so it can't mistake strings,
comments, quoted identifiers and dollar quotes for SQL. sqlglot's tokenizer is used without its keywords,
since the position of a word decides whether it is one.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from lance_gateway.memwal.transforms.determinism import list_functions

QUOTED = '"'
STRING = "'"
VECTOR = "vector_"
"""Prefix of the names of constants that are not in the text."""
_NUMBER = "0"
_EXCERPT = 60
# sqlglot's error for unterminated quoted text, with the quote and the character position.
_TOKEN_ERROR = re.compile(r"Missing (.+) from \d+:(\d+)$")


# sqlglot reads "$1,$" as a dollar quote with the tag "1,", so the dollar of parameters is replaced with this
# character, which SQL does not use.
_PARAMETER = "\ue000"
_PARAMETER_DOLLAR = re.compile(r"(?<![\w$])\$(?=\d)")


class _DataFusionTokenizer(Postgres.Tokenizer):
    """PostgreSQL's lexical rules with the differences of DataFusion's generic dialect."""

    IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
    VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$", "#", "@"}
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        **Postgres.Tokenizer.SINGLE_TOKENS,
        _PARAMETER: TokenType.PARAMETER,
    }
    COMMANDS: ClassVar[set[TokenType]] = set()
    # Operators only; of those that begin with "?" none exists here, so "?::int" is a parameter and a cast.
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        text: kind
        for text, kind in Postgres.Tokenizer.KEYWORDS.items()
        if not text[0].isalpha() and text[0] not in "?{%/" and "}" not in text and "#" not in text
    }


# The template comments of other dialects would swallow a struct literal such as {#a: 1}.
_DataFusionTokenizer._COMMENTS.pop("{#", None)  # noqa: SLF001


class _PerThread(threading.local):
    """The tokenizer of a thread, since a tokenizer has state."""

    def __init__(self) -> None:
        self.tokenizer = _DataFusionTokenizer(Postgres())


_PER_THREAD = _PerThread()
_KINDS = {
    TokenType.IDENTIFIER: QUOTED,
    TokenType.NUMBER: _NUMBER,
    TokenType.STRING: STRING,
    TokenType.BYTE_STRING: STRING,
    TokenType.BIT_STRING: STRING,
    TokenType.HEX_STRING: STRING,
    TokenType.HEREDOC_STRING: STRING,
    TokenType.NATIONAL_STRING: STRING,
    TokenType.RAW_STRING: STRING,
    TokenType.UNICODE_STRING: STRING,
}
_STRING_PREFIXES = frozenset({"Q", "NQ", "R", "B"})


@dataclass(frozen=True, slots=True)
class SqlText:
    """One statement with its tokens.

    Attributes:
        sql: the text.
        tokens: of the text.
        words: one per token, and "" at the end: bare words in upper case, `QUOTED` for quoted identifiers,
            `STRING` for string literals, "0" for numbers, and punctuation as it is.
        names: token -> identifier as DataFusion reads it, for quoted identifiers and bare words.
    """

    sql: str
    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    names: Mapping[int, str]

    def has_any(self, words: AbstractSet[str]) -> bool:
        """Return whether it has one of some words, in upper case, in quotes or without."""
        if not words.isdisjoint(self.words):
            return True
        return QUOTED in self.words and any(name.upper() in words for name in self.names.values())

    def is_name(self, index: int) -> bool:
        """Return whether a token can be an identifier."""
        return index in self.names

    def name(self, index: int) -> str:
        """Return the identifier at a token, or the text of another token."""
        return self.names.get(index) or fold(self.tokens[index].text)

    def start(self, index: int) -> int:
        """Return the character position of a token, or the end of the text behind the last one."""
        return self.tokens[index].start if index < len(self.tokens) else len(self.sql)

    def end(self, index: int) -> int:
        """Return the position behind the last character of a token."""
        return self.tokens[index].end + 1

    def closing(self, opening: int) -> int:
        """Return the index of the bracket that closes the one at a token; the end if none does."""
        depth = 0
        for i in range(opening, len(self.words)):
            depth += (self.words[i] == "(") - (self.words[i] == ")")
            if depth == 0:
                return i
        return len(self.words) - 1

    def level(self, first: int) -> Iterator[int]:
        """Yield the tokens from one on that are in no bracket behind it, up to the end of its own bracket."""
        i = first
        while i < len(self.words) and self.words[i] != ")":
            yield i
            i = self.closing(i) + 1 if self.words[i] == "(" else i + 1

    def error(self, index: int, message: str) -> InvalidInputError:
        """Return a syntax error at a token, with an excerpt."""
        return InvalidInputError(PlacedMessage(self.sql, self.start(index), message))


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of a table function.

    Attributes:
        first: token of the name.
        opening: token of the opening bracket.
        closing: token of the closing bracket.
        name: as DataFusion reads it.
    """

    first: int
    opening: int
    closing: int
    name: str


def fold(name: str) -> str:
    """Return a name with ASCII letters in lower case, as DataFusion folds unquoted identifiers."""
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


def quote(name: str) -> str:
    """Return a name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """The message of an error about a place in a statement.

    As text, it has line, column and an excerpt of the statement whose caret marks the place.

    Attributes:
        sql: the statement.
        position: of the character, from 0; behind the last one for the end.
        what: is wrong there.
        note: behind the excerpt.
    """

    sql: str
    position: int
    what: str
    note: str = ""

    def __str__(self) -> str:
        sql, position = self.sql, min(self.position, len(self.sql))
        line_start = sql.rfind("\n", 0, position) + 1
        line_end = sql.find("\n", position)
        line = sql[line_start : len(sql) if line_end < 0 else line_end].replace("\t", " ").rstrip("\r")
        column = position - line_start
        cut = max(0, column - _EXCERPT)
        excerpt = ("..." if cut else "") + line[cut : column + _EXCERPT]
        excerpt += "..." if len(line) > column + _EXCERPT else ""
        caret = " " * (column - cut + (3 if cut else 0)) + "^"
        return f"{self.what} {format_place(sql, position)}:\n  {excerpt}\n  {caret}{self.note}"


def format_place(sql: str, position: int) -> str:
    """Return line and column of a character, which is counted from 0, in brackets."""
    line, begin = sql.count("\n", 0, position) + 1, sql.rfind("\n", 0, position)
    return f"(line {line}, column {position - begin})"


def find_place(error: LanceGatewayError) -> PlacedMessage | None:
    """Return the message of an error about a place in its statement; None if it names no place there.

    What is told of another text, as of that of a view, is a message without a place.
    """
    message = error.args[0] if error.args else None
    return message if isinstance(message, PlacedMessage) else None


_QUOTED_CALL = re.compile(r'"[a-z][a-z0-9_]*"(?=\s*\()')
_CALLED_BY_CLAUSES = frozenset({"extract", "overlay", "position"})
"""Functions whose arguments stand in clauses unless the name is quoted."""


def tokenize(sql: str) -> SqlText:
    """Split one statement into tokens, without a trailing semicolon.

    A function whose name stands in quotes is written without them, with spaces in their places: `"max"(a)` is
    ` max (a)`, so that it is known wherever functions are looked for.

    Raises:
        InvalidInputError: empty text, several statements, or a string or comment that does not end.
        UnsupportedError: string literals of a kind that DataFusion does not support.
    """
    text = _tokenize(sql)
    if _QUOTED_CALL.search(sql) is None:
        return text
    calls = [
        token
        for i, token in enumerate(text.tokens)
        if text.words[i] == QUOTED
        and text.words[i + 1] == "("
        and token.text not in _CALLED_BY_CLAUSES
        and token.text in list_functions()
    ]
    for call in calls:
        sql = f"{sql[: call.start]} {call.text} {sql[call.end + 1 :]}"
    return _tokenize(sql) if calls else text


def _tokenize(sql: str) -> SqlText:
    try:
        tokens = _PER_THREAD.tokenizer.tokenize(_PARAMETER_DOLLAR.sub(_PARAMETER, sql))
    except TokenError as error:
        raise InvalidInputError(_describe_unterminated(sql, error)) from error
    words: list[str] = []
    names: dict[int, str] = {}
    for index, token in enumerate(tokens):
        token.text = token.text.replace(_PARAMETER, "$")
        kind = token.token_type
        if kind is TokenType.VAR:
            if token.text.startswith("_") and index and words[-1] == _NUMBER:
                _refuse_underscore(sql, tokens[index - 1], token)
            words.append(token.text.upper())
            names[index] = fold(token.text)
        elif kind is TokenType.SEMICOLON:
            rest = [later for later in tokens[index:] if later.token_type is not TokenType.SEMICOLON]
            if rest:
                message = "Only one statement is allowed"
                raise InvalidInputError(PlacedMessage(sql, rest[0].start, message))
            sql = sql[: token.start]
            tokens = tokens[:index]
            break
        else:
            word = _KINDS.get(kind, token.text)
            words.append(word)
            if kind is TokenType.IDENTIFIER:
                names[index] = token.text
            if word in (STRING, QUOTED) and index and words[-2] in _STRING_PREFIXES:
                _refuse_prefix(sql, tokens[index - 1], token)
    if not tokens:
        raise InvalidInputError("The statement is empty; send one statement")
    words.append("")
    return SqlText(sql, tuple(tokens), tuple(words), names)


def _refuse_underscore(sql: str, number: Token, rest: Token) -> None:
    """Refuse 1_000, which DataFusion takes for 1 AS _000."""
    if number.end + 1 == rest.start:
        message = "Underscores are not allowed in numbers"
        raise InvalidInputError(PlacedMessage(sql, rest.start, message))


def _refuse_prefix(sql: str, prefix: Token, token: Token) -> None:
    if prefix.token_type is TokenType.VAR and prefix.end + 1 == token.start:
        message = f"String literals with the prefix {prefix.text} are not supported; write '...' or E'...'"
        raise UnsupportedError(PlacedMessage(sql, prefix.start, message))


def _describe_unterminated(sql: str, error: TokenError) -> PlacedMessage:
    """Return a message with the beginning of the unterminated quote or comment."""
    match = _TOKEN_ERROR.match(str(error.__context__))
    if match is None:
        return PlacedMessage(sql, max(sql.rfind("/*"), 0), "A comment does not end")
    return PlacedMessage(sql, int(match[2]), f"Missing {match[1]}: quoted text does not end")


def number_parameters(text: SqlText) -> tuple[dict[int, int], int]:
    """Find the parameters, and number them from 0.

    Returns:
        First token of each parameter -> its ordinal, and the number of values.

    Raises:
        InvalidInputError: parameters of both kinds, or numbers with gaps.
    """
    slots: dict[int, int] = {}
    numbers: set[int] = set()
    count = 0
    for i, word in enumerate(text.words):
        if word == "?":
            _refuse_mixture(text, i, mixed=bool(numbers))
            if text.words[i + 1] == "0" and text.start(i + 1) == text.end(i):
                raise text.error(i, "Numbered parameters are written $1, $2, ...")
            slots[i] = count
            count += 1
        elif word == "$":
            _refuse_mixture(text, i, mixed=count > 0)
            number = text.tokens[i + 1].text if text.words[i + 1] == "0" else ""
            if not number.isdecimal() or int(number) < 1 or text.start(i + 1) != text.end(i):
                raise text.error(i, "A parameter is ? or $1, $2, ...; names are not supported")
            numbers.add(int(number))
            slots[i] = int(number) - 1
    if not numbers:
        return slots, count
    missing = sorted(set(range(1, min(max(numbers), len(numbers) + 1) + 1)) - numbers)
    if missing:
        raise InvalidInputError(
            f"The statement uses parameter ${max(numbers)} but never ${missing[0]}; "
            "number parameters without gaps"
        )
    return slots, len(numbers)


def _refuse_mixture(text: SqlText, index: int, *, mixed: bool) -> None:
    if mixed:
        raise text.error(index, "Parameters are either all ? or all $n")
