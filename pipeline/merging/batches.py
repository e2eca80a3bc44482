"""Which generations are merged by which commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from memwal.errors import InvalidInputError
from memwal.regions.manifest import FlushedGeneration
from pipeline.jobs.lake import LakeTable
from pipeline.merging.extents import agree
from pipeline.merging.policy import MergePolicy
from pipeline.merging.weighing import Pending, Weight, Weights
from pipeline.merging.winners import Prefix


@dataclass(frozen=True, slots=True)
class Batch:
    """What one commit merges.

    Attributes:
        prefixes: of different regions.
        weight: of all of it.
    """

    prefixes: tuple[Prefix, ...]
    weight: Weight

    def __post_init__(self) -> None:
        regions = {one.region_id for one in self.prefixes}
        if not regions or len(regions) != len(self.prefixes):
            msg = f"a batch has one prefix of each of its regions, but this one has {len(self.prefixes)}"
            raise InvalidInputError(msg)


def batches(
    table: LakeTable, pending: Pending, merged: Mapping[str, int], weights: Weights, policy: MergePolicy
) -> tuple[Batch, ...]:
    """Divide what is pending into batches; they are to be committed in this order.

    Small generations of many regions share a commit. The generations of a large region are spread over
    several, ascending.

    Args:
        table: which one.
        pending: what is to be merged.
        merged: newest generation by region that the base table contains.
        weights: of what is pending.
        policy: how much fits into a batch.

    Raises:
        LanceGatewayError: storage failed to answer.
    """
    cut = table.storage.each(lambda one: tuple(_cut(table, *one, merged, weights, policy)), pending.items())
    found: list[Batch] = []
    for nth in zip_longest(*cut):
        found += _grouped([one for one in nth if one is not None], weights, policy)
    return tuple(found)


def _cut(
    table: LakeTable,
    region_id: str,
    pending: Sequence[FlushedGeneration],
    merged: Mapping[str, int],
    weights: Weights,
    policy: MergePolicy,
) -> Iterator[Prefix]:
    """A region's generations as prefixes that are small enough, one after the other."""
    rest, after = tuple(pending), merged.get(region_id, 0)
    while rest:
        fits = 1
        while fits < len(rest) and _fits(_weight(region_id, rest[: fits + 1], weights), policy):
            fits += 1
        # Agreed to before the commit looks at the base table: this order must not change (ADR 24).
        through = agree(table.storage, region_id, rest[0].generation, rest[fits - 1].generation)
        prefix = tuple(one for one in rest if one.generation <= through)
        if prefix[-1].generation != through:
            return  # Another merger has seen a generation that is newer than this look at the table.
        yield Prefix(table.uri, dict(table.options), region_id, after, prefix)
        rest, after = rest[len(prefix) :], through


def _grouped(prefixes: Iterable[Prefix], weights: Weights, policy: MergePolicy) -> Iterator[Batch]:
    group: list[Prefix] = []
    weight = Weight(0, 0)
    for prefix in prefixes:
        own = _weight(prefix.region_id, prefix.generations, weights)
        together = Weight.total((weight, own))
        if group and not _fits(together, policy):
            yield Batch(tuple(group), weight)
            group, together = [], own
        group.append(prefix)
        weight = together
    if group:
        yield Batch(tuple(group), weight)


def _weight(region_id: str, generations: Iterable[FlushedGeneration], weights: Weights) -> Weight:
    return Weight.total(weights[region_id, one.generation] for one in generations)


def _fits(weight: Weight, policy: MergePolicy) -> bool:
    return weight.rows <= policy.batch_rows and weight.bytes <= policy.batch_bytes
