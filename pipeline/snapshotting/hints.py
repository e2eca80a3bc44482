"""Where long logs end, into the manifests of regions.

Whoever looks for the end of a region's log, above all who claims the region, looks upward from where its
manifest says that it ended. Manifests are written when a MemTable is flushed, so the end is far from there
only where many small entries are waiting. A manifest is not touched for less: each version costs every reader
a look. A live writer is not disturbed: its own next manifest follows the one written here, with its epoch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from memwal.regions.manifest import RegionManifest, commit_manifest
from memwal.regions.wal import last_wal_position, wal_entry_path
from memwal.storage.files import Storage


def refresh_hints(
    storage: Storage, manifests: Iterable[RegionManifest], entries: int
) -> dict[str, RegionManifest]:
    """Tell manifests where their logs end, if that is far from where they say.

    Args:
        storage: of the table.
        manifests: the newest of each region.
        entries: how far is far; 0 for never.

    Returns:
        Region id -> manifest that was written. A region whose manifest changed meanwhile is left alone.

    Raises:
        UnavailableError: storage failed to answer.
    """
    open_regions = [one for one in manifests if not one.sealed]
    if not entries or not open_regions:
        return {}
    is_far = storage.exists(*(wal_entry_path(one.region_id, _known(one) + entries) for one in open_regions))
    written = {}
    for manifest, far in zip(open_regions, is_far, strict=True):
        if far:
            newer = dataclasses.replace(
                manifest,
                version=manifest.version + 1,
                wal_entry_position_last_seen=last_wal_position(
                    storage, manifest.region_id, after=_known(manifest)
                ),
            )
            if commit_manifest(storage, newer):
                written[newer.region_id] = newer
    return written


def _known(manifest: RegionManifest) -> int:
    return max(manifest.wal_entry_position_last_seen, manifest.replay_after_wal_entry_position)
