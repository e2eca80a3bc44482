"""All regions of a table, remembered by the MemWAL index of its base."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from memwal.errors import CorruptDataError, UnavailableError
from memwal.regions.manifest import RegionManifest
from memwal.regions.region_snapshots import decode_region_snapshots
from pipeline.jobs.lake import LakeTable
from pipeline.jobs.progress import Progress, silent
from pipeline.jobs.runners import Runner
from pipeline.jobs.state import RegionState, TableState
from pipeline.snapshotting.committing import CommittedSnapshots, commit
from pipeline.snapshotting.hints import refresh_hints
from pipeline.snapshotting.policy import SnapshotPolicy

ATTEMPTS = 12
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """What a job did.

    Attributes:
        table: its name.
        regions: how many there are.
        committed: the snapshots that were taken; None where those that there are will do.
        hints: regions whose manifests were told where their logs end.
        is_current: whether the index remembers the regions as they were found.
    """

    table: str
    regions: int
    committed: CommittedSnapshots | None
    hints: int
    is_current: bool = True


def snapshot(
    table: LakeTable,
    policy: SnapshotPolicy | None = None,
    *,
    runner: Runner | None = None,
    progress: Progress = silent,
    now: Callable[[], float] = time.time,
) -> SnapshotReport:
    """Have the MemWAL index of a table remember all of its regions as they are.

    A table whose regions are remembered as they are is left alone, however long ago that was.

    Args:
        table: which one.
        policy: how old snapshots may get; None takes one in any case.
        runner: not needed: reading manifests is quick.
        progress: told of the table.
        now: seconds since 1970.

    Raises:
        UnavailableError: others commit to the table all the time, or storage failed.
        LanceGatewayError: something can't be read.
    """
    del runner
    policy = policy or SnapshotPolicy(max_age_seconds=0)
    before: int | None = None
    known: dict[str, RegionManifest] = {}
    hints = 0
    with progress(f"snapshot {table.name}", 1) as advance:
        for attempt in range(ATTEMPTS):
            if attempt:
                pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
                time.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
            taken = int(now() * 1000)
            state = TableState.read(table, known=known)
            manifests = [one.manifest for one in state.regions.values()]
            written = refresh_hints(table.storage, manifests, policy.hint_entries)
            hints += len(written)
            state = _with(state, written)
            known = {one.region_id: one.manifest for one in state.regions.values()}
            taken_last = state.details.snapshot_ts_millis
            before = taken_last if before is None else before
            is_current = _is_remembered(state)
            # Others' clocks may be ahead. What they took since this began is as good as ours.
            is_young = 0 <= taken - taken_last < policy.max_age_seconds * 1000 or taken_last != before
            if is_current or is_young:
                advance(1)
                return SnapshotReport(table.name, len(state.regions), None, hints, is_current=is_current)
            committed = commit(state, taken)
            if committed is not None:
                advance(1)
                return SnapshotReport(table.name, len(state.regions), committed, hints)
    msg = (
        f"table {table.name!r}: its regions were not remembered, since others committed to it {ATTEMPTS} "
        "times meanwhile; nothing changed, try again later"
    )
    raise UnavailableError(msg)


def _is_remembered(state: TableState) -> bool:
    """Whether the index itself remembers every region by its newest manifest."""
    if not state.details.snapshot_ts_millis or (state.regions and not state.details.inline_snapshots):
        return False
    try:
        remembered = decode_region_snapshots(state.details)
    except CorruptDataError:
        return False  # New ones are the way out.
    versions = {one.region_id: one.manifest.version for one in remembered if one.manifest is not None}
    return versions == {region_id: one.manifest.version for region_id, one in state.regions.items()}


def _with(state: TableState, manifests: dict[str, RegionManifest]) -> TableState:
    newer = {one: RegionState(manifest, state.regions[one].merged) for one, manifest in manifests.items()}
    return replace(state, regions={**state.regions, **newer}) if newer else state
