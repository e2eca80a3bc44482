"""Regions that an earlier MemWAL of a table left behind.

Lance overwrites a table without a look at its regions, and takes its MemWAL away with all other indexes. Base
and regions then belong to different contents. So regions that are there before a table gets a MemWAL never
become part of it: they are given up, if that is asked for, or else it gets none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from memwal.errors import UnavailableError
from memwal.regions.manifest import RegionManifest, commit_manifest, read_latest_manifest
from memwal.storage.files import Storage

_ATTEMPTS: Final = 16


@dataclass(frozen=True)
class GivenUpRegions:
    """Regions whose rows do not count any more.

    Attributes:
        region_ids: of all of them.
        spec_id: the highest of the region specs that they follow; 0 for none.
    """

    region_ids: tuple[str, ...] = ()
    spec_id: int = field(default=0)


def give_up_regions(table: Storage, region_ids: Iterable[str]) -> GivenUpRegions:
    """Seal regions for good; nothing is removed, and it may be done again.

    No writer can claim them any more. One that holds a region can still append to its log, but what it
    flushes is refused.

    Args:
        table: its directory; the table has no MemWAL.
        region_ids: of the regions.

    Raises:
        LanceGatewayError: one can't be read or sealed.
    """
    sealed = table.each(lambda one: _sealed(table, one), tuple(region_ids))
    return GivenUpRegions(
        tuple(one.region_id for one in sealed), max((one.region_spec_id for one in sealed), default=0)
    )


def _sealed(table: Storage, region_id: str) -> RegionManifest:
    for _ in range(_ATTEMPTS):
        newest = read_latest_manifest(table, region_id)
        if newest is not None and newest.sealed:
            return newest
        if newest is None:
            following = RegionManifest(region_id, 1, 1, 0, 0, 1, sealed=True)
        else:
            following = replace(
                newest, version=newest.version + 1, writer_epoch=newest.writer_epoch + 1, sealed=True
            )
        if commit_manifest(table, following):
            return following
    msg = f"{table.uri}: region {region_id} can't be sealed, since others write to it: stop them, and retry"
    raise UnavailableError(msg)
