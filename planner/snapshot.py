"""What one query sees of one table."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from planner.base_table import BaseTable
from planner.fresh_rows import GenerationDataset, Tail

Consistency = Literal["strong", "flushed", "snapshot"]
CONSISTENCY_LEVELS: tuple[Consistency, ...] = ("strong", "flushed", "snapshot")


@dataclass(frozen=True, eq=False)
class RegionSnapshot:
    """Fresh rows of one region that the base version does not have yet.

    Attributes:
        region_id: region.
        generations: flushed and not merged, oldest first.
        tail: rows that are in the WAL only; None where there are none or they were not asked for.
    """

    region_id: str
    generations: tuple[GenerationDataset, ...]
    tail: Tail | None


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """A base version and the fresh rows on top of it.

    Attributes:
        base: the base table, read after the region manifests, so that a merge in between loses nothing.
        regions: region id -> fresh rows; regions that the query does not need are absent.
        taken_at: seconds, monotonic clock.
    """

    base: BaseTable
    regions: Mapping[str, RegionSnapshot]
    taken_at: float = field(default_factory=time.monotonic)

    @cached_property
    def generations(self) -> tuple[GenerationDataset, ...]:
        """All generations of all regions."""
        return tuple(one for region in self.regions.values() for one in region.generations)

    @cached_property
    def tails(self) -> tuple[Tail, ...]:
        """All tails."""
        return tuple(region.tail for region in self.regions.values() if region.tail is not None)

    @property
    def has_fresh_rows(self) -> bool:
        """Whether anything lies on top of the base version."""
        return bool(self.generations or self.tails)

    @cached_property
    def identity(self) -> tuple[Hashable, ...]:
        """Equal for snapshots of the same rows."""
        parts = sorted(
            (
                region.region_id,
                tuple(one.path for one in region.generations),
                None if region.tail is None else (region.tail.first, region.tail.last),
            )
            for region in self.regions.values()
            if region.generations or region.tail is not None
        )
        return (self.base.storage.uri, self.base.version, tuple(parts))
