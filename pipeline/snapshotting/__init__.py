"""Regions into the MemWAL index of the base table: the specification's index builder.

- `policy`: how old snapshots may get.
- `committing`: snapshots of all regions as the next version of the base table.
- `hints`: where long logs end, into the manifests of regions.
- `job`: both, for a table.
"""

from pipeline.snapshotting.job import SnapshotReport, snapshot
from pipeline.snapshotting.policy import SnapshotPolicy

__all__ = ["SnapshotPolicy", "SnapshotReport", "snapshot"]
