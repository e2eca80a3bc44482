"""Check the generation numbers of regions against the merge progress of the base table.

The base table records the newest merged generation by region id. Region ids follow from the table and the
values of its rows, so a clone or a copy of a table has the same region ids and the merge progress of the
original. Numbers must not be used twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lance_gateway.memwal.base.index_details import MemWalIndexDetails
from lance_gateway.memwal.errors import PreconditionError
from lance_gateway.memwal.regions.manifest import RegionManifest, read_latest_manifest
from lance_gateway.memwal.storage.files import Storage, region_directory

EVERYTHING: Final = (1 << 63) - 1
"""Recorded as merged of a region that was given up: no generation of it is ever above."""


EXTENTS: Final = "_gateway/merging"


class RegionMismatchError(PreconditionError):
    """A region's manifest and the base table contradict each other, so the newer rows are unknown."""


def choose_first_generation(details: MemWalIndexDetails, region_id: str) -> int:
    """Return the number of the first generation of a new region.

    Args:
        details: MemWAL index of the newest base version.
        region_id: UUID in its usual text form.

    Raises:
        PreconditionError: the region was given up, and takes no rows.
    """
    # What indexes are recorded to cover was merged before.
    newest = details.newest_merged(region_id)
    if newest >= EVERYTHING:
        msg = f"region {region_id} was given up with an earlier MemWAL of the table, and takes no rows"
        raise PreconditionError(msg)
    return newest + 1


def extent_path(region_id: str, first: int) -> str:
    """Return the file in which mergers agree on the end of a merge that starts at generation `first`."""
    return f"{EXTENTS}/{region_id}.{first}"


def is_given_up(manifest: RegionManifest, merged: int) -> bool:
    """Return whether none of a region's rows count any more, those in its log included."""
    return manifest.sealed and manifest.current_generation <= merged


def is_restarted(manifest: RegionManifest, merged: int) -> bool:
    """Return whether a region's generation numbers are below the merged ones of the base table.

    Args:
        manifest: read after the base version: one that was read before may just be older.
        merged: newest generation that the base version contains; 0 for none.
    """
    return not manifest.sealed and manifest.current_generation <= merged


def check_not_restarted(table: Storage, manifest: RegionManifest, merged: int) -> None:
    """Refuse a region whose generations have numbers that the base table counts as merged.

    Args:
        table: its directory, for messages.
        manifest: read after the base version.
        merged: newest generation that the base version contains; 0 for none.

    Raises:
        RegionMismatchError: they can't be told apart.
    """
    if is_restarted(manifest, merged):
        msg = (
            f"{table.uri}: the next generation of region {manifest.region_id} is "
            f"{manifest.current_generation}, but the base table contains generations up to {merged} of a "
            "region of that id: the table is a clone or a copy in which another writer began the region "
            "again, or manifests of the region are older than the base table. In a clone, stop that writer, "
            f"move {table.locate(region_directory(manifest.region_id))} elsewhere, and write its rows "
            "through the gateway; otherwise restore the newer manifests"
        )
        raise RegionMismatchError(msg)


def check_generations(
    table: Storage, manifests: Iterable[RegionManifest], merged: Mapping[str, int]
) -> frozenset[str]:
    """Check that the generations of regions agree with the base table.

    Args:
        table: its directory.
        manifests: of the regions, read before the base version.
        merged: newest generation that the base version contains, by region id.

    Returns:
        Ids of the regions that were given up.

    Raises:
        RegionMismatchError: those of one are not.
        LanceGatewayError: a file can't be read.
    """
    given_up = set()
    for manifest in manifests:
        newest_merged = merged.get(manifest.region_id, 0)
        if is_given_up(manifest, newest_merged):
            given_up.add(manifest.region_id)
        check_listed(table, manifest, newest_merged)
        if is_restarted(manifest, newest_merged):
            # As a rule, it was flushed and merged since the manifest was read.
            newest = read_latest_manifest(table, manifest.region_id, cached=manifest)
            if newest is not None:
                check_not_restarted(table, newest, newest_merged)
    return frozenset(given_up)


def check_listed(table: Storage, manifest: RegionManifest, merged: int) -> None:
    """Refuse a region that has lost generations that the base table does not contain.

    Args:
        table: its directory, for messages.
        manifest: read before the base version: one that is read later may have less to list.
        merged: newest generation that the base version contains; 0 for none.

    Raises:
        RegionMismatchError: one is flushed, not merged and not listed.
    """
    flushed = range(merged + 1, manifest.current_generation)
    if not flushed:
        return
    unmerged = manifest.unmerged_generations(merged) if merged else manifest.flushed_generations
    listed = [generation.generation for generation in unmerged]
    if len(listed) >= len(flushed):
        return
    gone = ", ".join(str(generation) for generation in flushed if generation not in listed)
    msg = (
        f"{table.uri}: the base table contains generations up to {merged} of region {manifest.region_id}, "
        f"and generations {gone} are gone. If a version of the base table was restored from before they were "
        "merged and cleaned up, restore the newest version that contains them (system.versions lists "
        "versions); CREATE TABLE .. AS SELECT .. FOR VERSION AS OF makes a table of an older one. If not, a "
        "flush of Lance's writer failed, and their rows are in the log alone"
    )
    raise RegionMismatchError(msg)
