"""Small fragments put together, and deleted rows left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lance.optimize import Compaction

from pipeline.indexing.committing import committed
from pipeline.indexing.policy import IndexPolicy
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.progress import Progress
from pipeline.jobs.runners import Runner


@dataclass(frozen=True, slots=True)
class RewritePart:
    """Fragments that are written anew as others.

    Attributes:
        uri: of the table.
        options: of its storage.
        version: of the base table that they belong to.
        number: of the part, in the order of the table's rows.
        task: Lance's `CompactionTask`.
    """

    uri: str
    options: Mapping[str, str]
    version: int
    number: int
    task: Any


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was put together.

    Attributes:
        removed: fragments that are gone.
        added: fragments that have their rows.
    """

    removed: int = 0
    added: int = 0


def compact(table: LakeTable, policy: IndexPolicy, runner: Runner, progress: Progress) -> Compacted:
    """Write small fragments, and those with many deleted rows, anew; all in one commit.

    A merge that deletes from one of these fragments in the meantime makes it begin again.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """
    options: dict[str, Any] = {
        "target_rows_per_fragment": policy.target_rows,
        "materialize_deletions": True,
        "materialize_deletions_threshold": policy.deleted_fraction,
    }

    def change() -> Compacted:
        dataset = table.dataset()
        plan = Compaction.plan(dataset, options)
        parts = [
            RewritePart(table.uri, dict(table.options), plan.read_version, number, task)
            for number, task in enumerate(plan.tasks)
        ]
        if not parts:
            return Compacted()
        rewrites: dict[int, Any] = {}
        with progress(f"compact {table.name}", len(parts)) as advance:
            for number, rewrite in runner.run(rewrite_part, parts, name=f"compact {table.name}"):
                rewrites[number] = rewrite
                advance(1)
        # In the order of their rows, whichever was ready first: as Lance does it by itself.
        done = Compaction.commit(dataset, [rewrites[number] for number in sorted(rewrites)], options)
        return Compacted(done.fragments_removed, done.fragments_added)

    return committed(table, "put its files together", change)


def rewrite_part(part: RewritePart) -> tuple[int, Any]:
    """Write the rows of a task to new files, which belong to no version yet; safe to repeat."""
    return part.number, part.task.execute(LakeTable.at(part.uri, part.options).dataset(part.version))
