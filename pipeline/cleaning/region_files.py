"""Files of a region that nobody needs: entries of its log, manifests, and what was left behind.

Entries whose rows are flushed and merged go. What stays, for fencing (Lance's writers append by "create the
file of the next position, if it is absent")

- Fences, forever. A claim leaves one at the first free position: just where the former writer appends next,
  however late. It finds the file, looks at the manifest, and sees that it lost the region.
- The newest entry, and all from the manifest's last seen position on: a claim looks for the first free
  position from there, or behind the newest entry of all. It must not find a gap.
- Entries between fences whose epochs leave one out: its claim may not have come to its fence yet.

What stays, for readers: entries that the manifest of a grace ago calls unflushed.

Of manifests the contents go, and the names stay. Writers commit by "create the next version, if it is
absent", and Lance looks for the newest from `version_hint.json` on, or from the first if it can't read that,
until a version is absent. So a name that is gone could be committed again by whoever was stopped just before,
and whoever is led there by an old hint would take it for the newest.

Left behind are drafts (files that were being written under another name when their writer was stopped),
records of owners whose claims are over, and markers of batches that Spark brought in: those below the
newest batch of a stream, and those of jobs that ran once. Markers keep a straggler from writing a batch
again, for a day.
"""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lance_gateway.memwal.errors import CorruptDataError
from lance_gateway.memwal.regions.manifest import manifest_directory
from lance_gateway.memwal.regions.wal import parse_wal_entry_position, read_wal_entry
from lance_gateway.memwal.storage.files import Entry, Storage
from lance_gateway.memwal.writing.region.ownership import OWNERS
from lance_gateway.pipeline.cleaning.garbage import Garbage, Kept, Kind
from lance_gateway.pipeline.cleaning.view import RegionView

MARKERS: Final = "_gateway/ingest"
_DAY: Final = 86_400_000_000
_DRAFT: Final = re.compile(r".+(\.tmp\.[0-9a-f-]+|#[0-9]+)")
_MARKER: Final = re.compile(r"([^/]+)/(\d{1,19})\.done")
_ONCE: Final = "once-"


def find_region_leftovers(view: RegionView) -> Iterator[Garbage | Kept]:
    """Drafts and records of one region."""
    listed = {view.log_directory: view.log, manifest_directory(view.region_id): view.history.others}
    for path, entries in listed.items():
        for entry in entries:
            if _DRAFT.fullmatch(entry.name) and _is_older(entry, view.now - view.policy.grace):
                reason = "a draft, whose writer was stopped"
                yield Garbage(Kind.LEFTOVERS, f"{path}/{entry.name}", entry.size, reason, view.region_id)
    owners = f"{OWNERS}/{view.region_id}"
    for entry in view.storage.list(owners):
        if not entry.is_dir and _is_older(entry, view.now - view.policy.grace):
            epoch = _read_epoch(view.storage, f"{owners}/{entry.name}")
            if epoch is None or epoch < view.newest.writer_epoch:
                reason = "the record of a claim that is over"
                yield Garbage(Kind.LEFTOVERS, f"{owners}/{entry.name}", entry.size, reason, view.region_id)


def find_markers(storage: Storage, now: int) -> Iterator[Garbage]:
    """Markers of batches.

    Args:
        storage: directory of the table.
        now: microseconds since 1970.
    """
    jobs: dict[str, list[tuple[int, Entry]]] = {}
    for entry in storage.files(MARKERS):
        match = _MARKER.fullmatch(entry.name)
        if match is not None:
            jobs.setdefault(match[1], []).append((int(match[2]), entry))
    for job, found in sorted(jobs.items()):
        # The newest vouches for those before it; a job that ran once never comes back.
        newest = None if job.startswith(_ONCE) else max(batch for batch, _ in found)
        for batch, one in sorted(found, key=lambda pair: pair[1].name):
            if batch != newest and _is_older(one, now - _DAY):
                reason = "the marker of a batch that nobody brings in again"
                yield Garbage(Kind.LEFTOVERS, f"{MARKERS}/{one.name}", one.size, reason)


def _is_older(one: Entry, moment: int) -> bool:
    return one.written // 1000 <= moment


def _read_epoch(storage: Storage, path: str) -> int | None:
    """Of a record; None where it is none."""
    try:
        epoch = json.loads(storage.read(path))["epoch"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return epoch if isinstance(epoch, int) else None


def find_old_manifests(view: RegionView) -> Iterator[Garbage | Kept]:
    """Manifests that were not the newest at any time which can be asked for, nor follow one that was.

    The one that follows tells until when the one before was the newest.
    """
    history = view.history
    path = manifest_directory(view.region_id)
    run: list[int] = []
    shown = 0
    kept_for = ""
    # Whoever reads a time before all of them has to know that it is one.
    is_needed_before = view.base.past.find_showing(0, history.written[0]) is not None
    for at, version in enumerate(history.versions[:-1]):
        until = history.find_superseded_time(at)
        past = view.base.past.find_showing(history.written[at], until)
        is_needed = past is not None or until > view.now - view.policy.grace
        if past is not None and past != view.base.past.newest:
            shown, kept_for = shown + 1, past.described
        if is_needed or is_needed_before:
            yield from _build_garbage(view, path, run)
            run = []
        elif run and history.versions[run[-1]] != version - 1:
            yield from _build_garbage(view, path, run)
            run = [at]
        else:
            run.append(at)
        is_needed_before = is_needed
    yield from _build_garbage(view, path, run)
    if shown:
        why = f"{shown} manifests tell what was flushed when {kept_for} or an earlier one was the newest"
        yield Kept(Kind.MANIFESTS, path, why)


def _build_garbage(view: RegionView, path: str, run: list[int]) -> Iterator[Garbage]:
    if run:
        history = view.history
        size = sum(history.sizes[at] for at in run)
        first, last = history.versions[run[0]], history.versions[run[-1]]
        reason = "no version that is kept is read by it; its name stays"
        yield Garbage(Kind.MANIFESTS, path, size, reason, view.region_id, len(run), first, last)


FENCE_BYTES = 1024
"""A fence has no columns, and fits; whatever is larger has rows."""


@dataclass(frozen=True, slots=True)
class _Fence:
    position: int
    epoch: int


def find_flushed_entries(view: RegionView) -> Iterator[Garbage | Kept]:
    """Entries that neither readers nor writers need, in stretches between what stays."""
    path = view.log_directory
    sizes = {
        position: entry.size
        for entry in view.log
        if (position := parse_wal_entry_position(entry.name)) is not None
    }
    last = _find_last_flushed(view)
    if not sizes or not last:
        return
    last = min(last, view.newest.wal_entry_position_last_seen - 1, max(sizes) - 1)
    positions = sorted(sizes)
    before = _Fence(0, 1)  # The first writer of a region has nobody to fence off.
    # The next claim's fence would be behind all of it.
    for fence in (*_find_fences(view, sizes, last), _Fence(last + 1, view.newest.writer_epoch + 1)):
        end = min(fence.position, last + 1)
        stretch = positions[bisect_right(positions, before.position) : bisect_left(positions, end)]
        if stretch and fence.epoch - before.epoch not in (0, 1):
            why = (
                f"epoch {before.epoch + 1} left no fence between {stretch[0]} and {fence.position}: its "
                "claim may not be through"
            )
            yield Kept(Kind.LOG, f"{path} {stretch[0]}..{stretch[-1]}", why)
        elif stretch:
            yield from _split_runs(view, path, stretch, sizes)
        before = fence


def _find_last_flushed(view: RegionView) -> int:
    """Newest position that is flushed and merged by the manifest of a grace ago; 0 for none."""
    moment = view.now - view.policy.grace
    manifest = view.history.find_last_before(moment, view.merged)
    if manifest is None:
        return 0
    known = (manifest, view.newest) if view.settled is None else (manifest, view.settled, view.newest)
    return min(one.replay_after_wal_entry_position for one in known)


def _find_fences(view: RegionView, sizes: dict[int, int], last: int) -> Iterator[_Fence]:
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


def _split_runs(
    view: RegionView, path: str, positions: list[int], sizes: dict[int, int]
) -> Iterator[Garbage]:
    """Stretches without gaps, as an earlier run that was stopped may have left."""
    first = positions[0]
    for at, position in enumerate(positions):
        if at + 1 == len(positions) or positions[at + 1] != position + 1:
            size = sum(sizes[number] for number in range(first, position + 1))
            count = position - first + 1
            reason = "rows are flushed and merged; no fence is among them"
            yield Garbage(Kind.LOG, path, size, reason, view.region_id, count, first, position)
            first = positions[at + 1] if at + 1 < len(positions) else 0
