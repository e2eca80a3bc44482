"""Excludes the regions in which no row satisfies the conditions of a scan in the plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from datafusion import Expr

from lance_gateway.memwal.base.index_details import RegionSpec
from lance_gateway.memwal.transforms.determinism import is_deterministic
from lance_gateway.planner.predicates.pruning import Outcome, Pruning, RegionAssignment, RegionAssignments
from lance_gateway.planner.predicates.region_fields import SpecField
from lance_gateway.planner.scans.pruning.plan_conditions import Condition, PlanConditions
from lance_gateway.planner.scans.pruning.region_values import list_sources, read_region_values, tells_of_rows
from lance_gateway.planner.scans.pruning.scalars import Ends, list_columns
from lance_gateway.planner.scans.pruning.spans import Flags
from lance_gateway.planner.scans.pruning.truths import read_truth

_MAX_TEXT = 160


@dataclass(frozen=True, eq=False)
class ScannedTable:
    """The table of a scan.

    Attributes:
        reference: its private name in the plan.
        schema: its columns.
        specs: its region specs.
        fields: Lance field id -> column.
    """

    reference: str
    schema: pa.Schema
    specs: tuple[RegionSpec, ...]
    fields: Mapping[int, pa.Field]


@dataclass(frozen=True, eq=False, slots=True)
class _Decided:
    """What was decided of a table.

    Attributes:
        regions: of the table.
        table: as it was.
        excluded: id of a region -> a condition that none of its rows satisfies.
    """

    regions: RegionAssignments
    table: ScannedTable
    excluded: Mapping[str, Condition]

    def is_of(self, regions: RegionAssignments, table: ScannedTable) -> bool:
        """Return whether the same would be decided again."""
        ours = self.table
        return (
            self.regions is regions
            and ours.specs == table.specs
            and ours.schema.equals(table.schema)
            and ours.fields == table.fields
        )


def prune_by_conditions(
    pruning: Pruning, conditions: PlanConditions, table: ScannedTable, scans: int
) -> Pruning:
    """Exclude regions without rows that the conditions of a plan hold for.

    Args:
        pruning: what is left of the regions.
        conditions: of the plan.
        table: of the scan.
        scans: how many scans of the reference there are; the plan must show all of them.
    """
    places = conditions.places.get(table.reference, ())
    if not places or len(places) != scans or len(pruning.regions.regions) < 2:
        return pruning
    found = conditions.decided.get(table.reference)
    if not isinstance(found, _Decided) or not found.is_of(pruning.regions, table):
        found = _Decided(pruning.regions, table, dict(_find_excluded(pruning.regions, places, table)))
        conditions.decided[table.reference] = found
    excluded = found.excluded
    kept = tuple(one for one in pruning.kept if one not in excluded)
    if len(kept) == len(pruning.kept):
        return pruning

    def explain(region: RegionAssignment) -> tuple[Outcome, str]:
        outcome, reason = pruning.explain(region)
        condition = excluded.get(region.region_id)
        if outcome is Outcome.ROWS_CANNOT_MATCH or condition is None:
            return outcome, reason
        return Outcome.ROWS_CANNOT_MATCH, _explain(region, condition, table)

    return Pruning(pruning.regions, kept, explain)


def _find_excluded(
    regions: RegionAssignments, places: Sequence[Sequence[Condition]], table: ScannedTable
) -> Iterator[tuple[str, Condition]]:
    """Yield the regions that the conditions of every place exclude, each with one of the conditions."""
    for spec in table.specs:
        positions = regions.by_spec.get(spec.spec_id, ())
        if not positions or not tells_of_rows(spec):
            continue
        try:
            by_place = [_find_excluding(regions, spec, conditions, table) for conditions in places]
        except pa.ArrowException:
            continue  # of some types, Arrow can't compare values
        for place, at in enumerate(positions):
            excluding = [found[place] for found in by_place]
            first = excluding[0]
            if first is not None and None not in excluding:
                yield regions.region_ids[at], first


def _find_excluding(
    regions: RegionAssignments, spec: RegionSpec, conditions: Sequence[Condition], table: ScannedTable
) -> list[Condition | None]:
    """Return, for each region of a spec, a condition that none of its rows satisfies."""
    count = len(regions.by_spec[spec.spec_id])
    known = read_region_values(regions, spec, tuple(list_sources(spec, table.fields)))
    sources, ends = known.sources, Ends(table.reference, table.schema, known, count)
    readings = [
        (condition, read_truth(ends, condition.expression, condition.definitions))
        for condition in conditions
        if not sources.isdisjoint(list_columns(condition.expression, condition.definitions))
        and _is_stable(condition)
    ]
    excluding: list[Condition | None] = [None] * count
    if not readings:
        return excluding
    values = ends.evaluate()
    for condition, read in readings:
        possible: Flags = read(values).true
        for at in np.flatnonzero(~possible).tolist():
            excluding[at] = excluding[at] or condition
    return excluding


def _is_stable(condition: Condition) -> bool:
    """Return whether a condition and the columns that it reads give the same whenever they are evaluated."""
    expressions = (condition.expression, *condition.definitions.values())
    return all(is_deterministic(Expr(one)) for one in expressions)


def _explain(region: RegionAssignment, condition: Condition, table: ScannedTable) -> str:
    (spec,) = (one for one in table.specs if one.spec_id == region.spec_id)
    fields = [SpecField(one, table.fields) for one in spec.fields]
    recorded = ", ".join(field.decode(region.values.get(field.name))[1] for field in fields)
    text = str(Expr(condition.expression).canonical_name()).replace(f"{table.reference}.", "")
    shown = text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
    return f"{recorded} excludes {shown}, read from the plan"
