"""When region snapshots are taken."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """How a table's regions are remembered by its MemWAL index.

    Attributes:
        max_age_seconds: younger snapshots are left alone.
        hint_entries: a region's manifest is told where its log ends when so many entries were appended since
            it was told last; 0 for never.
    """

    max_age_seconds: float = 60.0
    hint_entries: int = 1000

    def __post_init__(self) -> None:
        for name in ("max_age_seconds", "hint_entries"):
            if getattr(self, name) < 0:
                msg = f"{name} is {getattr(self, name)}, but must be 0 or more"
                raise InvalidInputError(msg)
