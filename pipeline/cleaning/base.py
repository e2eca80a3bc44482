"""What the newest version of a base table has merged and indexed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from memwal.base.index_details import MEM_WAL_INDEX, MemWalIndexDetails, read_index_details
from memwal.regions.manifest import list_regions
from pipeline.cleaning.past import Past
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.state import NoMemWalError


@dataclass(frozen=True, slots=True)
class Base:
    """What is known of a base table; read before the manifests of regions: what it has merged stays merged.

    Attributes:
        merged: region id -> newest generation that the newest version contains.
        lagging: name of a maintained index that does not cover the whole table -> region id -> newest
            generation that it covers.
        past: versions that are kept.
    """

    merged: Mapping[str, int]
    lagging: Mapping[str, Mapping[str, int]]
    past: Past

    def lagging_index(self, region_id: str, generation: int) -> str | None:
        """A maintained index that lacks rows of a merged generation; None where none does."""
        lacking = (name for name, covered in self.lagging.items() if covered.get(region_id, 0) < generation)
        return next(lacking, None)

    def still(self, table: LakeTable) -> Base:
        """The same, with what is merged and indexed by now.

        Raises:
            LanceGatewayError: as `read_base`.
        """
        merged, lagging = _progress(table)
        return replace(self, merged=merged, lagging=lagging)


def read_base(table: LakeTable, past: Past) -> Base:
    """Look at a base table.

    Raises:
        NoMemWalError: it has no MemWAL.
        LanceGatewayError: it can't be read.
    """
    return Base(*_progress(table), past)


def _progress(table: LakeTable) -> tuple[Mapping[str, int], Mapping[str, Mapping[str, int]]]:
    dataset = table.dataset()
    details = read_index_details(table.storage, dataset.version)
    if details is None and (left := list_regions(table.storage)):
        msg = (
            f"table {table.name!r} has no MemWAL, but {len(left)} regions of an earlier one, such as "
            f"{left[0]}. ALTER TABLE {table.name} SET (memwal = true, discard_regions = true) through a "
            "gateway gives them up, and what no version needs of them is cleaned up from then on"
        )
        raise NoMemWalError(msg)
    if details is None:
        msg = (
            f"table {table.name!r} has no MemWAL, and so nothing to clean here: Lance's own "
            "cleanup_old_versions() removes old versions of plain tables"
        )
        raise NoMemWalError(msg)
    return details.merged_generations, _lagging(dataset, details)


def _lagging(dataset: Any, details: MemWalIndexDetails) -> dict[str, Mapping[str, int]]:  # noqa: ANN401
    """Indexes that lack fragments: those that cover all of them have whatever was merged.

    Progress by generation is lost when the table is compacted, so it is only asked for what is lacking.
    """
    fragments = {one.fragment_id for one in dataset.get_fragments()}
    found = {}
    for index in dataset.describe_indices():
        is_maintained = details.maintain_all_indexes or index.name in details.maintained_indexes
        if index.name == MEM_WAL_INDEX or not is_maintained:
            continue
        covered = {one for segment in index.segments for one in segment.fragment_ids}
        if not fragments <= covered:
            found[index.name] = details.index_catchup.get(index.name, {})
    return found
