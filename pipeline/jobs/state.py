"""One consistent look at a table: what its regions hold, and how far merges and indexes are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from memwal.base.index_details import MemWalIndexDetails, read_index_details
from memwal.errors import PreconditionError
from memwal.regions.generation_numbers import check_generations
from memwal.regions.manifest import (
    FlushedGeneration,
    RegionManifest,
    list_regions,
    read_latest_manifests,
)
from pipeline.jobs.lake import LakeTable


class NoMemWalError(PreconditionError):
    """A plain table, which has no regions."""


@dataclass(frozen=True, slots=True)
class RegionState:
    """A region at one moment.

    Attributes:
        manifest: its newest manifest.
        merged: newest generation that the base table contains; 0 for none.
    """

    manifest: RegionManifest
    merged: int

    @property
    def region_id(self) -> str:
        """UUID in its usual text form."""
        return self.manifest.region_id

    @property
    def pending(self) -> tuple[FlushedGeneration, ...]:
        """Flushed generations that the base table lacks, oldest first."""
        return self.manifest.unmerged(self.merged)

    @property
    def done(self) -> tuple[FlushedGeneration, ...]:
        """Generations that are still listed though the base table contains them, oldest first."""
        return self.manifest.merged(self.merged)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table at one moment.

    Attributes:
        table: which one.
        version: of the base table, read after the manifests: a merge in between loses nothing.
        details: its MemWAL index.
        regions: region id -> state, ascending by id; regions whose manifest is not there yet are left out.
    """

    table: LakeTable
    version: int
    details: MemWalIndexDetails
    regions: Mapping[str, RegionState]

    @staticmethod
    def read(table: LakeTable, *, known: Mapping[str, RegionManifest] | None = None) -> TableState:
        """Look at a table.

        Args:
            table: which one.
            known: manifests that were read before; regions that have not changed cost one probe.

        Raises:
            NotFoundError: there is no such table.
            NoMemWalError: the table has no MemWAL.
            LanceGatewayError: a file can't be read.
        """
        # Manifests before the base version: this order must not change (ADR 5).
        found = read_latest_manifests(table.storage, list_regions(table.storage), known=known or {})
        version = table.dataset().version
        details = read_index_details(table.storage, version)
        if details is None:
            msg = (
                f"table {table.name!r} has no MemWAL: turn it on through a gateway with ALTER TABLE "
                f"{table.name} SET (memwal = true, region_by = '..'), or with Lance's initialize_mem_wal()"
            )
            raise NoMemWalError(msg)
        regions = {
            one.region_id: RegionState(one, details.newest_merged(one.region_id))
            for one in found
            if one is not None
        }
        return TableState(table, version, details, regions)

    def check_numbering(self) -> None:
        """Make sure that the generations of all regions are those that the base table counts.

        Raises:
            RegionMismatchError: those of one are not.
            LanceGatewayError: a file can't be read.
        """
        manifests = [region.manifest for region in self.regions.values()]
        check_generations(
            self.table.storage, manifests, {one: region.merged for one, region in self.regions.items()}
        )
