"""Which regions a scan looks at, and which it needs beside those that may have matching rows."""

from __future__ import annotations

from lance_gateway.planner.predicates.pruning import Pruning, RegionAssignments
from lance_gateway.planner.scans.settings import SessionSettings, Shortcut
from lance_gateway.planner.tables.sources.base_table import BaseTable

FEW_REGIONS = 8
"""For a point lookup in so few regions, asking their key filters is quicker than evaluating region specs."""


def find_reason_not_to_prune(
    settings: SessionSettings, regions: RegionAssignments, *, looks_up: bool, has_conditions: bool
) -> str:
    """Return why no region is excluded by what the scan is asked for; "" if some may be.

    Args:
        settings: of the session.
        regions: of the table.
        looks_up: whether the scan looks up given keys.
        has_conditions: on stored rows.
    """
    if not settings.region_pruning or Shortcut.REGION_PRUNING not in settings.shortcuts:
        return "region pruning is off"
    if looks_up:
        return "few regions, key filters decide" if len(regions.regions) <= FEW_REGIONS else ""
    return "" if has_conditions else "no predicate"


def list_needed_regions(base: BaseTable, pruning: Pruning) -> tuple[str, ...]:
    """Return the ids of the regions that are read, and of those that may supersede their rows.

    A pruned region has no matching row. But where its value is derived from more than the key, the base table
    may have an older version of one of its rows that does match.
    """
    regions = pruning.regions
    needed = {spec_id for spec_id in regions.by_spec if not _is_determined_by_key(base, spec_id)}
    if not needed:
        return pruning.kept
    kept = frozenset(pruning.kept)
    return tuple(
        region.region_id for region in regions.regions if region.spec_id in needed or region.region_id in kept
    )


def _is_determined_by_key(base: BaseTable, spec_id: int) -> bool:
    """Return whether the primary key alone determines the region of a row of this spec."""
    spec = None if base.details is None else base.details.specs.get(spec_id)
    if spec is None:
        return False
    sources = {source for field in spec.fields for source in field.source_ids}
    return all(base.field_names.get(source) in base.primary_key for source in sources)
