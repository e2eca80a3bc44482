"""Generations that the base table contains and nobody has to read, and directories that no manifest lists.

Generations are taken out of their region's manifest first. Readers that know them already still find their
directories, which go by another rule, a grace later.

A flush writes its directory first and commits the manifest then. So a directory that is not listed may be on
its way. It is not

- if its generation was flushed already: writers flush generations in order, and only once. Then its rows must
  be elsewhere too, in the base table or in another directory of the same generation; where they are not,
  something is wrong, and nothing is touched;
- or if it was begun before the region was claimed by its present writer: the writer before can't commit any
  more, and the rows are in the log.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from memwal.errors import UnavailableError
from memwal.regions.manifest import FlushedGeneration, commit_manifest, read_latest_manifest
from memwal.storage.files import Storage
from pipeline.cleaning.garbage import Garbage, Kept, Kind
from pipeline.cleaning.view import RegionView

_ATTEMPTS = 16


def merged_generations(view: RegionView) -> Iterator[Garbage | Kept]:
    """Generations that are listed although they are merged."""
    for one in view.newest.merged(view.merged):
        path = f"{view.directory}/{one.path}"
        waits_for = _waits_for(view, one)
        if waits_for is not None:
            yield Kept(Kind.GENERATIONS, path, f"generation {one.generation} is merged, but {waits_for}")
            continue
        reason = f"generation {one.generation} is merged; its files go a grace after it is taken out"
        size = sum(file.size for file in view.storage.files(path))
        yield Garbage(Kind.GENERATIONS, path, size, reason, view.region_id)


def needed_by_past(view: RegionView, one: FlushedGeneration) -> str | None:
    """The version of the base table that can't be read without a generation; None where each can."""
    known = view.history.first_with(one.generation)
    if known is None or all(other.path != one.path for other in known[0].flushed_generations):
        return None  # No manifest that can be read ever listed it.
    version = view.base.past.needing(view.region_id, one.generation, known[1])
    return None if version is None else version.described


def _waits_for(view: RegionView, one: FlushedGeneration) -> str | None:
    index = view.base.lagging_index(view.region_id, one.generation)
    if index is not None:
        return f"index {index!r} of the base table lacks its rows: optimize the index"
    version = needed_by_past(view, one)
    return None if version is None else f"{version} of the base table is not readable as it was without it"


def take_out(storage: Storage, region_id: str, chosen: frozenset[str]) -> None:
    """Commit a manifest without some generations, whoever else commits at the same time.

    The version is the next one and the epoch that of the writer, whose next flush is committed on top of it.

    Args:
        storage: directory of the table.
        region_id: of the region.
        chosen: paths of generations, below the region's directory.

    Raises:
        LanceGatewayError: it can't be done now.
    """
    for _ in range(_ATTEMPTS):
        newest = read_latest_manifest(storage, region_id)
        if newest is None:
            break
        left = tuple(one for one in newest.flushed_generations if one.path not in chosen)
        if len(left) == len(newest.flushed_generations):
            return
        if commit_manifest(storage, replace(newest, version=newest.version + 1, flushed_generations=left)):
            return
    raise UnavailableError(
        f"region {region_id} in {storage.uri}: others commit manifests all the time; run clean again"
    )


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
    newest = read_latest_manifest(view.storage, view.region_id, cached=view.newest)
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
