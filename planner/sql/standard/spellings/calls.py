"""Finds calls of functions, and writes them in another way."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memwal.errors import InvalidInputError, UnsupportedError
from planner.sql.edits import Copy, Edit, Piece
from planner.sql.standard.query_bodies import split
from planner.sql.standard.spellings.results import is_result
from planner.sql.tokens import PlacedMessage, SqlText, quote

_NO_CALLS: Final = frozenset(
    {".", "WITH", "RECURSIVE", "AS", "INTO", "UPDATE", "TABLE", "VIEW", "INDEX", "FETCH", "NULLS"}
)
"""Words before the name of a table with columns behind it, or of a function in a schema."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function.

    Attributes:
        text: in which it stands.
        at: token of the name.
        closing: token of the bracket that ends it.
        arguments: tokens of each.
    """

    text: SqlText
    at: int
    closing: int
    arguments: Sequence[range]

    @property
    def name(self) -> str:
        """Return the name of the function in lower case."""
        return self.text.words[self.at].lower()

    def write(self, *parts: str | range, name: str | None = None) -> Edit:
        """Return an edit that replaces the call.

        Args:
            parts: texts, and tokens that are copied with their edits.
            name: of the output, where the call is a whole one; that of the function without it.
        """
        text, begin = self.text, self.text.start(self.at)
        pieces: list[Piece | Copy] = [
            Piece(part, begin, verbatim=False)
            if isinstance(part, str)
            else Copy(text.start(part.start), text.end(part.stop - 1))
            for part in parts
        ]
        if is_result(text, self.at, self.closing):
            pieces.append(Piece(f" AS {quote(name or self.name)}", begin, verbatim=False))
        return Edit(begin, text.end(self.closing), pieces)

    def refuse(self, message: str) -> UnsupportedError:
        """Return an error that tells what to write instead."""
        return UnsupportedError(
            PlacedMessage(self.text.sql, self.text.start(self.at), f"{message}; it stands")
        )

    def refuse_count(self, offered: str) -> InvalidInputError:
        """Return an error about the number of arguments."""
        return self.text.error(
            self.at, f"{self.name}() has {len(self.arguments)} arguments here, and takes {offered}; it stands"
        )


def find_calls(text: SqlText, names: Collection[str]) -> Iterator[Call]:
    """Yield the calls of some functions, each before those in its arguments.

    Args:
        text: to search.
        names: of the functions, in upper case.
    """
    words = text.words
    for i, word in enumerate(words):
        if word not in names or words[i + 1] != "(":
            continue
        if i and words[i - 1] in _NO_CALLS:
            continue
        closing = text.closing(i + 1)
        if not words[closing] or words[closing + 1 : closing + 3] == ("AS", "("):
            continue  # a bracket is not closed, which the binder tells, or a common table
        inner = range(i + 2, closing)
        yield Call(text, i, closing, list(split(text, inner)) if inner else ())
