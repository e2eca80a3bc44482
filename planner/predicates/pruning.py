"""Region pruning: which regions cannot hold a row that satisfies a predicate.

A region records what its rows have in common: one value per field of its region spec, such as
`bucket(id, 4) = 3`. The predicate gives values that columns can have; a field's transform turns those into
values that the field can have. A region whose recorded value is none of them has no matching row.

    predicate   id IN (7, 12)        bucket(id, 4): {1, 3}        regions 0 and 2 are pruned
    predicate   d < '2025-01-01'     year(d): up to 2024          regions from 2025 on are pruned

Whatever is unknown (no recorded value, another spec, a transform of a later version) keeps the region.

A region's values never change, so an index over them (`RegionAssignments`) serves every query until regions
come or go: what a query pays for is the values that it admits, not the regions that the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lance_gateway.memwal.base.index_details import RegionSpec
from lance_gateway.memwal.regions.manifest import RegionManifest
from lance_gateway.memwal.regions.region_ids import infer_region_values
from lance_gateway.memwal.regions.region_snapshots import RegionSnapshot
from lance_gateway.planner.predicates.predicate import Predicate, describe
from lance_gateway.planner.predicates.region_fields import FieldSet, SpecField, decode_recorded_keys
from lance_gateway.planner.predicates.value_sets import find_boxes

Keys: TypeAlias = tuple[Any, ...]
"""What a recorded value may stand for, as `order_key`s: one as a rule, none where that is unknown."""


@dataclass(frozen=True, slots=True)
class RegionAssignment:
    """Spec of a region, and its raw values by the names of the spec's fields."""

    region_id: str
    spec_id: int
    values: Mapping[str, bytes]


@dataclass(frozen=True, eq=False)
class RegionAssignments:
    """All regions of a table, in the order in which they are listed; positions count from 0.

    Attributes:
        regions: their specs and values.
    """

    regions: tuple[RegionAssignment, ...] = ()
    _recorded: dict[RegionSpec, RecordedValues] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(
        sources: Iterable[RegionManifest | RegionSnapshot],
        specs: Iterable[RegionSpec] = (),
        found: Mapping[str, Mapping[str, bytes]] = MappingProxyType({}),
    ) -> RegionAssignments:
        """Read the assignments from manifests or index snapshots, or from the regions' ids.

        Args:
            sources: one for each region.
            specs: of the table.
            found: region id -> values that were found out otherwise, where the manifest records none.
        """
        by_id = {spec.spec_id: spec for spec in specs}

        def values(one: RegionManifest | RegionSnapshot) -> Mapping[str, bytes]:
            if one.region_values:
                return one.region_values
            spec = by_id.get(one.region_spec_id)
            return found.get(one.region_id) or (
                {} if spec is None else infer_region_values(spec, one.region_id)
            )

        return RegionAssignments(
            tuple(RegionAssignment(one.region_id, one.region_spec_id, values(one)) for one in sources)
        )

    @cached_property
    def region_ids(self) -> tuple[str, ...]:
        """Ids, in order."""
        return tuple(region.region_id for region in self.regions)

    @cached_property
    def by_spec(self) -> Mapping[int, tuple[int, ...]]:
        """Spec id -> positions of its regions."""
        found: dict[int, list[int]] = {}
        for at, region in enumerate(self.regions):
            found.setdefault(region.spec_id, []).append(at)
        return {spec_id: tuple(positions) for spec_id, positions in found.items()}

    def find_recorded_values(self, spec: RegionSpec) -> RecordedValues:
        """Return the values that the regions of one spec record, indexed on first use."""
        found = self._recorded.get(spec)
        if found is None:
            positions = self.by_spec.get(spec.spec_id, ())
            found = RecordedValues(spec, ((at, self.regions[at].values) for at in positions))
            self._recorded[spec] = found
        return found


class RecordedValues:
    """Index of the regions of one spec by their recorded values; fields count from 0.

    Args:
        spec: names the fields.
        regions: position and recorded values of each region.
    """

    def __init__(self, spec: RegionSpec, regions: Iterable[tuple[int, Mapping[str, bytes]]]) -> None:
        self._regions: dict[tuple[Keys, ...], list[int]] = {}
        self._by_fields: dict[tuple[int, ...], tuple[dict[Keys, list[int]], list[int]]] = {}
        for at, values in regions:
            keys = tuple([decode_recorded_keys(field, values.get(field.field_id)) for field in spec.fields])
            self._regions.setdefault(keys, []).append(at)

    def __iter__(self) -> Iterator[tuple[tuple[Keys, ...], list[int]]]:
        """Iterate over the distinct combinations of values, with the positions of their regions."""
        return iter(self._regions.items())

    def find_regions(self, fields: tuple[int, ...], combinations: AbstractSet[Keys]) -> Iterator[int]:
        """Yield positions of regions whose values of some fields are among the combinations, or unknown."""
        found = self._by_fields.get(fields)
        if found is None:
            found = self._by_fields[fields] = self._build_index(fields)
        known, unknown = found
        yield from unknown
        for combination in known.keys() & combinations:
            yield from known[combination]

    def _build_index(self, fields: tuple[int, ...]) -> tuple[dict[Keys, list[int]], list[int]]:
        known: dict[Keys, list[int]] = {}
        unknown: list[int] = []
        for keys, positions in self._regions.items():
            chosen = [keys[place] for place in fields]
            if () in chosen:
                unknown += positions
            for combination in product(*chosen):
                known.setdefault(combination, []).extend(positions)
        return known, unknown


_MAX_TEXT: Final = 160
# Alternatives that list up to this many combinations of field values become members of one set.
_MAX_COMBINATIONS: Final = 1_000


class Outcome(Enum):
    """Result of pruning for a region, known before any of it is read."""

    ROWS_MIGHT_MATCH = "rows might match"
    ROWS_CANNOT_MATCH = "rows cannot match"


@dataclass(frozen=True, slots=True)
class RegionOutcome:
    """Outcome for a region, with a reason that names the predicate and the field."""

    region_id: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, eq=False)
class Pruning:
    """Regions of a table that are left after pruning.

    Attributes:
        regions: all of them.
        kept: ids of those that may hold matching rows, in the order of `regions`.
        explain: returns the outcome of a region, and why.
    """

    regions: RegionAssignments
    kept: tuple[str, ...]
    explain: Callable[[RegionAssignment], tuple[Outcome, str]]

    @cached_property
    def outcomes(self) -> tuple[RegionOutcome, ...]:
        """One outcome per region, in order; computed only for those who ask for reasons."""
        return tuple(
            RegionOutcome(region.region_id, *self.explain(region)) for region in self.regions.regions
        )


def prune_regions(
    predicate: Predicate,
    specs: Sequence[RegionSpec],
    regions: RegionAssignments,
    fields: Mapping[int, pa.Field],
) -> Pruning:
    """Find the regions that may hold rows that satisfy a predicate.

    Args:
        predicate: What the wanted rows satisfy.
        specs: All region specs of the table.
        regions: The regions, of whichever specs.
        fields: Lance field id -> current column, by which specs name their source columns.
    """
    pruners = {
        spec.spec_id: _SpecPruner(spec, predicate, fields)
        for spec in specs
        if spec.spec_id in regions.by_spec
    }
    kept: set[int] = set()
    for spec_id, positions in regions.by_spec.items():
        pruner = pruners.get(spec_id)
        kept.update(
            positions if pruner is None else pruner.find_matching(regions.find_recorded_values(pruner.spec))
        )

    def evaluate(region: RegionAssignment) -> tuple[Outcome, str]:
        pruner = pruners.get(region.spec_id)
        if pruner is not None:
            return pruner.evaluate(region.values)
        kind = "no region spec" if region.spec_id == 0 else f"unknown region spec {region.spec_id}"
        return Outcome.ROWS_MIGHT_MATCH, kind

    return Pruning(regions, tuple([regions.region_ids[at] for at in sorted(kept)]), evaluate)


def _truncate(text: str) -> str:  # pragma: no mutate block, what is shown decides nothing
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


class _SpecPruner:
    """Prune regions of one spec: admissible values are computed once and looked up among recorded ones."""

    def __init__(self, spec: RegionSpec, predicate: Predicate, columns: Mapping[int, pa.Field]) -> None:
        self.spec = spec
        self._predicate = predicate
        self._fields = [SpecField(field, columns) for field in spec.fields]
        boxes = find_boxes(predicate, frozenset(name for field in self._fields for name in field.columns))
        self._is_possible = bool(boxes)
        # Combinations of values of the same fields (by position), and alternatives that are no such lists.
        self._combinations: dict[tuple[int, ...], set[Keys]] = {}
        self._others: list[dict[int, FieldSet]] = []
        by_field = [field.compute_field_sets(boxes) for field in self._fields]
        for at in range(len(boxes)):
            self._add({i: one for i, known in enumerate(by_field) if (one := known[at]) is not None})

    @cached_property
    def _text(self) -> str:
        return _truncate(describe(self._predicate))

    def _add(self, alternative: dict[int, FieldSet]) -> None:
        lists = [one.keys for one in alternative.values() if one.keys is not None]
        size = 1
        for keys in lists:
            size *= len(keys)
        if alternative and len(lists) == len(alternative) and (len(lists) == 1 or size <= _MAX_COMBINATIONS):
            self._combinations.setdefault(tuple(alternative), set()).update(product(*lists))
        elif alternative not in self._others:
            self._others.append(alternative)

    def find_matching(self, recorded: RecordedValues) -> set[int]:
        """Return the positions of regions that may hold matching rows, consistently with `evaluate`."""
        found: set[int] = set()
        for fields, combinations in self._combinations.items():
            found.update(recorded.find_regions(fields, combinations))
        if self._others:
            for keys, positions in recorded:
                for alternative in self._others:
                    if _find_excluding_field(alternative, keys) is None:
                        found.update(positions)
                        break
        return found

    def evaluate(self, values: Mapping[str, bytes]) -> tuple[Outcome, str]:
        """Return the outcome for a region that records these values, and its reason."""
        if not self._is_possible:
            return Outcome.ROWS_CANNOT_MATCH, f"{self._text} is never true"
        recorded = [field.decode(values.get(field.name)) for field in self._fields]
        keys = [one for one, _ in recorded]
        decisive: set[int] = set()
        for fields, combinations in self._combinations.items():
            chosen = [keys[i] for i in fields]
            if () in chosen or not combinations.isdisjoint(product(*chosen)):
                return Outcome.ROWS_MIGHT_MATCH, self._explain_match(recorded, fields)
            decisive.update(fields)
        for alternative in self._others:
            excluding = _find_excluding_field(alternative, keys)
            if excluding is None:
                return Outcome.ROWS_MIGHT_MATCH, self._explain_match(recorded, tuple(alternative))
            decisive.add(excluding)
        texts = ", ".join([recorded[i][1] for i in sorted(decisive)])
        return Outcome.ROWS_CANNOT_MATCH, f"{texts} excludes {self._text}"

    # pragma: no mutate start, what is shown decides nothing about rows
    def _explain_match(self, recorded: Sequence[tuple[Keys, str]], fields: Sequence[int]) -> str:
        """Return why a region is kept: an unknown value, an unusable field, or a value that matches."""
        unknown = [recorded[i][1] for i in fields if not recorded[i][0]]
        if unknown:
            return "; ".join(unknown)
        if fields:
            return f"{', '.join(recorded[i][1] for i in fields)} admits {self._text}"
        problem = [field.problem for field in self._fields if field.problem]
        if problem:
            return _truncate("; ".join(problem))
        texts = ", ".join(field.text for field in self._fields)
        return f"{self._text} does not restrict {texts}" if texts else "the region spec has no fields"

    # pragma: no mutate end


def _find_excluding_field(alternative: Mapping[int, FieldSet], keys: Sequence[Keys]) -> int | None:
    """Return the first field whose recorded value an alternative excludes; None if it excludes none."""
    for i, admissible in alternative.items():
        if keys[i] and not any(map(admissible.has_value, keys[i])):
            return i
    return None
