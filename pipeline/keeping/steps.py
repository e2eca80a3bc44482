"""What is done to a table, in order: merge, index, snapshot, clean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pipeline.cleaning import clean
from pipeline.indexing import maintain
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.progress import Progress, counted
from pipeline.jobs.runners import Runner
from pipeline.keeping.policy import Policies
from pipeline.merging import merge
from pipeline.snapshotting import snapshot


@dataclass(frozen=True, slots=True)
class Done:
    """What a step did to a table.

    Attributes:
        what: for people; empty if there was nothing to do.
        counts: the same in numbers, for logs and metrics.
        waits: whether it left something for later, as its policy says.
    """

    what: str = ""
    counts: Mapping[str, int] | None = None
    waits: bool = False


Step: TypeAlias = Callable[[LakeTable, Policies, Runner, Progress], Done]


def merge_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> Done:
    """Merge what is pending, if the policy says so."""
    report = merge(table, policies.merge, runner=runner, progress=progress)
    if not report.batches:
        return Done(waits=report.left > 0)
    counts = {"generations": report.generations, "upserted": report.upserted, "deleted": report.deleted}
    generations, regions = counted(report.generations, "generation"), counted(report.regions, "region")
    rows = counted(report.upserted, "row")
    return Done(f"merged {generations} of {regions}: {rows} upserted, {report.deleted:,} deleted", counts)


def index_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> Done:
    """Bring indexes up to date and put files together, where they need it."""
    report = maintain(table, policies.index, runner=runner, progress=progress)
    if not report.reasons:
        return Done()
    counts = {
        "indexes": len(report.optimised) + len(report.retrained),
        "fragments_removed": report.fragments_removed,
        "fragments_added": report.fragments_added,
    }
    names = ", ".join((*report.optimised, *report.retrained))
    did = [f"brought up to date: {names}"] if names else []
    if report.fragments_removed:
        did.append(f"{counted(report.fragments_removed, 'fragment')} became {report.fragments_added}")
    return Done("; ".join(did) or "; ".join(report.reasons), counts)


def snapshot_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> Done:
    """Remember regions, if they have changed since they were remembered long enough ago."""
    if not policies.run.snapshot or table.storage.committed_by:
        return Done()
    report = snapshot(table, policies.snapshot, runner=runner, progress=progress)
    if report.committed is None:
        return Done(waits=not report.is_current)
    counts = {"regions": report.regions, "hints": report.hints}
    return Done(f"remembered {counted(report.regions, 'region')}", counts)


def clean_step(table: LakeTable, policies: Policies, runner: Runner, progress: Progress) -> Done:
    """Remove what nobody needs any more."""
    report = clean(table, policies.clean, delete=True, runner=runner, progress=progress)
    if not report.garbage:
        return Done()
    counts = {"removed": len(report.garbage), "bytes": report.bytes}
    return Done(f"removed {counted(len(report.garbage), 'thing')}, {counted(report.bytes, 'byte')}", counts)


STEPS: Final[Mapping[str, Step]] = {
    "merge": merge_step,
    "index": index_step,
    "snapshot": snapshot_step,
    "clean": clean_step,
}
