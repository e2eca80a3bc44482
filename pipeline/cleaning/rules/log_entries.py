"""Entries of a region's log whose rows are flushed and merged.

What stays, for fencing (Lance's writers append by "create the file of the next position, if it is absent")

- Fences, forever. A claim leaves one at the first free position: just where the former writer appends next,
  however late. It finds the file, looks at the manifest, and sees that it lost the region.
- The newest entry, and all from the manifest's last seen position on: a claim looks for the first free
  position from there, or behind the newest entry of all. It must not find a gap.
- Entries between fences whose epochs leave one out: its claim may not have come to its fence yet.

What stays, for readers: entries that the manifest of a grace ago calls unflushed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from memwal.errors import CorruptDataError
from memwal.regions.wal import read_wal_entry, wal_entry_position
from pipeline.cleaning.garbage import Garbage, Kept, Kind
from pipeline.cleaning.view import RegionView

FENCE_BYTES = 1024
"""A fence has no columns, and fits; whatever is larger has rows."""


@dataclass(frozen=True, slots=True)
class _Fence:
    position: int
    epoch: int


def flushed_entries(view: RegionView) -> Iterator[Garbage | Kept]:
    """Entries that neither readers nor writers need, in stretches between what stays."""
    path = view.log_directory
    sizes = {position: one.size for one in view.log if (position := wal_entry_position(one.name)) is not None}
    last = _last_flushed(view)
    if not sizes or not last:
        return
    last = min(last, view.newest.wal_entry_position_last_seen - 1, max(sizes) - 1)
    positions = sorted(sizes)
    before = _Fence(0, 1)  # The first writer of a region has nobody to fence off.
    # The next claim's fence would be behind all of it.
    for fence in (*_fences(view, sizes, last), _Fence(last + 1, view.newest.writer_epoch + 1)):
        end = min(fence.position, last + 1)
        stretch = positions[bisect_right(positions, before.position) : bisect_left(positions, end)]
        if stretch and fence.epoch - before.epoch not in (0, 1):
            why = (
                f"epoch {before.epoch + 1} left no fence between {stretch[0]} and {fence.position}: its "
                "claim may not be through"
            )
            yield Kept(Kind.LOG, f"{path} {stretch[0]}..{stretch[-1]}", why)
        elif stretch:
            yield from _runs(view, path, stretch, sizes)
        before = fence


def _last_flushed(view: RegionView) -> int:
    """Newest position that is flushed and merged by the manifest of a grace ago; 0 for none."""
    moment = view.now - view.policy.grace
    manifest = view.history.last_before(moment, view.merged)
    if manifest is None:
        return 0
    known = (manifest, view.newest) if view.settled is None else (manifest, view.settled, view.newest)
    return min(one.replay_after_wal_entry_position for one in known)


def _fences(view: RegionView, sizes: dict[int, int], last: int) -> Iterator[_Fence]:
    """All fences up to a position, and the first one behind it."""
    for position in sorted(position for position, size in sizes.items() if size <= FENCE_BYTES):
        try:
            entry = read_wal_entry(view.storage, view.region_id, position)
        except (FileNotFoundError, CorruptDataError):
            if position > last:
                return
            # Nobody knows what it was, so it is not followed by anything that is known.
            yield _Fence(position, -1)
            continue
        if entry.is_fence:
            yield _Fence(position, entry.writer_epoch)
            if position > last:
                return


def _runs(view: RegionView, path: str, positions: list[int], sizes: dict[int, int]) -> Iterator[Garbage]:
    """Stretches without gaps, as an earlier run that was stopped may have left."""
    first = positions[0]
    for at, position in enumerate(positions):
        if at + 1 == len(positions) or positions[at + 1] != position + 1:
            size = sum(sizes[one] for one in range(first, position + 1))
            count = position - first + 1
            reason = "rows are flushed and merged; no fence is among them"
            yield Garbage(Kind.LOG, path, size, reason, view.region_id, count, first, position)
            first = positions[at + 1] if at + 1 < len(positions) else 0
