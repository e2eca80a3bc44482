"""Directories of generations that no manifest lists: taken out of it, or of flushes that failed.

A flush writes its directory first and commits the manifest then. So a directory that is not listed may be on
its way. It is not

- if its generation was flushed already: writers flush generations in order, and only once. Then its rows must
  be elsewhere too, in the base table or in another directory of the same generation; where they are not,
  something is wrong, and nothing is touched;
- or if it was begun before the region was claimed by its present writer: the writer before can't commit any
  more, and the rows are in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memwal.regions.manifest import FlushedGeneration, read_latest_manifest
from pipeline.cleaning.garbage import Garbage, Kept, Kind
from pipeline.cleaning.rules.generations import needed_by_past
from pipeline.cleaning.view import RegionView

_NAME: Final = re.compile(r"[0-9a-f]{8}_gen_([1-9][0-9]*)")


def unlisted_directories(view: RegionView) -> Iterator[Garbage | Kept]:
    """Directories that the newest manifest does not list."""
    listed = {one.path for one in view.newest.flushed_generations}
    for name in sorted(view.directories):
        match = _NAME.fullmatch(name)
        if match is None or name in listed:
            continue
        path = f"{view.directory}/{name}"
        one = FlushedGeneration(int(match[1]), name)
        if one.generation < view.newest.current_generation:
            waits_for, reason = _flushed(view, one)
        else:
            waits_for, reason = _not_flushed(view, one)
        if waits_for is not None:
            yield Kept(Kind.DIRECTORIES, path, waits_for)
        else:
            size = sum(file.size for file in view.storage.files(path))
            yield Garbage(Kind.DIRECTORIES, path, size, reason, view.region_id)


def is_still_garbage(view: RegionView, name: str) -> bool:
    """Whether the very newest manifest does not list a directory either."""
    newest = read_latest_manifest(view.storage, view.region_id, known=view.newest)
    return newest is not None and all(one.path != name for one in newest.flushed_generations)


def _flushed(view: RegionView, one: FlushedGeneration) -> tuple[str | None, str]:
    """What a directory of a generation waits for that was flushed before; why it is garbage."""
    number = one.generation
    settled = view.settled
    if settled is None or number >= settled.current_generation:
        return f"generation {number} was flushed just now", ""
    if any(other.path == one.path for other in settled.flushed_generations):
        return f"generation {number} was taken out of the manifest just now", ""
    again = next((other for other in view.newest.flushed_generations if other.generation == number), None)
    if number > view.merged and again is None:
        why = (
            f"generation {number} is neither merged nor listed, though later ones were flushed: were "
            "manifests of the region removed, or was an older version of the base table restored?"
        )
        return why, ""
    version = needed_by_past(view, one)
    if version is not None:
        return f"{version} of the base table is not readable as it was without it", ""
    if again is not None:
        return None, f"generation {number} was flushed again, to {again.path}"
    return None, f"generation {number} is merged, and no longer listed"


def _not_flushed(view: RegionView, one: FlushedGeneration) -> tuple[str | None, str]:
    """What a directory of a generation waits for that is not flushed yet; why it is garbage."""
    files = view.storage.files(f"{view.directory}/{one.path}")
    begun = min((file.written // 1000 for file in files), default=None)
    claimed = None if begun is None else view.history.claimed_at()
    grace = view.policy.grace
    if begun is None or claimed is None or begun + grace >= claimed or claimed > view.now - grace:
        return f"generation {one.generation} may be on its way", ""
    return (
        None,
        f"the writer that began generation {one.generation} has lost the region; its log has the rows",
    )
