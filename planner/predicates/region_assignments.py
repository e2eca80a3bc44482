"""The regions of a table, indexed by the values that their manifests record or their ids stand for.

A region's values never change, so an index over them serves every query until regions come or go: what a
query pays for is the values that it admits, not the regions that the table has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any, TypeAlias

from memwal.base.index_details import RegionSpec
from memwal.regions.manifest import RegionManifest
from memwal.regions.region_ids import doubles, values_by_id
from memwal.regions.region_snapshots import RegionSnapshot
from planner.predicates.region_fields import recorded_keys

__all__ = ["Keys", "RecordedValues", "RegionAssignment", "RegionAssignments"]

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
            return found.get(one.region_id) or ({} if spec is None else values_by_id(spec, one.region_id))

        return RegionAssignments(
            tuple(RegionAssignment(one.region_id, one.region_spec_id, values(one)) for one in every),
            has_doubles=bool(doubles(by_id.values(), every)),
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
