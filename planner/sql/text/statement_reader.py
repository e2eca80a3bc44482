"""Reads a statement from left to right, word by word."""

from __future__ import annotations

from typing import Final, TypeAlias

from lance_gateway.memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from lance_gateway.planner.sql.text.tokens import PlacedMessage, SqlText

Part: TypeAlias = range
"""The tokens of a part of a statement; false if there are none."""
NO_PART: Final = range(0)
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_OPENERS.values())


class StatementReader:
    """Reads the tokens of a statement from left to right.

    Args:
        text: tokens of the statement.
        at: the first token.
    """

    def __init__(self, text: SqlText, at: int = 0) -> None:
        self.text = text
        self.words = text.words
        self.at = at

    @property
    def word(self) -> str:
        """Return the next word of `SqlText`; "" at the end."""
        return self.words[self.at]

    @property
    def shown(self) -> str:
        """Return the next token for a message."""
        return repr(self.text.tokens[self.at].text) if self.word else "the end of the statement"

    def is_at(self, *words: str) -> bool:
        """Return whether these words are next."""
        return self.words[self.at : self.at + len(words)] == words

    def take(self, *words: str) -> bool:
        """Skip these words if they are next, and return whether they were."""
        is_next = self.is_at(*words)
        if is_next:
            self.at += len(words)
        return is_next

    def expect(self, *words: str) -> None:
        """Skip these words.

        Raises:
            InvalidInputError: other words are next.
        """
        if not self.take(*words):
            raise self.unexpected_error(f"{' '.join(words)} is expected")

    def expect_end(self) -> None:
        """Check that the statement ends here.

        Raises:
            InvalidInputError: it does not.
        """
        if self.word:
            raise self.error(f"Unexpected {self.shown}")

    def name(self, what: str) -> str:
        """Read one identifier.

        Raises:
            InvalidInputError: the next token is not an identifier.
        """
        if not self.text.is_name(self.at):
            raise self.unexpected_error(f"{what} is expected")
        self.at += 1
        return self.text.name(self.at - 1)

    def read_qualified_name(self, what: str) -> tuple[str, ...]:
        """Read a name with dots."""
        parts = [self.name(what)]
        while self.take("."):
            parts.append(self.name(what))
        return tuple(parts)

    def read_name_list(self, what: str) -> tuple[tuple[str, int], ...]:
        """Read names in brackets, each with its token."""
        self.expect("(")
        names = [(self.name(what), self.at - 1)]
        while self.take(","):
            names.append((self.name(what), self.at - 1))
        self.expect(")")
        return tuple(names)

    def closing(self) -> int:
        """Return the token that closes the next bracket.

        Raises:
            InvalidInputError: none does.
        """
        waiting: list[str] = []
        for at in range(self.at, len(self.text.tokens)):
            word = self.words[at]
            if word in _OPENERS:
                waiting.append(_OPENERS[word])
            elif word in _CLOSERS:
                if word != waiting.pop():
                    break
                if not waiting:
                    return at
        raise self.text.error(self.at, "The bracket is not closed")

    def until(self, *stops: tuple[str, ...]) -> Part:
        """Read a part up to the first of some words that is outside of brackets and CASE.

        Raises:
            InvalidInputError: brackets don't match.
        """
        first, cases = self.at, 0
        while word := self.words[self.at]:
            if not cases and self._is_at_stop(stops):
                break
            if word in _OPENERS:
                self.at = self.closing() + 1
                continue
            if word in _CLOSERS:
                break
            # `x.case` is a column.
            if self.words[self.at - 1] != "." or self.at == first:
                cases += (word == "CASE") - (word == "END" and cases > 0)
            self.at += 1
        return range(first, self.at)

    def _is_at_stop(self, stops: tuple[tuple[str, ...], ...]) -> bool:
        if self.at and self.words[self.at - 1] == ".":
            return False
        return any(self.is_at(*stop) for stop in stops)

    def common_tables(self) -> Part:
        """Read WITH and its common table expressions, if they are next."""
        first = self.at
        if not self.take("WITH"):
            return NO_PART
        self.take("RECURSIVE")
        while True:
            self.name("The name of a common table expression")
            if self.word == "(":
                self.at = self.closing() + 1
            while self.word in {"AS", "NOT", "MATERIALIZED"}:
                self.at += 1
            if self.word != "(":
                raise self.unexpected_error("AS (SELECT ...) is expected")
            self.at = self.closing() + 1
            if not self.take(","):
                return range(first, self.at)

    def error(self, message: str) -> InvalidInputError:
        """Return a syntax error at the next token."""
        return self.text.error(self.at, message)

    def unexpected_error(self, message: str) -> InvalidInputError:
        """Return a syntax error that shows the next token."""
        return self.error(f"{message}, found {self.shown}")

    def unsupported_error(self, what: str) -> LanceGatewayError:
        """Return the error for a construct at the next token that is not supported."""
        return UnsupportedError(PlacedMessage(self.text.sql, self.text.start(self.at), what))
