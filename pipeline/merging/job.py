"""All that is pending of a table, merged."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.lake import LakeTable
from pipeline.merging.batches import MergePolicy, batches
from pipeline.merging.committing import MergedBatch, commit
from pipeline.progress import Progress, silent
from pipeline.runners import Runner, Threads
from pipeline.state import TableState


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What a job did.

    Attributes:
        table: its name.
        batches: one for each commit.
    """

    table: str
    batches: tuple[MergedBatch, ...]

    @property
    def generations(self) -> int:
        """Regions that advanced."""
        return sum(len(one.generations) for one in self.batches)


def merge(
    table: LakeTable,
    policy: MergePolicy | None = None,
    *,
    runner: Runner | None = None,
    progress: Progress = silent,
) -> MergeReport:
    """Merge a table's pending generations.

    Raises:
        LanceGatewayError: why it could not be done; what was committed stays.
    """
    found = batches(TableState.read(table), policy or MergePolicy())
    done = []
    with progress(f"merge {table.name}", len(found)) as advance:
        for one in (runner or Threads()).run(commit, found, name="merge"):
            done.append(one)
            advance(1)
    return MergeReport(table.name, tuple(done))
