"""State of a table that is valid until it is recreated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import lance

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.base.index_details import MemWalIndexDetails, RegionSpec
from lance_gateway.memwal.regions.manifest import RegionManifest
from lance_gateway.memwal.regions.region_snapshots import RegionSnapshot
from lance_gateway.planner.predicates.pruning import RegionAssignments
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.log_tail import RegionLog
from lance_gateway.planner.tables.sources.snapshot import Consistency, TableSnapshot

INDEX_CACHE_BYTES = 128 << 20
METADATA_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class RememberedRegions:
    """Regions as one version of the MemWAL index remembers them.

    Attributes:
        details: the index.
        regions: its snapshots of them.
    """

    details: MemWalIndexDetails
    regions: tuple[RegionSnapshot, ...]

    @cached_property
    def manifests(self) -> Mapping[str, RegionManifest | None]:
        """Region id -> manifest; None where the index remembers no more than that the region is there."""
        return {region.region_id: region.manifest for region in self.regions}

    @cached_property
    def assignments(self) -> RegionAssignments:
        """Region values that the index records."""
        return RegionAssignments.of(self.regions, self.details.region_specs)


@dataclass(frozen=True, eq=False, slots=True)
class Confirmed:
    """State of a table that was still the newest at a moment (ADR 100).

    Attributes:
        at: the moment, in seconds of the monotonic clock.
        base: version of the base table.
        regions: all regions.
        manifests: region id -> its manifest.
        ends: region id -> position of the last entry of its log; None if unknown.
    """

    at: float
    base: BaseTable
    regions: RegionAssignments
    manifests: Mapping[str, RegionManifest]
    ends: Mapping[str, int | None]


@dataclass(eq=False, slots=True)
class TableState:
    """Everything that was read of a table; a recreated table gets a new object.

    Readers of the old table then can't write into the state of the new one.

    Attributes:
        place: names the table in caches.
        session: the `lance.Session` in which its files are opened.
        manifests: region id -> the newest manifest read.
        logs: region id -> its log.
        last: the snapshots taken last, and when (seconds, monotonic clock).
        recorded_state: replaced whenever the values that regions record change.
        assigned: region assignments, with the `recorded_state` and specs that they were computed from.
        named: region id -> values of regions that record none and that LanceDB named by a value.
        remembered: regions that the MemWAL index remembers.
        checked: base version and manifests that were found to agree, and ids of regions that were given up.
    """

    place: Place
    session: Any
    manifests: dict[str, RegionManifest] = field(default_factory=dict)
    logs: dict[str, RegionLog] = field(default_factory=dict)
    last: dict[Consistency, tuple[float, TableSnapshot]] = field(default_factory=dict)
    recorded_state: object = field(default_factory=object)
    assigned: tuple[object, tuple[RegionSpec, ...], RegionAssignments] = (None, (), RegionAssignments())
    named: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    remembered: RememberedRegions | None = None
    checked: tuple[BaseTable | None, Sequence[RegionManifest], frozenset[str]] = (None, (), frozenset())

    def forget(self, region_id: str) -> None:
        """Read a region again on next use."""
        self.manifests.pop(region_id, None)
        self.logs.pop(region_id, None)

    def create_successor(self) -> TableState:
        """Create empty state for another table in the same directory."""
        return TableState(Place.new(self.place.uri), create_session())


class Newest(Protocol):
    """Protocol of `NewestBase`."""

    last: BaseTable | None
    state: TableState

    def find(self) -> BaseTable:
        """Find the newest version."""

    def list_checks(self, base: BaseTable) -> Sequence[Callable[[], bool]]:
        """See `NewestBase.list_checks`."""


def create_session() -> Any:  # noqa: ANN401 - lance types
    """Create a `lance.Session` for a table in whose directory there was another one.

    Lance identifies files by name, so the old session would confuse old and new files.
    """
    return lance.Session(
        index_cache_size_bytes=INDEX_CACHE_BYTES, metadata_cache_size_bytes=METADATA_CACHE_BYTES
    )
