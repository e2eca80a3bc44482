"""Snapshots of tables, and their descriptions for other processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal
from uuid import UUID

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError
from lance_gateway.memwal.regions.manifest import FlushedGeneration, RegionManifest
from lance_gateway.planner.tables.sources.base_table import BaseTable, BaseVersion
from lance_gateway.planner.tables.sources.generations import GenerationDataset
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.protos import snapshot_pb2

Consistency = Literal["strong", "flushed", "snapshot"]
CONSISTENCY_LEVELS: tuple[Consistency, ...] = ("strong", "flushed", "snapshot")
MAX_WAL_ENTRIES = 1 << 20
"""Most entries of one region's log that a description may name."""


@dataclass(frozen=True, eq=False)
class RegionSnapshot:
    """Fresh rows of one region that the base version does not have yet.

    Attributes:
        region_id: region.
        generations: flushed and not merged, oldest first.
        tail: rows that are in the WAL only; None where there are none or they were not asked for.
        manifest: of the region, where the generations were found by it.
        newest_merged: the newest generation whose rows the base version has; 0 for none.
    """

    region_id: str
    generations: tuple[GenerationDataset, ...]
    tail: Tail | None
    manifest: RegionManifest | None = None
    newest_merged: int = 0


@dataclass(frozen=True, slots=True)
class RegionRows:
    """Cache key of the fresh rows of a region: its generations and the entries of its log.

    Attributes:
        region_id: region.
        generations: oldest first.
        tail: `TailRows.number` and how many of its entries; None where there are none.
    """

    region_id: str
    generations: tuple[Place, ...]
    tail: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Cache key of the rows of a snapshot: the base version and the fresh rows on top of it.

    Attributes:
        base: version.
        regions: those that have fresh rows.
    """

    base: BaseVersion
    regions: frozenset[RegionRows]


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """Base version with the fresh rows on top of it.

    Attributes:
        base: the base table, read after the region manifests, so that a merge in between loses nothing.
        regions: region id -> fresh rows; regions that the query does not need are absent.
    """

    base: BaseTable
    regions: Mapping[str, RegionSnapshot]

    @cached_property
    def generations(self) -> tuple[GenerationDataset, ...]:
        """All generations of all regions."""
        return tuple(generation for region in self.regions.values() for generation in region.generations)

    @cached_property
    def tails(self) -> tuple[Tail, ...]:
        """All tails."""
        return tuple(region.tail for region in self.regions.values() if region.tail is not None)

    @cached_property
    def has_fresh_rows(self) -> bool:
        """Whether there are rows on top of the base version."""
        return bool(self.generations) | bool(self.tails)

    @cached_property
    def fresh_rows(self) -> int:
        """Number of rows on top of the base version, superseded ones included."""
        flushed = sum(one.rows for one in self.generations)
        return flushed + sum(int(one.rows.num_rows) for one in self.tails)

    @cached_property
    def identity(self) -> SnapshotRows:
        """Cache key of the snapshot's rows."""
        return SnapshotRows(
            self.base.version_id,
            frozenset(
                RegionRows(
                    region.region_id,
                    tuple(generation.place for generation in region.generations),
                    None if region.tail is None else (region.tail.log.number, region.tail.entries),
                )
                for region in self.regions.values()
                if region.generations or region.tail is not None
            ),
        )


class SnapshotGoneError(UnavailableError):
    """A described snapshot can't be opened any more."""

    def __init__(self, table: str, version: int, reason: object) -> None:
        super().__init__(
            f"table {table!r} as of base version {version} is no longer there ({reason}): run the query again"
        )


@dataclass(frozen=True, slots=True)
class RegionDescription:
    """Description of the fresh rows of a region in a snapshot.

    Attributes:
        region_id: UUID in its usual text form.
        generations: oldest first, with their directories below the region's own.
        wal_positions: ascending; of the entries that make up the tail.
        is_scanned: whether its rows are read; those of other regions only supersede older ones.
    """

    region_id: str
    generations: tuple[FlushedGeneration, ...]
    wal_positions: tuple[int, ...]
    is_scanned: bool

    def __post_init__(self) -> None:
        numbers = [generation.generation for generation in self.generations]
        if any(later <= earlier for earlier, later in pairwise(numbers)):
            msg = f"generations {numbers} of region {self.region_id} of a snapshot must ascend"
            raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True)
class SnapshotDescription:
    """Everything that is needed to reopen a snapshot, here or in another process over the same root.

    Attributes:
        table: name in the catalog.
        base_version: of the base table.
        base_fingerprint: see `BaseTable.fingerprint`.
        regions: in the order of the snapshot, which decides what is read where.
    """

    table: str
    base_version: int
    base_fingerprint: bytes
    regions: tuple[RegionDescription, ...]

    def __post_init__(self) -> None:
        if not self.table or self.base_version < 1:
            msg = (
                f"a snapshot is of a table at version 1 or more, not of {self.table!r} at {self.base_version}"
            )
            raise InvalidInputError(msg)

    @staticmethod
    def of(snapshot: TableSnapshot, scanned_regions: frozenset[str]) -> SnapshotDescription:
        """Describe a snapshot, and the regions of it that a query reads."""
        return SnapshotDescription(
            snapshot.base.name,
            snapshot.base.version,
            snapshot.base.fingerprint,
            tuple(
                RegionDescription(
                    region.region_id,
                    tuple(
                        FlushedGeneration(generation.generation, generation.path.rpartition("/")[2])
                        for generation in region.generations
                    ),
                    () if region.tail is None else region.tail.positions,
                    region.region_id in scanned_regions,
                )
                for region in snapshot.regions.values()
            ),
        )

    @property
    def scanned_regions(self) -> frozenset[str]:
        """Ids of the regions whose rows are read."""
        return frozenset(region.region_id for region in self.regions if region.is_scanned)

    def to_message(self) -> snapshot_pb2.SnapshotDescription:
        """Convert the description to a message."""
        message = snapshot_pb2.SnapshotDescription(
            table=self.table, base_version=self.base_version, base_fingerprint=self.base_fingerprint
        )
        for region in self.regions:
            described = message.regions.add(
                region_id=UUID(region.region_id).bytes, is_scanned=region.is_scanned
            )
            for generation in region.generations:
                described.generations.add(generation=generation.generation, path=generation.path)
            for first, count in _find_runs(region.wal_positions):
                described.wal_entries.add(first=first, count=count)
        return message

    @staticmethod
    def from_message(message: snapshot_pb2.SnapshotDescription) -> SnapshotDescription:
        """Read a description from a message of any origin.

        Raises:
            InvalidInputError: it describes what cannot be.
        """
        return SnapshotDescription(
            message.table,
            message.base_version,
            message.base_fingerprint,
            tuple(_read_region(region) for region in message.regions),
        )


def _read_region(message: snapshot_pb2.RegionDescription) -> RegionDescription:
    if len(message.region_id) != 16:
        msg = f"region id {message.region_id.hex()!r} of a snapshot is not a UUID of 16 bytes"
        raise InvalidInputError(msg)
    region_id = str(UUID(bytes=message.region_id))
    entries = sum(run.count for run in message.wal_entries)
    if entries > MAX_WAL_ENTRIES:
        msg = f"a snapshot of region {region_id} names {entries} WAL entries; at most {MAX_WAL_ENTRIES} do"
        raise InvalidInputError(msg)
    return RegionDescription(
        region_id,
        tuple(
            FlushedGeneration(generation.generation, generation.path) for generation in message.generations
        ),
        tuple(
            position for run in message.wal_entries for position in range(run.first, run.first + run.count)
        ),
        message.is_scanned,
    )


def _find_runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = count = 0
    for position in positions:
        if count and position == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = position, 1
    if count:
        yield first, count
