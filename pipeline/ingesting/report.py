"""What a job that brought rows in did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegionReport:
    """What one task did to one region.

    Attributes:
        region_id: UUID in its usual text form.
        rows: that were written.
        deleted: keys that were deleted.
        epoch: of the newest claim with which it was written.
    """

    region_id: str
    rows: int
    deleted: int
    epoch: int


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What a job did.

    Attributes:
        table: its name.
        job: under which its batches are known.
        batch: which of them this was.
        regions: ascending by id.
        is_skipped: whether the batch was complete before, so that nothing was written.
    """

    table: str
    job: str
    batch: int
    regions: tuple[RegionReport, ...] = ()
    is_skipped: bool = False

    @property
    def rows(self) -> int:
        """Rows that were written."""
        return sum(one.rows for one in self.regions)

    @property
    def deleted(self) -> int:
        """Keys that were deleted."""
        return sum(one.deleted for one in self.regions)
