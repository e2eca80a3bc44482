"""What pending generations weigh, and since when they wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from memwal.errors import LanceGatewayError
from memwal.regions.manifest import FlushedGeneration
from memwal.storage.files import Storage, generation_directory
from pipeline.jobs.lake import LakeTable
from pipeline.merging.generations import open_generation
from pipeline.merging.policy import MergePolicy

_DATA = "data"


@dataclass(frozen=True, slots=True)
class Weight:
    """Of a generation.

    Attributes:
        rows: that it holds, older duplicates of a key included.
        bytes: of its data files.
    """

    rows: int
    bytes: int

    @staticmethod
    def total(weights: Iterable[Weight]) -> Weight:
        """Of several generations together."""
        every = tuple(weights)
        return Weight(sum(one.rows for one in every), sum(one.bytes for one in every))


Pending = Mapping[str, tuple[FlushedGeneration, ...]]
"""Region id -> generations that the base table lacks, ascending; at least one."""
Weights = Mapping[tuple[str, int], Weight]
"""By region id and generation."""


def weigh(table: LakeTable, pending: Pending) -> Weights:
    """Weigh pending generations: one listing each.

    Raises:
        LanceGatewayError: storage failed to answer.
    """
    every = [(region_id, one) for region_id, found in pending.items() for one in found]
    weights = table.storage.each(lambda one: _weight(table, *one), every)
    return {(region, one.generation): weight for (region, one), weight in zip(every, weights, strict=True)}


def due(table: LakeTable, pending: Pending, weights: Weights, policy: MergePolicy) -> str | None:
    """Why a table is to be merged now; None where it is not.

    Args:
        table: which one.
        pending: what it could merge.
        weights: of that.
        policy: what decides.
    """
    if not pending:
        return None
    if policy.is_unconditional:
        return "generations are pending"
    total = Weight.total(weights.values())
    for name, found, least in (
        ("generations", len(weights), policy.min_generations),
        ("rows", total.rows, policy.min_rows),
        ("bytes", total.bytes, policy.min_bytes),
    ):
        if least is not None and found >= least:
            return f"{found} {name} are pending"
    if policy.max_lag_seconds is not None:
        oldest = [(region_id, found[0]) for region_id, found in pending.items()]
        lag = max(table.storage.each(lambda one: _lag(table, *one), oldest))
        if lag >= policy.max_lag_seconds:
            return f"the oldest generation has been pending for {lag:.0f} s"
    return None


def _weight(table: LakeTable, region_id: str, generation: FlushedGeneration) -> Weight:
    rows = generation.physical_rows
    if rows is None:
        try:
            rows = open_generation(table, region_id, generation).count_rows()
        except LanceGatewayError:
            rows = 0  # Whoever reads it says what is wrong, if it is still to be read by then.
    return Weight(rows, _bytes(table.storage, generation_directory(region_id, generation.path)))


def _bytes(storage: Storage, directory: str) -> int:
    return sum(one.size for one in storage.list(f"{directory}/{_DATA}"))


def _lag(table: LakeTable, region_id: str, generation: FlushedGeneration) -> float:
    """Seconds since a generation was flushed."""
    try:
        (first, *_) = open_generation(table, region_id, generation).versions()
    except LanceGatewayError:
        return 0.0
    flushed: datetime = first["timestamp"]
    # Lance tells the time without a zone: this machine's.
    return (datetime.now(UTC) - flushed.astimezone(UTC)).total_seconds()
