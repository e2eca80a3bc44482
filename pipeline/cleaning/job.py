"""Finds and removes the garbage of a table."""

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeAlias

from lance_gateway.memwal.errors import UnavailableError
from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.memwal.storage.files import Storage
from lance_gateway.pipeline.cleaning.garbage import CleanPolicy, CleanReport, Garbage, Kept, Kind
from lance_gateway.pipeline.cleaning.region_files import find_markers
from lance_gateway.pipeline.cleaning.region_tasks import LookAtRegion, RemoveFromRegion
from lance_gateway.pipeline.cleaning.versions import (
    find_expired,
    find_old_versions,
    list_named_versions,
    read_base,
    read_past,
    remove_versions,
)
from lance_gateway.pipeline.jobs.lake import LakeTable, keeps_in_place
from lance_gateway.pipeline.jobs.runners import Progress, Runner, Threads, ignore_progress

Clock: TypeAlias = Callable[[], float]
"""Unix time in seconds."""
NOW = "_gateway/clean/now"
"""File that is written to read the clock of storage."""
_ORDER = tuple(Kind)


@keeps_in_place
def clean(
    table: LakeTable,
    policy: CleanPolicy | None = None,
    *,
    delete: bool = False,
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
    clock: Clock | None = None,
) -> CleanReport:
    """Find a table's garbage, and remove it if `delete` is set.

    Includes files that only versions to be removed need, since versions are removed first.

    Args:
        table: the table.
        policy: what may be removed.
        delete: whether to remove the garbage.
        runner: runs the work on regions.
        progress: shows the progress.
        clock: returns the time; None for this machine's clock, or storage's if something is removed.
    """
    policy = policy or CleanPolicy()
    now = int((clock or time.time)() * 1e6)
    versions = list_named_versions(table)
    gone = find_expired(versions, policy, now)
    # The base version before manifests: this order must not change (ADR 33).
    base = read_base(table, read_past(table, [version for version in versions if version not in gone]))
    garbage = list(find_old_versions(table, versions, gone))
    kept: list[Kept] = []
    region_ids = list_regions(table.storage)
    function = LookAtRegion(table, base, policy, now)
    with progress(f"look through {table.name}", len(region_ids), "region") as advance:
        for one in (runner or Threads()).run(function, region_ids, name="clean"):
            garbage.extend(one.garbage)
            kept.extend(one.kept)
            advance(1)
    if Kind.LEFTOVERS in policy.kinds:
        garbage.extend(find_markers(table.storage, now))
    garbage.sort(key=lambda one: (_ORDER.index(one.kind), one.path, one.first))
    kept.sort(key=lambda one: (_ORDER.index(one.kind), one.path))
    found = tuple(garbage)
    if delete:
        found = remove(table, found, policy, runner=runner, progress=progress, clock=clock)
    return CleanReport(table.name, delete, found, tuple(kept))


def find(
    table: LakeTable, policy: CleanPolicy | None = None, *, clock: Clock | None = None
) -> tuple[Garbage, ...]:
    """Find the garbage of a table; changes nothing."""
    return clean(table, policy, clock=clock).garbage


@keeps_in_place
def remove(
    table: LakeTable,
    garbage: Sequence[Garbage],
    policy: CleanPolicy | None = None,
    *,
    runner: Runner | None = None,
    progress: Progress = ignore_progress,
    clock: Clock | None = None,
) -> tuple[Garbage, ...]:
    """Remove what was found, as far as all rules still call it garbage; safe to repeat.

    Args:
        table: which one.
        garbage: from `find`.
        policy: by which it was found.
        runner: cleans regions.
        progress: is told how far it is.
        clock: tells the time; None for storage's.

    Returns:
        What was removed.

    Raises:
        LanceGatewayError: not all of it could be removed; the next run finds the rest.
    """
    policy = policy or CleanPolicy()
    if not garbage:
        return ()
    now = int(clock() * 1e6) if clock else storage_time(table.storage)
    # Versions before what they need: this order must not change (ADR 25).
    removed = list(
        _remove_versions(table, [item for item in garbage if item.kind is Kind.VERSIONS], policy, now)
    )
    base = read_base(table, read_past(table, list_named_versions(table)))
    in_regions = sorted((item for item in garbage if item.region_id), key=lambda one: one.region_id)
    by_region = {key: tuple(found) for key, found in groupby(in_regions, key=lambda one: one.region_id)}
    function = RemoveFromRegion(table, base, policy, now, by_region)
    with progress(f"clean {table.name}", len(by_region), "region") as advance:
        for done in (runner or Threads()).run(function, tuple(by_region), name="clean"):
            removed.extend(done)
            advance(1)
    known = {item.path for item in garbage if item.kind is Kind.LEFTOVERS and not item.region_id}
    again = [one for one in (find_markers(table.storage, now) if known else ()) if one.path in known]
    table.storage.delete_each([one.path for one in again])
    return (*sorted(removed, key=lambda one: (_ORDER.index(one.kind), one.path, one.first)), *again)


def storage_time(storage: Storage) -> int:
    """Read the clock of storage, in microseconds since 1970.

    Raises:
        UnavailableError: storage does not return the time of a file.
    """
    storage.put(NOW, b"")
    identity = storage.identity(NOW)
    if identity is None:
        raise UnavailableError(f"{storage.locate(NOW)} was written and is not there: retry")
    return identity.written // 1000


def _remove_versions(
    table: LakeTable, garbage: Sequence[Garbage], policy: CleanPolicy, now: int
) -> tuple[Garbage, ...]:
    if not garbage:
        return ()
    still_expired = {version.number for version in find_expired(list_named_versions(table), policy, now)}
    again = tuple(item for item in garbage if item.first in still_expired)
    gone = remove_versions(table, [one.first for one in again]) if again else ()
    return tuple(item for item in again if item.first in gone)
