"""The text of a writing statement: where its clauses begin, and which parameters it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memwal.errors import InvalidInputError
from planner.sql.limits import check_literal_sizes
from planner.sql.tokens import SqlText, at_position, number_parameters, tokenize

__all__ = ["NO_PART", "Part", "Reader", "WriteText", "read_statement", "skip_common_tables"]

_OPENERS = {"(": ")", "[": "]", "{": "}"}
_CLOSERS = frozenset(_OPENERS.values())


@dataclass(frozen=True, slots=True)
class Part:
    """Tokens `first` up to, not including, `end`."""

    first: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.end:
            msg = f"a part of a statement can't reach from token {self.first} to token {self.end}"
            raise InvalidInputError(msg)

    def __bool__(self) -> bool:
        return self.end > self.first


NO_PART = Part(0, 0)


@dataclass(frozen=True, slots=True)
class WriteText:
    """A statement's tokens and parameters.

    Attributes:
        text: tokens.
        slots: first token of each parameter -> its ordinal, from 0.
        parameter_count: values that it takes.
    """

    text: SqlText
    slots: Mapping[int, int]
    parameter_count: int

    @property
    def sql(self) -> str:
        """As given, without a trailing semicolon."""
        return self.text.sql

    def parameter(self, part: Part) -> int | None:
        """The parameter's ordinal where a part is one and nothing else."""
        ordinal = self.slots.get(part.first)
        if ordinal is None or part.end - part.first != 1 + (self.text.words[part.first] == "$"):
            return None
        return ordinal

    def source(self, part: Part) -> str:
        """The part as it stands in the text."""
        return self.sql[self.text.start(part.first) : self.text.end(part.end - 1)] if part else ""


def read_statement(sql: str) -> WriteText:
    """Take a statement apart into tokens.

    Raises:
        LanceGatewayError: what is wrong with it, and where.
    """
    text = tokenize(sql)
    check_literal_sizes(text)
    nul = sql.find("\0")
    if nul >= 0:
        raise InvalidInputError(at_position(sql.replace("\0", "\ufffd"), nul, "A NUL character"))
    slots, count = number_parameters(text)
    return WriteText(text, slots, count)


class Reader:
    """Reads a statement from left to right.

    Args:
        statement: to read.
        at: the first token.
    """

    def __init__(self, statement: WriteText, at: int = 0) -> None:
        self.statement = statement
        self.text = statement.text
        self.words = statement.text.words
        self.at = at

    @property
    def word(self) -> str:
        """The word that stands next; "" at the end."""
        return self.words[self.at]

    @property
    def is_done(self) -> bool:
        """Whether everything was read."""
        return self.at >= len(self.text.tokens)

    def stands(self, *words: str) -> bool:
        """Whether these words stand next."""
        return self.words[self.at : self.at + len(words)] == words

    def take(self, *words: str) -> bool:
        """Step over these words if they stand next."""
        found = self.stands(*words)
        if found:
            self.at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Step over these words.

        Raises:
            InvalidInputError: something else stands there.
        """
        if not self.take(*words):
            raise self.error(f"{' '.join(words)} is expected")

    def error(self, message: str) -> InvalidInputError:
        """A syntax error at what stands next."""
        found = "the end of the statement" if self.is_done else repr(self.text.tokens[self.at].text)
        return self.text.error(self.at, f"{message}; {found} stands")

    def expect_end(self) -> None:
        """Nothing may follow.

        Raises:
            InvalidInputError: something does.
        """
        if not self.is_done:
            raise self.text.error(self.at, f"Unexpected {self.text.tokens[self.at].text!r}")

    def name(self, what: str) -> str:
        """Step over one identifier.

        Raises:
            InvalidInputError: none stands there.
        """
        if not self.text.is_name(self.at):
            raise self.error(f"{what} is expected")
        self.at += 1
        return self.text.name(self.at - 1)

    def names(self, what: str) -> tuple[str, ...]:
        """Step over a name with dots."""
        found = [self.name(what)]
        while self.take("."):
            found.append(self.name(what))
        return tuple(found)

    def name_list(self, what: str) -> tuple[tuple[str, int], ...]:
        """Step over names in brackets; each with its token."""
        self.expect("(")
        found = []
        while True:
            found.append((self.name(what), self.at - 1))
            if not self.take(","):
                break
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
        while not self.is_done:
            word = self.word
            if not cases and self._stops(stops):
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
        return Part(first, self.at)

    def clause(self, word: str, *stops: tuple[str, ...]) -> Part:
        """Step over a clause that begins with a word, if it stands next; its part is without the word.

        Raises:
            InvalidInputError: nothing follows the word.
        """
        if not self.take(word):
            return Part(self.at, self.at)
        found = self.until(*stops)
        if not found:
            raise self.error(f"Something is expected behind {word}")
        return found

    def separated(self, part: Part) -> Iterator[Part]:
        """The pieces of a part between commas outside of brackets."""
        inner = Reader(self.statement, part.first)
        while inner.at < part.end:
            first = inner.at
            while inner.at < part.end and inner.word != ",":
                inner.at = inner.closing() + 1 if inner.word in _OPENERS else inner.at + 1
            yield Part(first, inner.at)
            if inner.at < part.end:
                inner.at += 1
                if inner.at == part.end:
                    raise inner.error("Something is expected after the comma")

    def _stops(self, stops: tuple[tuple[str, ...], ...]) -> bool:
        if self.at and self.words[self.at - 1] == ".":
            return False
        for stop in stops:
            if self.stands(*stop):
                # IS [NOT] DISTINCT FROM is an operator.
                return not (stop == ("FROM",) and self.at and self.words[self.at - 1] == "DISTINCT")
        return False


def skip_common_tables(reader: Reader) -> Part:
    """Step over WITH and its common table expressions, if they stand next."""
    first = reader.at
    if not reader.take("WITH"):
        return Part(first, first)
    reader.take("RECURSIVE")
    while True:
        reader.name("The name of a common table expression")
        if reader.word == "(":
            reader.at = reader.closing() + 1
        while reader.word in {"AS", "NOT", "MATERIALIZED"}:
            reader.at += 1
        if reader.word != "(":
            raise reader.error("AS (SELECT ...) is expected")
        reader.at = reader.closing() + 1
        if not reader.take(","):
            return Part(first, reader.at)
