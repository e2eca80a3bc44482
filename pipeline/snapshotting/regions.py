"""Regions into the MemWAL index of the base table: the specification's index builder.

Manifests of regions are told where long logs end as well. Whoever looks for the end of a region's log, above
all who claims the region, looks upward from where its manifest says that it ended. Manifests are written when
a MemTable is flushed, so the end is far from there only where many small entries are waiting. A manifest is
not touched for less: each version costs every reader a look. A live writer is not disturbed: its own next
manifest follows the one written here, with its epoch.
"""

import dataclasses
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from lance_gateway.memwal.base.index_details import replace_details
from lance_gateway.memwal.base.versions import commit_next
from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, UnavailableError
from lance_gateway.memwal.regions.manifest import RegionManifest, commit_manifest
from lance_gateway.memwal.regions.region_snapshots import decode_region_snapshots, encode_region_snapshots
from lance_gateway.memwal.regions.wal import find_last_wal_position, wal_entry_path
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.jobs.lake import LakeTable, RegionState, TableState, keeps_in_place
from lance_gateway.pipeline.jobs.runners import Progress, ignore_progress


@dataclass(frozen=True, slots=True)
class CommittedSnapshots:
    """The result of a commit.

    Attributes:
        version: of the base table that has the snapshots.
        taken_millis: when they were taken, Unix time in ms.
        num_bytes: of the Lance file that they are.
    """

    version: int
    taken_millis: int
    num_bytes: int


def commit(state: TableState, now_millis: int) -> CommittedSnapshots | None:
    """Record regions on top of the very version that was read with them.

    Nothing else of the index changes, and nothing that others commit meanwhile can be lost: the version after
    the one that was read is made by this call, or by somebody else.

    Args:
        state: the table, its manifests read before its version.
        now_millis: when they were read.

    Returns:
        None when somebody else made the next version.

    Raises:
        LanceGatewayError: it can't be done.
    """
    storage, details = state.table.storage, state.details
    manifests = [region.manifest for region in state.regions.values()]
    rows = encode_region_snapshots(manifests, details.region_specs)
    taken = max(now_millis, details.snapshot_ts_millis + 1)
    encoded = details.encode_with_snapshots(taken, len(manifests), rows)
    operation = replace_details(storage, state.version, encoded)
    # On the version that was read, or not at all: Lance would rebase it over others' progress (ADR 27).
    if commit_next(storage, state.version, operation):
        return CommittedSnapshots(state.version + 1, taken, len(rows))
    return None


def refresh_hints(
    storage: Storage, manifests: Iterable[RegionManifest], entries: int
) -> dict[str, RegionManifest]:
    """Tell manifests where their logs end, if that is far from where they say.

    Args:
        storage: of the table.
        manifests: the newest of each region.
        entries: how far is far; 0 for never.

    Returns:
        Region id -> manifest that was written. A region whose manifest changed meanwhile is left alone.
    """
    open_regions = [manifest for manifest in manifests if not manifest.sealed]
    if not entries or not open_regions:
        return {}
    is_far = storage.exists(
        *(wal_entry_path(region.region_id, _last_known_position(region) + entries) for region in open_regions)
    )
    written = {}
    for manifest, far in zip(open_regions, is_far, strict=True):
        if far:
            newer = dataclasses.replace(
                manifest,
                version=manifest.version + 1,
                wal_entry_position_last_seen=find_last_wal_position(
                    storage, manifest.region_id, after=_last_known_position(manifest)
                ),
            )
            if commit_manifest(storage, newer):
                written[newer.region_id] = newer
    return written


def _last_known_position(manifest: RegionManifest) -> int:
    return max(manifest.wal_entry_position_last_seen, manifest.replay_after_wal_entry_position)


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """How a table's regions are remembered by its MemWAL index.

    Attributes:
        max_age_seconds: younger snapshots are left alone.
        hint_entries: a region's manifest is told where its log ends when so many entries were appended since
            it was told last; 0 for never.
    """

    max_age_seconds: float = 60.0
    hint_entries: int = 1000

    def __post_init__(self) -> None:
        for name in ("max_age_seconds", "hint_entries"):
            if getattr(self, name) < 0:
                raise InvalidInputError(f"{name} is {getattr(self, name)}, but must be 0 or more")


ATTEMPTS = 12
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """The result of a snapshot job.

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


@keeps_in_place
def snapshot(
    table: LakeTable,
    policy: SnapshotPolicy | None = None,
    *,
    progress: Progress = ignore_progress,
    now: Callable[[], float] = time.time,
) -> SnapshotReport:
    """Have the MemWAL index of a table remember all of its regions as they are.

    A table whose regions are remembered as they are is left alone, however long ago that was.

    Args:
        table: which one.
        policy: how old snapshots may get; None takes one in any case.
        progress: told of the table.
        now: seconds since 1970.

    Raises:
        UnavailableError: others commit to the table all the time, or storage failed.
    """
    policy = policy or SnapshotPolicy(max_age_seconds=0)
    before: int | None = None
    known: dict[str, RegionManifest] = {}
    hints = 0
    with progress(f"snapshot {table.name}", 1, "table") as advance:
        for attempt in range(ATTEMPTS):
            if attempt:
                pause = min(_FIRST_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
                time.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
            taken = int(now() * 1000)
            state = TableState.read(table, known=known)
            manifests = [region.manifest for region in state.regions.values()]
            written = refresh_hints(table.storage, manifests, policy.hint_entries)
            hints += len(written)
            state = _with(state, written)
            known = {region.region_id: region.manifest for region in state.regions.values()}
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
    raise UnavailableError(
        f"table {table.name!r}: its regions were not remembered, since others committed to it {ATTEMPTS} "
        "times meanwhile; nothing changed, try again later"
    )


@dataclass(frozen=True, slots=True)
class SnapshotJob:
    """A snapshot as one part of a `Runner`: on an executor, where only these reach the tables.

    Attributes:
        policy: as `snapshot`.
    """

    policy: SnapshotPolicy

    def __call__(self, table: LakeTable) -> SnapshotReport:
        """Take the snapshot of a table, as `snapshot` does."""
        return snapshot(table, self.policy)


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
