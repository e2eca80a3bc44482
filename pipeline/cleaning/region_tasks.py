"""Tasks that find and remove the garbage of a region; removal finds it again first.

A task that is interrupted leaves garbage that the next run finds: a generation is removed from its manifest
before its directory, a partly deleted directory is still not listed, and files are removed one by one.

Merged generations are those that nobody has to read. Readers that know them still find their directories,
which are deleted by another rule, a grace later.

A flush writes its directory first and then commits the manifest. So a directory that is not listed may belong
to a running flush. It does not

- if its generation is flushed: writers flush generations in order, and only once. Then its rows must also be
  in the base table or in another directory of the same generation; if they are not, nothing is removed;
- or if it was written before the current writer claimed the region: the former writer can't commit any more,
  and the rows are in the log. Their blobs may be in the directory, which then stays.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.generation_numbers import is_restarted
from lance_gateway.memwal.regions.log_values import BLOB_SUFFIX
from lance_gateway.memwal.regions.manifest import (
    FlushedGeneration,
    commit_manifest,
    manifest_path,
    read_latest_manifest,
)
from lance_gateway.memwal.regions.wal import wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning.garbage import CleanPolicy, Findings, Garbage, Kept, Kind
from lance_gateway.pipeline.cleaning.region_files import (
    find_flushed_entries,
    find_old_manifests,
    find_region_leftovers,
)
from lance_gateway.pipeline.cleaning.versions import Base
from lance_gateway.pipeline.cleaning.view import RegionView
from lance_gateway.pipeline.jobs.lake import LakeTable

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


_RULES: tuple[tuple[Kind, Callable[[RegionView], Iterator[Garbage | Kept]]], ...] = (
    (Kind.GENERATIONS, find_merged_generations),
    (Kind.DIRECTORIES, find_unlisted_directories),
    (Kind.LOG, find_flushed_entries),
    (Kind.MANIFESTS, find_old_manifests),
    (Kind.LEFTOVERS, find_region_leftovers),
)


def find_garbage(view: RegionView) -> Findings:
    """Find the garbage of a region, of the kinds of its policy."""
    if is_restarted(view.newest, view.merged):
        reason = (
            f"its next generation is {view.newest.current_generation}, but the base table contains those up "
            f"to {view.merged} of a region of that id: queries tell what to do"
        )
        return Findings(kept=(Kept(Kind.GENERATIONS, view.directory, reason),))
    garbage: list[Garbage] = []
    kept: list[Kept] = []
    for kind, rule in _RULES:
        if kind in view.policy.kinds:
            for one in rule(view):
                if isinstance(one, Garbage):
                    garbage.append(one)
                else:
                    kept.append(one)
    return Findings(tuple(garbage), tuple(kept))


@dataclass(frozen=True)
class LookAtRegion:
    """Finds the garbage of regions; can be sent to other processes."""

    table: LakeTable
    base: Base
    policy: CleanPolicy
    now: int

    def __call__(self, region_id: str) -> Findings:
        """Find the garbage of a region."""
        view = RegionView.of(self.table.storage, region_id, self.base, self.policy, self.now)
        return Findings() if view is None else find_garbage(view)


_NUMBERED = (Kind.LOG, Kind.MANIFESTS)
_AT_ONCE = 1000


@dataclass(frozen=True)
class RemoveFromRegion:
    """Removes the garbage of regions; can be sent to other processes, and repeated."""

    table: LakeTable
    base: Base
    policy: CleanPolicy
    now: int
    found: Mapping[str, tuple[Garbage, ...]]

    def __call__(self, region_id: str) -> tuple[Garbage, ...]:
        """Remove what is still garbage, and return it.

        Raises:
            LanceGatewayError: some garbage could not be removed.
        """
        found = self.found[region_id]
        kinds = tuple(kind for kind in self.policy.kinds if any(one.kind is kind for one in found))
        if not kinds:
            return ()
        policy = replace(self.policy, kinds=kinds)
        storage = self.table.storage
        # The base version before manifests: this order must not change (ADR 33).
        view = RegionView.of(storage, region_id, self.base.refresh(self.table), policy, self.now)
        if view is None:
            return ()
        again = tuple(_intersect(find_garbage(view).garbage, found))
        listed = tuple(one for one in again if one.kind is Kind.GENERATIONS)
        # Out of the manifest before directories go: this order must not change (ADR 25).
        if listed:
            delist_generations(storage, region_id, frozenset(one.path.rpartition("/")[2] for one in listed))
        others = (one for one in again if one.kind is not Kind.GENERATIONS)
        return (*listed, *(other for other in others if _remove(view, other)))


def _remove(view: RegionView, one: Garbage) -> bool:
    """Remove garbage; returns False if it is not garbage any more."""
    storage = view.storage
    if one.kind is Kind.DIRECTORIES:
        if not is_still_garbage(view, one.path.rpartition("/")[2]):
            return False
        storage.child(one.path).delete_all()
    elif one.kind is Kind.LOG:
        for first in range(one.first, one.last + 1, _AT_ONCE):
            positions = range(first, min(first + _AT_ONCE, one.last + 1))
            storage.delete_each([wal_entry_path(one.region_id, position) for position in positions])
    elif one.kind is Kind.MANIFESTS:
        _truncate_files(
            storage, [manifest_path(one.region_id, each) for each in range(one.first, one.last + 1)]
        )
    else:
        storage.delete(one.path)
    return True


def _truncate_files(storage: Storage, paths: Sequence[str]) -> None:
    for first in range(0, len(paths), _AT_ONCE):
        storage.each(lambda path: storage.put(path, b""), paths[first : first + _AT_ONCE])


def _intersect(again: Sequence[Garbage], before: Sequence[Garbage]) -> Iterator[Garbage]:
    """Return the garbage that was also found before; intersects ranges of numbers."""
    known = {(one.kind, one.path) for one in before if one.kind not in _NUMBERED}
    runs = [one for one in before if one.kind in _NUMBERED]
    for one in again:
        if (one.kind, one.path) in known:
            yield one
        for other in runs:
            first, last = max(one.first, other.first), min(one.last, other.last)
            if one.kind is other.kind and first <= last:
                whole = (first, last) == (one.first, one.last)
                share = one.bytes if whole else one.bytes * (last - first + 1) // one.files
                yield replace(one, first=first, last=last, files=last - first + 1, bytes=share)
