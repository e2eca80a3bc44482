"""Tasks that find and remove the garbage of a region; removal finds it again first.

A task that is interrupted leaves garbage that the next run finds: a generation is removed from its manifest
before its directory, a partly deleted directory is still not listed, and files are removed one by one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lance_gateway.memwal.regions.generation_numbers import is_restarted
from lance_gateway.memwal.regions.manifest import manifest_path
from lance_gateway.memwal.regions.wal import wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning.garbage import CleanPolicy, Findings, Garbage, Kept, Kind
from lance_gateway.pipeline.cleaning.generations import (
    delist_generations,
    find_merged_generations,
    find_unlisted_directories,
    is_still_garbage,
)
from lance_gateway.pipeline.cleaning.region_files import (
    find_flushed_entries,
    find_old_manifests,
    find_region_leftovers,
)
from lance_gateway.pipeline.cleaning.versions import Base
from lance_gateway.pipeline.cleaning.view import RegionView
from lance_gateway.pipeline.jobs.lake import LakeTable

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
