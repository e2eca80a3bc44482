"""When indexes are brought up to date, and when files are put together."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class IndexPolicy:
    """What a table may lack before something is done about it; by default, nothing.

    Attributes:
        max_unindexed_rows: an index that lacks more rows than that is brought up to date.
        max_unindexed_fraction: so is one that lacks a greater part of the table's rows; from 0 to 1.
        compact: whether files are put together, and deleted rows left out of them.
        target_rows: rows of a fragment that is large enough.
        max_spare_fragments: files are put together when that spares more fragments than this.
        deleted_fraction: a fragment is written anew when more than this part of its rows is deleted; 1 for
            never.
        retrain_after: a vector index is trained anew after rows were added to it so many times.
        retrain_growth: so is one whose table has so many times the rows that it was trained on.
    """

    max_unindexed_rows: int = 0
    max_unindexed_fraction: float = 1.0
    compact: bool = True
    target_rows: int = 1_048_576
    max_spare_fragments: int = 8
    deleted_fraction: float = 0.1
    retrain_after: int = 64
    retrain_growth: float = 4.0

    def __post_init__(self) -> None:
        for name, least in (
            ("max_unindexed_rows", 0),
            ("target_rows", 1),
            ("max_spare_fragments", 0),
            ("retrain_after", 1),
        ):
            if getattr(self, name) < least:
                msg = f"{name} is {getattr(self, name)}, but must be {least} or more"
                raise InvalidInputError(msg)
        for name in ("max_unindexed_fraction", "deleted_fraction"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                msg = f"{name} is {value}, but must be from 0 to 1"
                raise InvalidInputError(msg)
        if not self.retrain_growth > 1:
            msg = f"retrain_growth is {self.retrain_growth}, but must be more than 1"
            raise InvalidInputError(msg)
