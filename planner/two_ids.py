"""Regions that LanceDB named: which values they have, and whether one has a second id.

LanceDB's way of naming regions is that of `memwal.region_ids`. A table that was written before this project
knew it may have one region under two ids. Which of two rows of a key is the newer one is then not recorded,
so the table is not read until `lance-gateway pipeline merge` has found out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from memwal.errors import PreconditionError
from memwal.index_details import MemWalIndexDetails, RegionSpec
from memwal.manifest import RegionManifest
from memwal.region_ids import doubles, is_retired, may_be_identity, two_ids
from memwal.region_rows import known_values
from memwal.storage import Storage
from planner.known_state import KnownState


def named_values(
    storage: Storage, kept: KnownState, specs: Sequence[RegionSpec], manifests: Sequence[RegionManifest]
) -> Mapping[str, Mapping[str, bytes]]:
    """Values of regions that record none, by region id, as far as a row of the region tells; read once.

    Args:
        storage: directory of the table.
        kept: what is known of the table; what is found is added.
        specs: of the table.
        manifests: of its regions.

    Raises:
        LanceGatewayError: a region can't be read.
    """
    by_id = {one.spec_id: one for one in specs}
    asked = [
        (spec, one)
        for one in manifests
        if not one.region_values
        and one.region_id not in kept.named
        and (spec := by_id.get(one.region_spec_id)) is not None
        and may_be_identity(spec, one.region_id)
    ]
    if asked:
        found = storage.each(lambda pair: known_values(storage, *pair), asked)
        kept.named |= {one.region_id: values for (_, one), values in zip(asked, found, strict=True) if values}
    return kept.named


def check_ids(
    name: str,
    kept: KnownState | None,
    details: MemWalIndexDetails,
    manifests: Mapping[str, RegionManifest | None],
    unflushed: Collection[str] = (),
) -> None:
    """Refuse to read a region that has rows under two ids.

    Args:
        name: of the table.
        kept: what is known of it; None where that is not kept.
        details: its MemWAL index.
        manifests: of the regions that are read.
        unflushed: ids of those that have rows in their logs.

    Raises:
        PreconditionError: one has.
    """
    if len(manifests) < 2:
        return
    for own_id, lancedb_id in _pairs(kept, details, manifests):
        own = manifests[own_id]
        merged = details.merged_generations.get(own_id, 0)
        if own is not None and (own_id in unflushed or not is_retired(own, merged)):
            raise PreconditionError(two_ids(f"table {name!r}", own_id, lancedb_id))


def _pairs(
    kept: KnownState | None, details: MemWalIndexDetails, manifests: Mapping[str, RegionManifest | None]
) -> tuple[tuple[str, str], ...]:
    """Ids of regions that have two: the other one, and LanceDB's. What regions record hardly ever changes."""
    asked = None if kept is None else (kept.recorded_state, details.region_specs, tuple(manifests))
    if kept is not None and kept.doubled[0] == asked:
        return kept.doubled[1]
    present = [one for one in manifests.values() if one is not None]
    found = tuple((one.region_id, other.region_id) for one, other in doubles(details.region_specs, present))
    if kept is not None:
        kept.doubled = asked, found
    return found
