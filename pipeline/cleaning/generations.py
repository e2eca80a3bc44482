"""Finds merged generations that nobody has to read, and directories that no manifest lists.

Generations are removed from their region's manifest first. Readers that know them still find their
directories, which are deleted by another rule, a grace later.

A flush writes its directory first and then commits the manifest. So a directory that is not listed may belong
to a running flush. It does not

- if its generation is flushed: writers flush generations in order, and only once. Then its rows must also be
  in the base table or in another directory of the same generation; if they are not, nothing is removed;
- or if it was written before the current writer claimed the region: the former writer can't commit any more,
  and the rows are in the log. Their blobs may be in the directory, which then stays.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.log_values import BLOB_SUFFIX
from lance_gateway.memwal.regions.manifest import FlushedGeneration, commit_manifest, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning.garbage import Garbage, Kept, Kind
from lance_gateway.pipeline.cleaning.view import RegionView

_ATTEMPTS = 16


def find_merged_generations(view: RegionView) -> Iterator[Garbage | Kept]:
    """Find merged generations that the manifest still lists."""
    for one in view.newest.merged(view.merged):
        path = f"{view.directory}/{one.path}"
        waits_for = _find_obstacle(view, one)
        if waits_for is not None:
            yield Kept(Kind.GENERATIONS, path, f"generation {one.generation} is merged, but {waits_for}")
            continue
        reason = f"generation {one.generation} is merged; its files go a grace after it is taken out"
        size = sum(file.size for file in view.storage.files(path))
        yield Garbage(Kind.GENERATIONS, path, size, reason, view.region_id)


def find_needing_version(view: RegionView, one: FlushedGeneration) -> str | None:
    """Find a version of the base table that can't be read without a generation."""
    first = view.history.find_first_with(one.generation)
    if first is None or all(other.path != one.path for other in first[0].flushed_generations):
        return None  # No readable manifest lists it.
    version = view.base.past.find_needing(view.region_id, one.generation, first[1])
    return None if version is None else version.described


def _find_obstacle(view: RegionView, one: FlushedGeneration) -> str | None:
    index = view.base.lagging_index(view.region_id, one.generation)
    if index is not None:
        return f"index {index!r} of the base table lacks its rows: optimize the index"
    version = find_needing_version(view, one)
    return None if version is None else f"{version} of the base table is not readable as it was without it"


def delist_generations(storage: Storage, region_id: str, chosen: frozenset[str]) -> None:
    """Commit a manifest without certain generations, and retry after other commits.

    The manifest has the next version and the writer's epoch, so the writer's next flush follows it.

    Args:
        storage: directory of the table.
        region_id: id of the region.
        chosen: paths of the generations, relative to the region's directory.

    Raises:
        LanceGatewayError: storage failed, or other commits came first in every attempt.
    """
    for _ in range(_ATTEMPTS):
        newest = read_latest_manifest(storage, region_id)
        if newest is None:
            break
        left = tuple(generation for generation in newest.flushed_generations if generation.path not in chosen)
        if len(left) == len(newest.flushed_generations):
            return
        if commit_manifest(storage, replace(newest, version=newest.version + 1, flushed_generations=left)):
            return
    raise UnavailableError(
        f"region {region_id} in {storage.uri}: others commit manifests all the time; run clean again"
    )


_NAME: Final = re.compile(r"[0-9a-f]{8}_gen_([1-9][0-9]*)")


def find_unlisted_directories(view: RegionView) -> Iterator[Garbage | Kept]:
    """Find directories that the newest manifest does not list."""
    listed = {generation.path for generation in view.newest.flushed_generations}
    for name in sorted(view.directories):
        match = _NAME.fullmatch(name)
        if match is None or name in listed:
            continue
        path = f"{view.directory}/{name}"
        one = FlushedGeneration(int(match[1]), name)
        if one.generation < view.newest.current_generation:
            waits_for, reason = _check_flushed(view, one)
        else:
            waits_for, reason = _check_unflushed(view, one)
        if waits_for is not None:
            yield Kept(Kind.DIRECTORIES, path, waits_for)
        else:
            size = sum(file.size for file in view.storage.files(path))
            yield Garbage(Kind.DIRECTORIES, path, size, reason, view.region_id)


def is_still_garbage(view: RegionView, name: str) -> bool:
    """Whether the current manifest does not list a directory either."""
    newest = read_latest_manifest(view.storage, view.region_id, cached=view.newest)
    return newest is not None and all(generation.path != name for generation in newest.flushed_generations)


def _check_flushed(view: RegionView, one: FlushedGeneration) -> tuple[str | None, str]:
    """Return what the directory of a flushed generation waits for, and why it is garbage."""
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
    version = find_needing_version(view, one)
    if version is not None:
        return f"{version} of the base table is not readable as it was without it", ""
    if again is not None:
        return None, f"generation {number} was flushed again, to {again.path}"
    return None, f"generation {number} is merged, and no longer listed"


def _check_unflushed(view: RegionView, one: FlushedGeneration) -> tuple[str | None, str]:
    """Return what the directory of an unflushed generation waits for, and why it is garbage."""
    files = tuple(view.storage.files(f"{view.directory}/{one.path}"))
    if any(file.name.endswith(BLOB_SUFFIX) for file in files):
        return f"log entries of generation {one.generation} may have blobs in it", ""
    begun = min((file.written // 1000 for file in files), default=None)
    claimed = None if begun is None else view.history.find_claim_time()
    grace = view.policy.grace
    if begun is None or claimed is None or begun + grace >= claimed or claimed > view.now - grace:
        return f"generation {one.generation} may be on its way", ""
    return (
        None,
        f"the writer that began generation {one.generation} has lost the region; its log has the rows",
    )
