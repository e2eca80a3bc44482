"""Edits of a statement's text, which may copy parts of it, and the pieces of the text that they give.

    min(n) OVER w
->  CASE WHEN count(n) OVER w > 0 THEN min(n) OVER w END
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["VECTOR", "Copy", "Edit", "Piece", "Slot", "splice"]

VECTOR = "vector_"
"""Prefix of the names of constants that are not in the text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of rendered text.

    Attributes:
        text: for DataFusion.
        origin: position in the statement from which it comes.
        verbatim: whether it is a copy of the characters from `origin` on.
        mend: whether it corrects a wrong answer of DataFusion; without these pieces, the text has the same
            meaning, and gives columns the names that clients expect.
    """

    text: str
    origin: int
    verbatim: bool
    mend: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a parameter, counted from 0."""

    ordinal: int
    origin: int
    mend: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the text from `begin` to `end`, with its edits, but without insertions at both ends."""

    begin: int
    end: int
    mend: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of the characters from `begin` to `end`; an insertion if both are equal."""

    begin: int
    end: int
    pieces: Sequence[Piece | Slot | Copy]

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

    @property
    def span(self) -> tuple[int, int]:
        """Return the first character, and the one behind the last."""
        return self.begin, self.end


def splice(sql: str, edits: Sequence[Edit]) -> list[Piece | Slot]:
    """Apply edits to a text.

    Raises:
        ValueError: two edits change the same characters.
    """
    # Insertions before a token come before its replacement.
    return _splice_range(sql, sorted(edits, key=lambda edit: edit.span), 0, len(sql))


def _splice_range(sql: str, edits: Sequence[Edit], first: int, last: int) -> list[Piece | Slot]:
    pieces: list[Piece | Slot] = []
    position = first
    for edit in edits:
        if edit.begin < position:
            msg = f"two edits change {sql[edit.begin : position]!r}"
            raise ValueError(msg)
        if edit.begin > position:
            pieces.append(Piece(sql[position : edit.begin], position, verbatim=True))
        for piece in edit.pieces:
            if isinstance(piece, Copy):
                copied = _splice_range(sql, _find_edits_within(edits, piece), piece.begin, piece.end)
                pieces.extend(replace(each, mend=True) if piece.mend else each for each in copied)
            else:
                pieces.append(piece)
        if sql.startswith('"', edit.end) and edit.pieces:
            pieces.append(Piece(" ", edit.end, verbatim=False))  # separates two quoted names
        position = edit.end
    pieces.append(Piece(sql[position:last], position, verbatim=True))
    return pieces


def _find_edits_within(edits: Sequence[Edit], copy: Copy) -> list[Edit]:
    ends = {(copy.begin, copy.begin), (copy.end, copy.end)}
    return [
        edit for edit in edits if copy.begin <= edit.begin and edit.end <= copy.end and edit.span not in ends
    ]
