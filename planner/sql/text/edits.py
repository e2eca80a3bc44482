"""Edits SQL text: the result is a sequence of pieces that know where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of rendered text.

    Attributes:
        text: for DataFusion.
        origin: position in the statement from which it comes.
        verbatim: whether it is a copy of the characters from `origin` on.
    """

    text: str
    origin: int
    verbatim: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a parameter, counted from 0."""

    ordinal: int
    origin: int


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the characters from `begin` to `end`; an insertion if both are equal.

    Attributes:
        begin: first character.
        end: the one behind the last.
        pieces: what stands in their place.
    """

    begin: int
    end: int
    pieces: Sequence[Piece | Slot]

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end:
            msg = f"an edit from {self.begin} to {self.end} is none"
            raise ValueError(msg)

    @staticmethod
    def replace(begin: int, end: int, text: str) -> Edit:
        """Return an edit that replaces characters with a text."""
        return Edit(begin, end, [Piece(text, begin, verbatim=False)])

    @staticmethod
    def insert(place: int, text: str) -> Edit:
        """Return an edit that inserts a text before a character."""
        return Edit.replace(place, place, text)


def splice(sql: str, edits: Sequence[Edit]) -> list[Piece | Slot]:
    """Apply edits to a text.

    Raises:
        ValueError: two edits change the same characters.
    """
    pieces: list[Piece | Slot] = []
    position = 0
    # At one place, insertions come first.
    for edit in sorted(edits, key=lambda one: (one.begin, one.end > one.begin, -one.end)):
        if edit.begin < position:
            msg = f"two edits change {sql[edit.begin : position]!r}"
            raise ValueError(msg)
        if edit.begin > position:
            pieces.append(Piece(sql[position : edit.begin], position, verbatim=True))
        pieces += edit.pieces
        if sql.startswith('"', edit.end) and edit.pieces:
            pieces.append(Piece(" ", edit.end, verbatim=False))  # separates two quoted names
        position = edit.end
    return [*pieces, Piece(sql[position:], position, verbatim=True)]


def apply_edits(sql: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits applied that have no slots.

    Raises:
        ValueError: two edits change the same characters.
    """
    return "".join(piece.text for piece in splice(sql, list(edits)) if isinstance(piece, Piece))
