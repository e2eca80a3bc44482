"""Which generations are merged by which commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memwal.errors import InvalidInputError
from memwal.manifest import FlushedGeneration
from pipeline.state import RegionState, TableState


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """When generations are merged, and how many of them at once.

    Attributes:
        min_generations: a table with fewer pending generations is left alone.
        batch_rows: a commit takes about so many rows, or a single generation that has more.
    """

    min_generations: int = 1
    batch_rows: int = 5_000_000

    def __post_init__(self) -> None:
        for name in ("min_generations", "batch_rows"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, but must be 1 or more"
                raise InvalidInputError(msg)


@dataclass(frozen=True, slots=True)
class Batch:
    """Generations that one commit merges: of each region the oldest that are pending.

    Attributes:
        uri: of the table.
        options: of its storage.
        generations: region id -> generations, ascending.
    """

    uri: str
    options: Mapping[str, str]
    generations: Mapping[str, tuple[FlushedGeneration, ...]]

    def __post_init__(self) -> None:
        if not all(self.generations.values()):
            msg = "a batch has at least one generation of each of its regions"
            raise InvalidInputError(msg)


def batches(state: TableState, policy: MergePolicy) -> tuple[Batch, ...]:
    """Divide what is pending into batches that touch different regions each."""
    pending = [one for one in state.regions.values() if one.pending]
    if sum(len(one.pending) for one in pending) < policy.min_generations:
        return ()
    table = state.table
    return tuple(
        Batch(table.uri, dict(table.options), {one.region_id: one.pending for one in group})
        for group in _grouped(pending, policy.batch_rows)
    )


def _grouped(regions: Iterable[RegionState], batch_rows: int) -> Iterable[list[RegionState]]:
    group: list[RegionState] = []
    rows = 0
    for region in regions:
        more = sum(one.physical_rows or 0 for one in region.pending)
        if group and rows + more > batch_rows:
            yield group
            group, rows = [], 0
        group.append(region)
        rows += more
    if group:
        yield group
