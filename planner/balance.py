"""Which partition of a scan reads what: always the same for the same snapshot and number of partitions."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from execnodes.row_mask import CHUNK_ROWS
from execnodes.stored_fragments import StoredFragment
from planner.snapshot import RegionSnapshot, TableSnapshot

BASE = ""
"""What stands for the base table where generations have their paths and tails their regions."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows that one partition reads together.

    Attributes:
        source: `BASE`, the path of a generation, or the id of a region, for its tail.
        rows: how many are stored.
        fragments: ids of whole fragments.
        first: of a part of the one fragment: its first row; None where fragments are read as a whole.
    """

    source: str
    rows: int
    fragments: tuple[int, ...] = ()
    first: int | None = None


Partition = tuple[Unit, ...]


@dataclass(frozen=True, eq=False)
class Division:
    """A scan that several readers share, each on its own.

    Attributes:
        snapshot: what all of them see.
        scanned_regions: whose rows are read; those of other regions only supersede older ones.
        count: how many readers there are.
    """

    snapshot: TableSnapshot
    scanned_regions: frozenset[str]
    count: int

    def partitions(self) -> tuple[Partition, ...]:
        """What each of them reads."""
        regions = [one for one in self.snapshot.regions.values() if one.region_id in self.scanned_regions]
        return balanced(scan_units(self.snapshot, regions, split_into=self.count), self.count)


def scan_units(
    snapshot: TableSnapshot, scanned: Sequence[RegionSnapshot], *, split_into: int = 1
) -> tuple[Unit, ...]:
    """What a scan has to read, in the order of the snapshot.

    Args:
        snapshot: of the table.
        scanned: regions that are read.
        split_into: fragments of the base table that exceed an even share of so many partitions are divided;
            1 leaves them whole.
    """
    generations = [one for region in scanned for one in region.generations]
    tails = [region.tail for region in scanned if region.tail is not None]
    base = snapshot.base
    total = base.physical_rows + sum(one.rows for one in generations)
    share = max(CHUNK_ROWS, -(-total // split_into))
    units = [unit for fragment in base.fragments for unit in _pieces(fragment, share, split_into)]
    units += [Unit(one.path, one.rows, tuple(one.fragment_rows)) for one in generations]
    units += [Unit(one.region_id, one.rows.num_rows) for one in tails]
    return tuple(units)


def _pieces(fragment: StoredFragment, share: int, split_into: int) -> Iterator[Unit]:
    rows, identity = fragment.physical_rows, (fragment.fragment_id,)
    pieces = min(round(rows / share), split_into)
    if pieces < 2:
        yield Unit(BASE, rows, identity)
        return
    step = -(-rows // pieces)
    for first in range(0, rows, step):
        yield Unit(BASE, min(step, rows - first), identity, first)


def balanced(units: Sequence[Unit], partitions: int) -> tuple[Partition, ...]:
    """One tuple of units per partition; the largest are placed first, each where there is least so far.

    Among equals the order of the units, and then that of the partitions, decides.
    """
    loads = [(0, partition) for partition in range(partitions)]
    placed: list[list[Unit]] = [[] for _ in range(partitions)]
    for unit in sorted(units, key=lambda unit: -unit.rows):
        load, partition = heapq.heappop(loads)
        placed[partition].append(unit)
        heapq.heappush(loads, (load + unit.rows, partition))
    return tuple(map(tuple, placed))
