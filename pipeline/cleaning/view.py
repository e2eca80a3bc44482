"""One region at one moment, as the rules look at it."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.regions.manifest import RegionManifest
from memwal.regions.wal import wal_directory
from memwal.storage.files import Entry, Storage, region_directory
from pipeline.cleaning.base import Base
from pipeline.cleaning.history import RegionHistory
from pipeline.cleaning.policy import CleanPolicy


@dataclass(frozen=True)
class RegionView:
    """A region.

    Attributes:
        storage: directory of the table.
        region_id: UUID in its usual text form.
        directories: names in the region's directory, listed before its manifests: what is not listed by them
            was not listed by any of that time.
        history: its manifests.
        log: what is in the directory of the log, listed after its manifests.
        settled: the manifest that was the newest a grace ago, which readers may still go by; None where there
            was none, or it can't be read.
        base: the base table.
        policy: what may be removed.
        now: microseconds since 1970.
    """

    storage: Storage
    region_id: str
    directories: tuple[str, ...]
    history: RegionHistory
    log: tuple[Entry, ...]
    settled: RegionManifest | None
    base: Base
    policy: CleanPolicy
    now: int

    @staticmethod
    def of(storage: Storage, region_id: str, base: Base, policy: CleanPolicy, now: int) -> RegionView | None:
        """Look at a region; None where it has no manifest yet.

        Raises:
            LanceGatewayError: it can't be read.
        """
        # Directories, then manifests, then the log: this order must not change (ADR 25).
        directories = storage.directories(region_directory(region_id))
        history = RegionHistory.of(storage, region_id)
        if history is None:
            return None
        settled = history.at(now - policy.grace)
        log = storage.list(wal_directory(region_id))
        return RegionView(storage, region_id, directories, history, log, settled, base, policy, now)

    @property
    def newest(self) -> RegionManifest:
        """Its newest manifest."""
        return self.history.newest

    @property
    def merged(self) -> int:
        """Newest generation that the base table contains; 0 for none."""
        return self.base.merged.get(self.region_id, 0)

    @property
    def directory(self) -> str:
        """Below the table's."""
        return region_directory(self.region_id)

    @property
    def log_directory(self) -> str:
        """Below the table's."""
        return wal_directory(self.region_id)
