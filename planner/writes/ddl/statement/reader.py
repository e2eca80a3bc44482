"""Reading a statement word by word."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.sql.tokens import QUOTED, STRING, SqlText, at_position, tokenize
from planner.writes.dml.statement.target import named_table

_NUMBER = "0"


@dataclass
class Reader:
    """A place in the tokens of a statement, which moves on as they are taken."""

    text: SqlText
    at: int = field(default=0)

    @staticmethod
    def of(sql: str) -> Reader:
        """At the beginning of a statement.

        Raises:
            LanceGatewayError: it can't be taken apart, or has parameters.
        """
        text = tokenize(sql)
        for index, word in enumerate(text.words):
            if word in {"?", "$"}:
                raise text.error(index, "Statements that define tables take no parameters; one stands")
        return Reader(text)

    @property
    def word(self) -> str:
        """The word here: upper case, `QUOTED`, `STRING`, "0", punctuation, or "" at the end."""
        return self.text.words[self.at]

    def word_after(self, count: int) -> str:
        """The word that many places on."""
        place = self.at + count
        return self.text.words[place] if place < len(self.text.words) else ""

    def accept(self, *words: str) -> bool:
        """Move past these words, if they are next."""
        if any(self.word_after(at) != word for at, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Move past these words.

        Raises:
            InvalidInputError: something else is next.
        """
        for word in words:
            if not self.accept(word):
                raise self.error(f"Expected {' '.join(words)}")

    def choose(self, what: str, *words: str) -> str:
        """Move past one of some words.

        Raises:
            InvalidInputError: something else is next; names the one that comes close.
        """
        found = next((word for word in words if self.accept(word)), None)
        if found is not None:
            return found
        close = get_close_matches(self.word, words, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(words)}"
        raise self.error(f"Expected {what} ({hint})")

    def name(self, what: str) -> str:
        """Take an identifier.

        Raises:
            InvalidInputError: something else is next.
        """
        if not self.text.is_name(self.at):
            raise self.error(f"Expected {what}")
        self.at += 1
        return self.text.name(self.at - 1)

    def table(self, what: str = "a table") -> str:
        """Take the name of a table or view, with catalog and schema or without.

        Raises:
            LanceGatewayError: something else is next, or there is no such schema.
        """
        parts = [self.name(f"the name of {what}")]
        while self.accept("."):
            parts.append(self.name(f"the name of {what}"))
        return named_table(parts)

    def names(self, what: str) -> tuple[str, ...]:
        """Take identifiers in parentheses."""
        self.expect("(")
        found = [self.name(what)]
        while self.accept(","):
            found.append(self.name(what))
        self.expect(")")
        return tuple(found)

    def string(self, what: str) -> str:
        """Take a string literal."""
        if self.word != STRING:
            raise self.error(f"Expected {what} in single quotes")
        self.at += 1
        return self.text.tokens[self.at - 1].text

    def number(self, what: str) -> int:
        """Take a whole number."""
        token = self.text.tokens[self.at] if self.word == _NUMBER else None
        if token is None or not token.text.isdigit():
            raise self.error(f"Expected {what}, a whole number")
        self.at += 1
        return int(token.text)

    def options(self) -> dict[str, str]:
        """Take ``(name = value, ..)``; names and values that are words are folded to lower case."""
        self.expect("(")
        found: dict[str, str] = {}
        while not self.accept(")"):
            if found:
                self.expect(",")
            place = self.at
            name = self.string("an option") if self.word == STRING else self.name("the name of an option")
            while self.accept("."):
                name += "." + self.name("the name of an option")
            self.accept("=")
            if name in found:
                self.at = place
                raise self.error(f"Option {name} is given twice: it stands")
            found[name] = self._value(name)
        return found

    def rest(self) -> str:
        """Take everything that is left, as it stands."""
        text = self.text.sql[self.text.start(self.at) :]
        self.at = len(self.text.tokens)
        return text

    def finish(self) -> None:
        """Make sure that nothing is left.

        Raises:
            InvalidInputError: shows what is.
        """
        if self.word:
            raise self.error(f"{self.shown()} means nothing there: it stands")

    def shown(self) -> str:
        """The word here as it was written."""
        return repr(self.text.tokens[self.at].text) if self.word else "the end"

    def error(self, message: str) -> InvalidInputError:
        """What is wrong here."""
        return self.text.error(self.at, message)

    def refused(self, what: str) -> LanceGatewayError:
        """What stands here is known, and not offered."""
        return UnsupportedError(at_position(self.text.sql, self.text.start(self.at), what))

    def _value(self, name: str) -> str:
        if self.word == STRING:
            return self.string(name)
        negative = "-" if self.accept("-") else ""
        if self.word == _NUMBER:
            self.at += 1
            return negative + self.text.tokens[self.at - 1].text
        if not negative and self.word and (self.word == QUOTED or self.text.is_name(self.at)):
            return self.name(name)
        raise self.error(f"Expected the value of option {name}: a text in single quotes, a number, or a word")
