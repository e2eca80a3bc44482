"""Reading a statement from left to right, word by word."""

from __future__ import annotations

from memwal.errors import InvalidInputError, LanceGatewayError, UnsupportedError
from planner.sql.tokens import SqlText, at_position

__all__ = ["StatementReader"]


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

    def stands(self, *words: str) -> bool:
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
            raise self.unexpected(f"{' '.join(words)} is expected")

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
            raise self.unexpected(f"{what} is expected")
        self.at += 1
        return self.text.name(self.at - 1)

    def qualified_name(self, what: str) -> tuple[str, ...]:
        """Step over a name with dots."""
        found = [self.name(what)]
        while self.take("."):
            found.append(self.name(what))
        return tuple(found)

    def name_list(self, what: str) -> tuple[tuple[str, int], ...]:
        """Step over names in brackets; each with its token."""
        self.expect("(")
        found = [(self.name(what), self.at - 1)]
        while self.take(","):
            found.append((self.name(what), self.at - 1))
        self.expect(")")
        return tuple(found)

    def error(self, message: str) -> InvalidInputError:
        """What is wrong here."""
        return self.text.error(self.at, message)

    def unexpected(self, message: str) -> InvalidInputError:
        """A syntax error that shows what stands here."""
        return self.error(f"{message}; {self.shown} stands")

    def refused(self, what: str) -> LanceGatewayError:
        """What stands here is known, and not offered."""
        return UnsupportedError(at_position(self.text.sql, self.text.start(self.at), what))
