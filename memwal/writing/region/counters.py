"""What a region's writer counts."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.writing.observing import RegionStats
from memwal.writing.region.claim import Claim
from memwal.writing.region.requests import RequestQueue


@dataclass(slots=True)
class Counters:
    """Since the process began; changed by the thread that leads the region's queue.

    Attributes:
        region_id: UUID in its usual text form.

    The others are as in `RegionStats`.
    """

    region_id: str
    rows: int = 0
    bytes: int = 0
    groups: int = 0
    group_requests: int = 0
    claims: int = 0
    fences: int = 0
    forwards: int = 0
    in_doubt: int = 0
    failed_later: int = 0
    flushes: int = 0

    def stats(self, claim: Claim | None, queue: RequestQueue, own_url: str, owner_url: str) -> RegionStats:
        """These and the gauges of a claim and a queue.

        Args:
            claim: the newest; None where the region was let go.
            queue: of the region.
            own_url: by which others reach this process.
            owner_url: of the process that was seen to own the region last.
        """
        if claim is not None and claim.is_lost:
            claim = None
        return RegionStats(
            region_id=self.region_id,
            epoch=0 if claim is None else claim.epoch,
            since=None if claim is None else claim.since,
            is_open=claim is not None,
            rows=self.rows,
            bytes=self.bytes,
            groups=self.groups,
            group_requests=self.group_requests,
            claims=self.claims,
            fences=self.fences,
            forwards=self.forwards,
            in_doubt=self.in_doubt,
            failed_later=self.failed_later,
            flushes=self.flushes,
            queued_bytes=queue.queued_bytes,
            queued_requests=queue.queued_requests,
            unflushed_rows=0 if claim is None else claim.tail.rows,
            unflushed_bytes=0 if claim is None else claim.tail.bytes,
            wal_position=0 if claim is None else claim.position,
            owner_url=own_url if claim is not None else owner_url,
        )
