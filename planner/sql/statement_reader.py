"""Reading a statement from left to right, word by word."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.sql.tokens import SqlText, at_position

__all__ = ["NO_PART", "Part", "StatementReader"]

Part: TypeAlias = range
"""Numbers of the tokens of a part of a statement; false where there are none."""
NO_PART: Final = range(0)
_OPENERS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_OPENERS.values())


class StatementReader:
    """A place in the tokens of a statement, which moves on as they are taken.

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
        """The word that stands next, as `SqlText` has it; "" at the end."""
        return self.words[self.at]

    @property
    def shown(self) -> str:
        """What stands next, as it was written."""
        return repr(self.text.tokens[self.at].text) if self.word else "the end of the statement"

    def is_at(self, *words: str) -> bool:
        """Whether these words stand next."""
        return self.words[self.at : self.at + len(words)] == words

    def take(self, *words: str) -> bool:
        """Step over these words if they stand next."""
        found = self.words[self.at : self.at + len(words)] == words
        if found:
            self.at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Step over these words.

        Raises:
            InvalidInputError: something else stands there.
        """
        if not self.take(*words):
            raise self.unexpected_error(f"{' '.join(words)} is expected")

    def expect_end(self) -> None:
        """Nothing may follow.

        Raises:
            InvalidInputError: something does.
        """
        if self.word:
            raise self.error(f"Unexpected {self.shown}")

    def name(self, what: str) -> str:
        """Step over one identifier.

        Raises:
            InvalidInputError: none stands there.
        """
        if not self.text.is_name(self.at):
            raise self.unexpected_error(f"{what} is expected")
        self.at += 1
        return self.text.name(self.at - 1)

    def read_qualified_name(self, what: str) -> tuple[str, ...]:
        """Step over a name with dots."""
        found = [self.name(what)]
        while self.take("."):
            found.append(self.name(what))
        return tuple(found)

    def read_name_list(self, what: str) -> tuple[tuple[str, int], ...]:
        """Step over names in brackets; each with its token."""
        self.expect("(")
        found = [(self.name(what), self.at - 1)]
        while self.take(","):
            found.append((self.name(what), self.at - 1))
        self.expect(")")
        return tuple(found)

    def closing(self) -> int:
        """The token that closes the bracket that stands next.

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
        raise self.text.error(self.at, "The bracket is not closed: it opens")

    def until(self, *stops: tuple[str, ...]) -> Part:
        """Step over everything up to the first of some words that stand outside of brackets and CASE.

        Raises:
            InvalidInputError: brackets that don't match.
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

    def clause(self, word: str, *stops: tuple[str, ...]) -> Part:
        """Step over a clause that begins with a word, if it stands next; its part is without the word.

        Raises:
            InvalidInputError: nothing follows the word.
        """
        if not self.take(word):
            return NO_PART
        found = self.until(*stops)
        if not found:
            raise self.unexpected_error(f"Something is expected behind {word}")
        return found

    def alias(self, *ends: str) -> str | None:
        """Step over an alias, if one stands next; words that follow in its place are none."""
        if self.take("AS") or (self.text.is_name(self.at) and self.word not in ends):
            return self.name("An alias")
        return None

    def split_at_commas(self, part: Part) -> Iterator[Part]:
        """The pieces of a part between commas outside of brackets."""
        inner = StatementReader(self.text, part.start)
        while inner.at < part.stop:
            first = inner.at
            while inner.at < part.stop and (word := self.words[inner.at]) != ",":
                inner.at = inner.closing() + 1 if word in _OPENERS else inner.at + 1
            yield range(first, inner.at)
            if inner.at < part.stop:
                inner.at += 1
                if inner.at == part.stop:
                    raise inner.unexpected_error("Something is expected after the comma")

    def _is_at_stop(self, stops: tuple[tuple[str, ...], ...]) -> bool:
        if self.at and self.words[self.at - 1] == ".":
            return False
        for stop in stops:
            if self.words[self.at : self.at + len(stop)] == stop:
                # IS [NOT] DISTINCT FROM is an operator.
                return not (stop == ("FROM",) and self.at and self.words[self.at - 1] == "DISTINCT")
        return False

    def read_bracketed_list(self) -> list[Part]:
        """Step over brackets; the pieces inside of them between commas."""
        closing = self.closing()
        found = list(self.split_at_commas(range(self.at + 1, closing)))
        self.at = closing + 1
        return found

    def common_tables(self) -> Part:
        """Step over WITH and its common table expressions, if they stand next."""
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
        """What is wrong here."""
        return self.text.error(self.at, message)

    def unexpected_error(self, message: str) -> InvalidInputError:
        """A syntax error that shows what stands here."""
        return self.error(f"{message}; {self.shown} stands")

    def unsupported_error(self, what: str) -> LanceGatewayError:
        """What stands here is known, and not offered."""
        return UnsupportedError(at_position(self.text.sql, self.text.start(self.at), what))
