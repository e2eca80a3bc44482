"""Pieces of a statement's text for DataFusion, which remember where they come from.

Edits of a statement's text, which may say parts of it once more.

    min(n) OVER w
->  CASE WHEN count(n) OVER w > 0 THEN min(n) OVER w END
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["VECTOR", "Copy", "Edit", "Piece", "Slot", "splice"]

VECTOR = "vector_"
"""Before the number of a constant that does not stand in the text."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rendered text and where it comes from; `verbatim` pieces map character by character.

    Without those that are a `mend`, the text says the same, and gives columns the names that they are known
    by, but DataFusion answers it wrongly.
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
    """What stands in the text from character `begin` to `end`, once more, and edited alike.

    Without insertions at both ends, which belong to what is around it.
    """

    begin: int
    end: int
    mend: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands in place of the characters from `begin` to `end`; where both are equal, it is inserted."""

    begin: int
    end: int
    pieces: Sequence[Piece | Slot | Copy]

    def __post_init__(self) -> None:
        if not 0 <= self.begin <= self.end:
            msg = f"an edit from {self.begin} to {self.end} is none"
            raise ValueError(msg)

    @staticmethod
    def replace(begin: int, end: int, text: str) -> Edit:
        """An edit that puts a text in place of characters."""
        return Edit(begin, end, [Piece(text, begin, verbatim=False)])

    @staticmethod
    def insert(place: int, text: str) -> Edit:
        """An edit that puts a text before a character."""
        return Edit.replace(place, place, text)

    @property
    def span(self) -> tuple[int, int]:
        """From which character to which."""
        return self.begin, self.end


def splice(sql: str, edits: Sequence[Edit]) -> list[Piece | Slot]:
    """Apply edits to a text.

    Raises:
        ValueError: two edits change the same characters.
    """
    # What is inserted before a token stands before what replaces it.
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
        for one in edit.pieces:
            if isinstance(one, Copy):
                copied = _splice_range(sql, _find_edits_within(edits, one), one.begin, one.end)
                pieces.extend(replace(each, mend=True) if one.mend else each for each in copied)
            else:
                pieces.append(one)
        if sql.startswith('"', edit.end) and edit.pieces:
            pieces.append(Piece(" ", edit.end, verbatim=False))  # two quoted names must not become one
        position = edit.end
    pieces.append(Piece(sql[position:last], position, verbatim=True))
    return pieces


def _find_edits_within(edits: Sequence[Edit], copy: Copy) -> list[Edit]:
    ends = {(copy.begin, copy.begin), (copy.end, copy.end)}
    return [
        edit for edit in edits if copy.begin <= edit.begin and edit.end <= copy.end and edit.span not in ends
    ]
