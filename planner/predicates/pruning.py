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

from memwal.base.index_details import RegionSpec
from memwal.regions.manifest import RegionManifest
from memwal.regions.region_ids import find_duplicate_regions, infer_region_values
from memwal.regions.region_snapshots import RegionSnapshot
from planner.predicates.predicate import Predicate, describe
from planner.predicates.region_fields import FieldSet, SpecField, recorded_keys
from planner.predicates.value_sets import boxes_of

__all__ = [
    "Keys",
    "Pruning",
    "RecordedValues",
    "RegionAssignment",
    "RegionAssignments",
    "RegionVerdict",
    "Verdict",
    "all_regions",
    "prune_regions",
]

Keys: TypeAlias = tuple[Any, ...]
"""What a recorded value may stand for, as `order_key`s: one as a rule, none where that is unknown."""


@dataclass(frozen=True, slots=True)
class RegionAssignment:
    """What is known of a region: its spec and the raw value per field, by the field's name."""

    region_id: str
    spec_id: int
    values: Mapping[str, bytes]


@dataclass(frozen=True, eq=False)
class RegionAssignments:
    """All regions of a table, in the order in which they are listed. Positions below count from 0 in it.

    Attributes:
        regions: what is known of each.
        has_doubles: whether two of them are one, under two ids.
    """

    regions: tuple[RegionAssignment, ...] = ()
    has_doubles: bool = False
    _recorded: dict[RegionSpec, RecordedValues] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(
        sources: Iterable[RegionManifest | RegionSnapshot],
        specs: Iterable[RegionSpec] = (),
        found: Mapping[str, Mapping[str, bytes]] = MappingProxyType({}),
    ) -> RegionAssignments:
        """What these manifests, or the MemWAL index's snapshots of them, record, or what their ids stand for.

        Args:
            sources: one for each region.
            specs: of the table.
            found: region id -> values that were found out otherwise, where the manifest records none.
        """
        by_id, every = {one.spec_id: one for one in specs}, tuple(sources)

        def values(one: RegionManifest | RegionSnapshot) -> Mapping[str, bytes]:
            if one.region_values:
                return one.region_values
            spec = by_id.get(one.region_spec_id)
            return found.get(one.region_id) or (
                {} if spec is None else infer_region_values(spec, one.region_id)
            )

        return RegionAssignments(
            tuple(RegionAssignment(one.region_id, one.region_spec_id, values(one)) for one in every),
            has_doubles=bool(find_duplicate_regions(by_id.values(), every)),
        )

    @cached_property
    def region_ids(self) -> tuple[str, ...]:
        """Ids, in order."""
        return tuple(one.region_id for one in self.regions)

    @cached_property
    def by_spec(self) -> Mapping[int, tuple[int, ...]]:
        """Spec id -> positions of the regions that have it."""
        found: dict[int, list[int]] = {}
        for at, region in enumerate(self.regions):
            found.setdefault(region.spec_id, []).append(at)
        return {spec_id: tuple(positions) for spec_id, positions in found.items()}

    def recorded(self, spec: RegionSpec) -> RecordedValues:
        """The values that the regions of one spec record; indexed on first use."""
        found = self._recorded.get(spec)
        if found is None:
            positions = self.by_spec.get(spec.spec_id, ())
            found = RecordedValues(spec, ((at, self.regions[at].values) for at in positions))
            self._recorded[spec] = found
        return found


class RecordedValues:
    """Regions of one spec by what they record; fields are counted from 0, as the spec lists them.

    Args:
        spec: names the fields.
        regions: position and recorded values of each region.
    """

    def __init__(self, spec: RegionSpec, regions: Iterable[tuple[int, Mapping[str, bytes]]]) -> None:
        self._regions: dict[tuple[Keys, ...], list[int]] = {}
        self._by_fields: dict[tuple[int, ...], tuple[dict[Keys, list[int]], list[int]]] = {}
        for at, values in regions:
            keys = tuple([recorded_keys(one, values.get(one.field_id)) for one in spec.fields])
            self._regions.setdefault(keys, []).append(at)

    def __iter__(self) -> Iterator[tuple[tuple[Keys, ...], list[int]]]:
        """Each distinct combination of recorded values, by field, and the positions of its regions."""
        return iter(self._regions.items())

    def having(self, fields: tuple[int, ...], combinations: AbstractSet[Keys]) -> Iterator[int]:
        """Positions of the regions whose values of some fields are, or for all one knows may be, listed."""
        found = self._by_fields.get(fields)
        if found is None:
            found = self._by_fields[fields] = self._indexed(fields)
        known, unknown = found
        yield from unknown
        for combination in known.keys() & combinations:
            yield from known[combination]

    def _indexed(self, fields: tuple[int, ...]) -> tuple[dict[Keys, list[int]], list[int]]:
        known: dict[Keys, list[int]] = {}
        unknown: list[int] = []
        for keys, positions in self._regions.items():
            chosen = [keys[one] for one in fields]
            if () in chosen:
                unknown += positions
            for combination in product(*chosen):
                known.setdefault(combination, []).extend(positions)
        return known, unknown


_MAX_TEXT: Final = 160
# Alternatives that list up to this many combinations of field values become members of one set.
_MAX_COMBINATIONS: Final = 1_000


class Verdict(Enum):
    """What is known about a region before any of it is read."""

    ROWS_MIGHT_MATCH = "rows might match"
    ROWS_CANNOT_MATCH = "rows cannot match"


@dataclass(frozen=True, slots=True)
class RegionVerdict:
    """A verdict and why; `reason` names the predicate and the field."""

    region_id: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, eq=False)
class Pruning:
    """What pruning leaves of a table's regions.

    Attributes:
        regions: all of them.
        kept: ids of those that may hold matching rows, in the order of `regions`.
    """

    regions: RegionAssignments
    kept: tuple[str, ...]
    _judge: Callable[[RegionAssignment], tuple[Verdict, str]]

    @cached_property
    def verdicts(self) -> tuple[RegionVerdict, ...]:
        """One verdict per region, in their order; only those who ask for reasons pay for them."""
        return tuple(RegionVerdict(one.region_id, *self._judge(one)) for one in self.regions.regions)


def all_regions(regions: RegionAssignments, reason: str) -> Pruning:
    """Keeps every region, for one reason."""
    return Pruning(regions, regions.region_ids, lambda _: (Verdict.ROWS_MIGHT_MATCH, reason))


def prune_regions(
    predicate: Predicate,
    specs: Sequence[RegionSpec],
    regions: RegionAssignments,
    fields: Mapping[int, pa.Field],
) -> Pruning:
    """Judges every region.

    Args:
        predicate: What the wanted rows satisfy.
        specs: All region specs of the table.
        regions: The regions, of whichever specs.
        fields: Lance field id -> current column, by which specs name their source columns.
    """
    judges = {
        spec.spec_id: _SpecJudge(spec, predicate, fields) for spec in specs if spec.spec_id in regions.by_spec
    }
    kept: set[int] = set()
    for spec_id, positions in regions.by_spec.items():
        judge = judges.get(spec_id)
        kept.update(positions if judge is None else judge.kept(regions.recorded(judge.spec)))

    def verdict(region: RegionAssignment) -> tuple[Verdict, str]:
        judge = judges.get(region.spec_id)
        if judge is not None:
            return judge.verdict(region.values)
        kind = "no region spec" if region.spec_id == 0 else f"unknown region spec {region.spec_id}"
        return Verdict.ROWS_MIGHT_MATCH, kind

    return Pruning(regions, tuple([regions.region_ids[at] for at in sorted(kept)]), verdict)


def _shortened(text: str) -> str:  # pragma: no mutate block, what is shown decides nothing
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


class _SpecJudge:
    """Judges regions of one spec: admissible values are computed once, and looked up among recorded ones."""

    def __init__(self, spec: RegionSpec, predicate: Predicate, columns: Mapping[int, pa.Field]) -> None:
        self.spec = spec
        self._predicate = predicate
        self._fields = [SpecField(one, columns) for one in spec.fields]
        boxes = boxes_of(predicate, frozenset(name for one in self._fields for name in one.columns))
        self._is_possible = bool(boxes)
        # Combinations of values of the same fields (by position), and alternatives that are no such lists.
        self._listed: dict[tuple[int, ...], set[Keys]] = {}
        self._others: list[dict[int, FieldSet]] = []
        by_field = [one.admissible(boxes) for one in self._fields]
        for at in range(len(boxes)):
            self._add({i: one for i, known in enumerate(by_field) if (one := known[at]) is not None})

    @cached_property
    def _text(self) -> str:
        return _shortened(describe(self._predicate))

    def _add(self, alternative: dict[int, FieldSet]) -> None:
        lists = [one.keys for one in alternative.values() if one.keys is not None]
        size = 1
        for keys in lists:
            size *= len(keys)
        if alternative and len(lists) == len(alternative) and (len(lists) == 1 or size <= _MAX_COMBINATIONS):
            self._listed.setdefault(tuple(alternative), set()).update(product(*lists))
        elif alternative not in self._others:
            self._others.append(alternative)

    def kept(self, recorded: RecordedValues) -> set[int]:
        """The positions of regions that may hold matching rows; agrees with `verdict` on each of them."""
        found: set[int] = set()
        for fields, combinations in self._listed.items():
            found.update(recorded.having(fields, combinations))
        if self._others:
            for keys, positions in recorded:
                for alternative in self._others:
                    if _excluding(alternative, keys) is None:
                        found.update(positions)
                        break
        return found

    def verdict(self, values: Mapping[str, bytes]) -> tuple[Verdict, str]:
        """The verdict for a region that records these values, and its reason."""
        if not self._is_possible:
            return Verdict.ROWS_CANNOT_MATCH, f"{self._text} is never true"
        recorded = [one.recorded(values.get(one.name)) for one in self._fields]
        keys = [one for one, _ in recorded]
        decisive: set[int] = set()
        for fields, combinations in self._listed.items():
            chosen = [keys[i] for i in fields]
            if () in chosen or not combinations.isdisjoint(product(*chosen)):
                return Verdict.ROWS_MIGHT_MATCH, self._kept(recorded, fields)
            decisive.update(fields)
        for alternative in self._others:
            excluding = _excluding(alternative, keys)
            if excluding is None:
                return Verdict.ROWS_MIGHT_MATCH, self._kept(recorded, tuple(alternative))
            decisive.add(excluding)
        texts = ", ".join([recorded[i][1] for i in sorted(decisive)])
        return Verdict.ROWS_CANNOT_MATCH, f"{texts} excludes {self._text}"

    # pragma: no mutate start, what is shown decides nothing about rows
    def _kept(self, recorded: Sequence[tuple[Keys, str]], fields: Sequence[int]) -> str:
        """Why a region stays: a value that is unknown, a field that cannot be used, or a value that fits."""
        unknown = [recorded[i][1] for i in fields if not recorded[i][0]]
        if unknown:
            return "; ".join(unknown)
        if fields:
            return f"{', '.join(recorded[i][1] for i in fields)} admits {self._text}"
        trouble = [one.trouble for one in self._fields if one.trouble]
        if trouble:
            return _shortened("; ".join(trouble))
        texts = ", ".join(one.text for one in self._fields)
        return f"{self._text} does not restrict {texts}" if texts else "the region spec has no fields"

    # pragma: no mutate end


def _excluding(alternative: Mapping[int, FieldSet], keys: Sequence[Keys]) -> int | None:
    """The first field whose recorded value an alternative does not admit; None if it admits them all."""
    for i, admissible in alternative.items():
        if keys[i] and not any(map(admissible.admits, keys[i])):
            return i
    return None
