"""Region pruning: which regions cannot hold a row that satisfies a predicate.

A region records what its rows have in common: one value per field of its region spec, such as
`bucket(id, 4) = 3`. The predicate gives values that columns can have; a field's transform turns those into
values that the field can have. A region whose recorded value is none of them has no matching row.

    predicate   id IN (7, 12)        bucket(id, 4): {1, 3}        regions 0 and 2 are pruned
    predicate   d < '2025-01-01'     year(d): up to 2024          regions from 2025 on are pruned

Whatever is unknown (no recorded value, another spec, a transform of a later version) keeps the region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import product
from typing import Final

import pyarrow as pa

from memwal.base.index_details import RegionSpec
from planner.predicates.predicate import Predicate, describe
from planner.predicates.region_assignments import Keys, RecordedValues, RegionAssignment, RegionAssignments
from planner.predicates.region_fields import FieldSet, SpecField
from planner.predicates.value_sets import boxes_of

__all__ = ["Pruning", "RegionVerdict", "Verdict", "all_regions", "prune_regions"]

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
    text = _shortened(describe(predicate))
    judges = {
        spec.spec_id: _SpecJudge(spec, predicate, text, fields)
        for spec in specs
        if spec.spec_id in regions.by_spec
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

    def __init__(
        self, spec: RegionSpec, predicate: Predicate, text: str, columns: Mapping[int, pa.Field]
    ) -> None:
        self.spec = spec
        self._text = text
        self._fields = [SpecField(one, columns) for one in spec.fields]
        boxes = boxes_of(predicate, frozenset(name for one in self._fields for name in one.columns))
        self._is_possible = bool(boxes)
        # Combinations of values of the same fields (by position), and alternatives that are no such lists.
        self._listed: dict[tuple[int, ...], set[Keys]] = {}
        self._others: list[dict[int, FieldSet]] = []
        by_field = [one.admissible(boxes) for one in self._fields]
        for at in range(len(boxes)):
            self._add({i: one for i, known in enumerate(by_field) if (one := known[at]) is not None})

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
