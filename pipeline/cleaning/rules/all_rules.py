"""All rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memwal.regions.generation_numbers import is_restarted
from pipeline.cleaning.base import Base
from pipeline.cleaning.garbage import Found, Garbage, Kept, Kind
from pipeline.cleaning.policy import CleanPolicy
from pipeline.cleaning.rules.directories import unlisted_directories
from pipeline.cleaning.rules.generations import merged_generations
from pipeline.cleaning.rules.leftovers import region_leftovers
from pipeline.cleaning.rules.log_entries import flushed_entries
from pipeline.cleaning.rules.manifests import old_manifests
from pipeline.cleaning.view import RegionView
from pipeline.jobs.lake import LakeTable

_RULES: tuple[tuple[Kind, Callable[[RegionView], Iterator[Garbage | Kept]]], ...] = (
    (Kind.GENERATIONS, merged_generations),
    (Kind.DIRECTORIES, unlisted_directories),
    (Kind.LOG, flushed_entries),
    (Kind.MANIFESTS, old_manifests),
    (Kind.LEFTOVERS, region_leftovers),
)


def look(view: RegionView) -> Found:
    """What a region has of the kinds that are asked for."""
    if is_restarted(view.newest, view.merged):
        reason = (
            f"its next generation is {view.newest.current_generation}, but the base table contains those up "
            f"to {view.merged} of a region of that id: queries tell what to do"
        )
        return Found(kept=(Kept(Kind.GENERATIONS, view.directory, reason),))
    garbage: list[Garbage] = []
    kept: list[Kept] = []
    for kind, rule in _RULES:
        if kind in view.policy.kinds:
            for one in rule(view):
                if isinstance(one, Garbage):
                    garbage.append(one)
                else:
                    kept.append(one)
    return Found(tuple(garbage), tuple(kept))


@dataclass(frozen=True)
class LookAtRegion:
    """Looks at regions of a table; may travel to other processes.

    Attributes:
        table: whose regions they are.
        base: the base table.
        policy: what may be removed.
        now: microseconds since 1970.
    """

    table: LakeTable
    base: Base
    policy: CleanPolicy
    now: int

    def __call__(self, region_id: str) -> Found:
        """Look at one.

        Raises:
            LanceGatewayError: it can't be read.
        """
        view = RegionView.of(self.table.storage, region_id, self.base, self.policy, self.now)
        return Found() if view is None else look(view)
