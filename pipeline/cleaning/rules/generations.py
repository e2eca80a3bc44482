"""Generations that the base table contains, and that nobody has to read any more.

They are taken out of their region's manifest first. Readers that know them already still find their
directories, which go by another rule, a grace later.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    if known is None or not _lists(known[0].flushed_generations, one):
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
    msg = f"region {region_id} in {storage.uri}: others commit manifests all the time; run clean again"
    raise UnavailableError(msg)


def _lists(listed: tuple[FlushedGeneration, ...], one: FlushedGeneration) -> bool:
    return any(other.path == one.path for other in listed)
