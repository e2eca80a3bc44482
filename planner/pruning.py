"""Region pruning: which regions cannot hold a row that satisfies a predicate.

A region records what its rows have in common: one value per field of its region spec, such as
`bucket(id, 4) = 3`. The predicate gives values that columns can have; a field's transform turns those into
values that the field can have. A region whose recorded value is none of them has no matching row.

    predicate   id IN (7, 12)        bucket(id, 4): {1, 3}        regions 0 and 2 are pruned
    predicate   d < '2025-01-01'     year(d): up to 2024          regions from 2025 on are pruned

Whatever is unknown (no recorded value, another spec, a transform of a later version) keeps the region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any, Final

import pyarrow as pa

from memwal.index_details import RegionSpec
from planner.admissible import boxes_of
from planner.predicates import Predicate, describe
from planner.region_fields import FieldSet, SpecField

__all__ = ["RegionAssignment", "RegionVerdict", "Verdict", "prune_regions"]

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


@dataclass(frozen=True, slots=True)
class RegionAssignment:
    """What a region's manifest records: its spec and the raw value per field, by the field's name."""

    region_id: str
    spec_id: int
    values: Mapping[str, bytes]


def prune_regions(
    predicate: Predicate,
    specs: Sequence[RegionSpec],
    regions: Sequence[RegionAssignment],
    fields: Mapping[int, pa.Field],
) -> tuple[RegionVerdict, ...]:
    """Judges every region.

    Args:
        predicate: What the wanted rows satisfy.
        specs: All region specs of the table.
        regions: The regions, of whichever specs.
        fields: Lance field id -> current column, by which specs name their source columns.

    Returns:
        One verdict per region, in the given order.
    """
    by_id = {spec.spec_id: spec for spec in specs}
    judges: dict[int, _SpecJudge] = {}
    text = _shortened(describe(predicate))
    verdicts = []
    for region in regions:
        spec = by_id.get(region.spec_id)
        if spec is None:
            kind = "no region spec" if region.spec_id == 0 else f"unknown region spec {region.spec_id}"
            verdicts.append(RegionVerdict(region.region_id, Verdict.ROWS_MIGHT_MATCH, kind))
            continue
        judge = judges.get(spec.spec_id)
        if judge is None:
            judge = judges[spec.spec_id] = _SpecJudge(spec, predicate, text, fields)
        verdicts.append(RegionVerdict(region.region_id, *judge.verdict(region.values)))
    return tuple(verdicts)


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


class _SpecJudge:
    """Judges regions of one spec: admissible values are computed once, each region is a set test."""

    def __init__(
        self, spec: RegionSpec, predicate: Predicate, text: str, columns: Mapping[int, pa.Field]
    ) -> None:
        self._text = text
        self._fields = [SpecField(one, columns) for one in spec.fields]
        boxes = boxes_of(predicate, frozenset(name for one in self._fields for name in one.columns))
        self._is_possible = bool(boxes)
        # Combinations of values of the same fields (by position), and alternatives that are no such lists.
        self._listed: dict[tuple[int, ...], set[tuple[Any, ...]]] = {}
        self._others: list[dict[int, FieldSet]] = []
        by_field = [one.admissible(boxes) for one in self._fields]
        for at in range(len(boxes)):
            self._add({i: one for i, known in enumerate(by_field) if (one := known[at]) is not None})
        self._verdicts: dict[tuple[bytes | None, ...], tuple[Verdict, str]] = {}

    def verdict(self, values: Mapping[str, bytes]) -> tuple[Verdict, str]:
        """The verdict for the regions that record these values, and its reason."""
        if len(self._fields) == 1 and self._is_possible:
            return self._judge_single(values.get(self._fields[0].name))
        raw = tuple([values.get(one.name) for one in self._fields])
        found = self._verdicts.get(raw)
        if found is None:
            found = self._verdicts[raw] = self._judge(raw)
        return found

    def _add(self, alternative: dict[int, FieldSet]) -> None:
        lists = [one.keys for one in alternative.values() if one.keys is not None]
        size = 1
        for keys in lists:
            size *= len(keys)
        if alternative and len(lists) == len(alternative) and (len(lists) == 1 or size <= _MAX_COMBINATIONS):
            self._listed.setdefault(tuple(alternative), set()).update(product(*lists))
        elif alternative not in self._others:
            self._others.append(alternative)

    def _judge_single(self, raw: bytes | None) -> tuple[Verdict, str]:
        """As `_judge`, for the usual spec of one field, quickly: there may be thousands of regions."""
        keys, text = self._fields[0].recorded(raw)
        for positions, combinations in self._listed.items():
            for key in keys:
                if (key,) in combinations:
                    return Verdict.ROWS_MIGHT_MATCH, f"{text} admits {self._text}"
            if not keys:
                return Verdict.ROWS_MIGHT_MATCH, self._kept([(keys, text)], positions)
        for alternative in self._others:
            if not alternative or not keys or any(map(alternative[0].admits, keys)):
                return Verdict.ROWS_MIGHT_MATCH, self._kept([(keys, text)], tuple(alternative))
        return Verdict.ROWS_CANNOT_MATCH, f"{text} excludes {self._text}"

    def _judge(self, raw: tuple[bytes | None, ...]) -> tuple[Verdict, str]:
        if not self._is_possible:
            return Verdict.ROWS_CANNOT_MATCH, f"{self._text} is never true"
        recorded = [field.recorded(value) for field, value in zip(self._fields, raw, strict=True)]
        decisive: set[int] = set()
        for positions, combinations in self._listed.items():
            keys = [recorded[i][0] for i in positions]
            if not all(keys) or any(one in combinations for one in product(*keys)):
                return Verdict.ROWS_MIGHT_MATCH, self._kept(recorded, positions)
            decisive.update(positions)
        for alternative in self._others:
            for i, admissible in alternative.items():
                keys_of_one = recorded[i][0]
                if keys_of_one and not any(map(admissible.admits, keys_of_one)):
                    decisive.add(i)
                    break
            else:
                return Verdict.ROWS_MIGHT_MATCH, self._kept(recorded, tuple(alternative))
        texts = ", ".join(recorded[i][1] for i in sorted(decisive))
        return Verdict.ROWS_CANNOT_MATCH, f"{texts} excludes {self._text}"

    def _kept(self, recorded: Sequence[tuple[tuple[Any, ...], str]], positions: Sequence[int]) -> str:
        """Why a region stays: a value that is unknown, a field that cannot be used, or a value that fits."""
        unknown = [recorded[i][1] for i in positions if not recorded[i][0]]
        if unknown:
            return "; ".join(unknown)
        if positions:
            return f"{', '.join(recorded[i][1] for i in positions)} admits {self._text}"
        trouble = [one.trouble for one in self._fields if one.trouble]
        if trouble:
            return _shortened("; ".join(trouble))
        fields = ", ".join(one.text for one in self._fields)
        return f"{self._text} does not restrict {fields}" if fields else "the region spec has no fields"
