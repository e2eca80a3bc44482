"""Edits SQL text.

    an edit    min(n) OVER w  ->  CASE WHEN count(n) OVER w > 0 THEN min(n) OVER w END

It may copy parts of the text, so the result is a sequence of pieces that know where they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


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
    """A replacement of the characters from `begin` to `end`; an insertion if both are equal.

    Attributes:
        begin: first character.
        end: the one behind the last.
        pieces: what stands in their place.
        other: of one of two insertions around an operand, the place of the other one.
    """

    begin: int
    end: int
    pieces: Sequence[Piece | Slot | Copy]
    other: int | None = None

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

    @staticmethod
    def wrap(begin: int, end: int, before: str, after: str, *, mend: bool = False) -> tuple[Edit, Edit]:
        """Return the two insertions around an operand; those around a smaller one come inside of them."""
        opening = [Piece(before, begin, verbatim=False, mend=mend)]
        closing = [Piece(after, end, verbatim=False, mend=mend)]
        return Edit(begin, begin, opening, other=end), Edit(end, end, closing, other=begin)

    @property
    def span(self) -> tuple[int, int]:
        """Return the first character, and the one behind the last."""
        return self.begin, self.end


def splice(sql: str, edits: Sequence[Edit]) -> list[Piece | Slot]:
    """Apply edits to a text.

    Raises:
        ValueError: two edits change the same characters.
    """
    numbered = enumerate(edits)
    in_order = [edit for _, edit in sorted(numbered, key=lambda each: _order_of(*each))]
    return _splice_range(sql, in_order, 0, len(sql))


def _order_of(number: int, edit: Edit) -> tuple[int, int, int, int]:
    """Return the order of an edit: at one place, what closes, other insertions, what opens, replacements."""
    if edit.end > edit.begin:
        return edit.begin, 3, -edit.end, number
    if edit.other is None:
        return edit.begin, 1, 0, number
    if edit.other <= edit.begin:
        return edit.begin, 0, -edit.other, -number
    return edit.begin, 2, -edit.other, number


def apply_edits(sql: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits applied that have no slots.

    Raises:
        ValueError: two edits change the same characters.
    """
    return "".join(piece.text for piece in splice(sql, list(edits)) if isinstance(piece, Piece))


def _splice_range(sql: str, edits: Sequence[Edit], first: int, last: int) -> list[Piece | Slot]:
    pieces: list[Piece | Slot] = []
    position, copies = first, False
    for edit in edits:
        opens_next = edit.begin == position and edit.other is not None and edit.other > edit.begin
        if copies and edit.end <= position and not opens_next:
            continue  # what stays of it is copied
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
        position, copies = edit.end, any(isinstance(piece, Copy) for piece in edit.pieces)
    pieces.append(Piece(sql[position:last], position, verbatim=True))
    return pieces


def _find_edits_within(edits: Sequence[Edit], copy: Copy) -> list[Edit]:
    ends = {(copy.begin, copy.begin), (copy.end, copy.end)}
    return [
        edit for edit in edits if copy.begin <= edit.begin and edit.end <= copy.end and edit.span not in ends
    ]
