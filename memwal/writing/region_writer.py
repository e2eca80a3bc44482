"""The writer of one region."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.wal import WalEntry


@dataclass(frozen=True, eq=False)
class OwnTail:
    """What this process wrote to a region and holds in memory.

    Whoever finds `writer_epoch` in the region's newest manifest knows its whole log up to `last` without
    looking at storage, and the rows of all positions from `first` on.

    Attributes:
        writer_epoch: of the claim.
        first: position of the oldest entry that is held.
        last: position of the newest durable entry.
        entries: with rows, ascending, all those of positions `first` to `last`.
    """

    writer_epoch: int
    first: int
    last: int
    entries: tuple[WalEntry, ...]
