"""Snapshots of tables: regions in the MemWAL index of the base table, and backups.

`regions` is the index builder of the specification. `backup` copies tables as they are at one moment to
another place, and `restore` makes tables of such copies.
"""

from lance_gateway.pipeline.snapshotting.regions import (
    CommittedSnapshots,
    SnapshotJob,
    SnapshotPolicy,
    SnapshotReport,
    commit,
    snapshot,
)

__all__ = ["CommittedSnapshots", "SnapshotJob", "SnapshotPolicy", "SnapshotReport", "commit", "snapshot"]
