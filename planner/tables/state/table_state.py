"""What is known of a table for as long as it is the same one.

Regions that LanceDB named: which values they have, and whether one has a second id.

LanceDB's way of naming regions is that of `region_ids`. A table that was written before this project
knew it may have one region under two ids. Which of two rows of a key is the newer one is then not recorded,
so the table is not read until `lance-gateway pipeline merge` has found out.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import lance

from execnodes.storage.data_files import Place
from memwal.base.index_details import MemWalIndexDetails, RegionSpec
from memwal.base.table_mark import table_mark
from memwal.errors import PreconditionError
from memwal.regions.manifest import RegionManifest
from memwal.regions.region_ids import doubles, is_retired, known_values, may_be_identity, two_ids
from memwal.regions.region_snapshots import RegionSnapshot
from memwal.storage.files import VERSIONS, FileIdentity, Storage
from planner.predicates.pruning import RegionAssignments
from planner.tables.sources.base_table import BaseTable, ManifestFile, open_base_table
from planner.tables.sources.region_log import RegionLog
from planner.tables.sources.snapshot import Consistency, TableSnapshot

INDEX_CACHE_BYTES = 128 << 20
METADATA_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class RememberedRegions:
    """Regions as one version of the MemWAL index remembers them.

    Attributes:
        details: the index.
        regions: its snapshots of them.
    """

    details: MemWalIndexDetails
    regions: tuple[RegionSnapshot, ...]

    @cached_property
    def manifests(self) -> Mapping[str, RegionManifest | None]:
        """Region id -> manifest; None where the index remembers no more than that the region is there."""
        return {one.region_id: one.manifest for one in self.regions}

    @cached_property
    def assignments(self) -> RegionAssignments:
        """What the regions record."""
        return RegionAssignments.of(self.regions, self.details.region_specs)


@dataclass(eq=False, slots=True)
class KnownState:
    """What was read of a table; one that is made anew in its directory begins with another.

    Whoever is still reading the old table when that is noticed can't leave anything of it in the new one's.

    Attributes:
        place: names the table in caches.
        session: the `lance.Session` in which its files are opened.
        manifests: region id -> the newest manifest read.
        logs: region id -> its log.
        last: the snapshots taken last, and when (seconds, monotonic clock).
        recorded_state: another object whenever what regions record has changed.
        assigned: what is known of regions, and for which `recorded_state` and specs that was found out.
        named: region id -> values of regions that record none and that LanceDB named by a value.
        doubled: ids of regions that have two, and of which state, specs and regions that was found out.
        remembered: what the MemWAL index remembers of regions.
    """

    place: Place
    session: Any
    manifests: dict[str, RegionManifest] = field(default_factory=dict)
    logs: dict[str, RegionLog] = field(default_factory=dict)
    last: dict[Consistency, tuple[float, TableSnapshot]] = field(default_factory=dict)
    recorded_state: object = field(default_factory=object)
    assigned: tuple[object, tuple[RegionSpec, ...], RegionAssignments] = (None, (), RegionAssignments())
    named: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    doubled: tuple[object, tuple[tuple[str, str], ...]] = (None, ())
    remembered: RememberedRegions | None = None

    def forget(self, region_id: str) -> None:
        """Have a region read anew."""
        self.manifests.pop(region_id, None)
        self.logs.pop(region_id, None)

    def keep_last(self, consistency: Consistency, taken_at: float, taken: TableSnapshot) -> None:
        """Keep a snapshot to be taken again, unless a newer one was taken meanwhile."""
        before = self.last.get(consistency)
        if before is None or before[0] <= taken_at:
            self.last[consistency] = taken_at, taken

    def made_anew(self) -> KnownState:
        """The state of another table in the same directory, of which nothing is known."""
        return KnownState(Place.new(self.place.uri), own_session())


def own_session() -> Any:  # noqa: ANN401 (lance types)
    """A `lance.Session` for a table in whose directory there was another one.

    Lance knows files by their names: in the session that read the old ones, those of the new table that bear
    the same names would be taken for them.
    """
    return lance.Session(
        index_cache_size_bytes=INDEX_CACHE_BYTES, metadata_cache_size_bytes=METADATA_CACHE_BYTES
    )


def named_values(
    storage: Storage, kept: KnownState, specs: Sequence[RegionSpec], manifests: Sequence[RegionManifest]
) -> Mapping[str, Mapping[str, bytes]]:
    """Values of regions that record none, by region id, as far as a row of the region tells; read once.

    Args:
        storage: directory of the table.
        kept: what is known of the table; what is found is added.
        specs: of the table.
        manifests: of its regions.

    Raises:
        LanceGatewayError: a region can't be read.
    """
    by_id = {one.spec_id: one for one in specs}
    asked = [
        (spec, one)
        for one in manifests
        if not one.region_values
        and one.region_id not in kept.named
        and (spec := by_id.get(one.region_spec_id)) is not None
        and may_be_identity(spec, one.region_id)
    ]
    if asked:
        found = storage.each(lambda pair: known_values(storage, *pair), asked)
        kept.named |= {one.region_id: values for (_, one), values in zip(asked, found, strict=True) if values}
    return kept.named


def check_ids(
    name: str,
    kept: KnownState | None,
    details: MemWalIndexDetails,
    manifests: Mapping[str, RegionManifest | None],
    unflushed: Collection[str] = (),
) -> None:
    """Refuse to read a region that has rows under two ids.

    Args:
        name: of the table.
        kept: what is known of it; None where that is not kept.
        details: its MemWAL index.
        manifests: of the regions that are read.
        unflushed: ids of those that have rows in their logs.

    Raises:
        PreconditionError: one has.
    """
    if len(manifests) < 2:
        return
    for own_id, lancedb_id in _pairs(kept, details, manifests):
        own = manifests[own_id]
        merged = details.newest_merged(own_id)
        if own is not None and (own_id in unflushed or not is_retired(own, merged)):
            raise PreconditionError(two_ids(f"table {name!r}", own_id, lancedb_id))


def _pairs(
    kept: KnownState | None, details: MemWalIndexDetails, manifests: Mapping[str, RegionManifest | None]
) -> tuple[tuple[str, str], ...]:
    """Ids of regions that have two: the other one, and LanceDB's. What regions record hardly ever changes."""
    asked = None if kept is None else (kept.recorded_state, details.region_specs, tuple(manifests))
    if kept is not None and kept.doubled[0] == asked:
        return kept.doubled[1]
    present = [one for one in manifests.values() if one is not None]
    found = tuple((one.region_id, other.region_id) for one, other in doubles(details.region_specs, present))
    if kept is not None:
        kept.doubled = asked, found
    return found


class NewestBase:
    """Safe to share between threads.

    A table that was dropped and made anew may have as many versions as it had before: a version is known by
    the file of its manifest and not by its number alone. Where that was cleaned up, the table is known by its
    mark, which writers leave in it; without one, it is taken for another.

    Attributes:
        last: the version that was found last; None before the first.
        known: what is known of the table that it belongs to.

    Args:
        name: of the table, in the catalog.
        storage: directory of the table.
        session: the `lance.Session` in which the table's files are opened, until it is made anew.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        session: Any,  # noqa: ANN401 (lance types)
    ) -> None:
        self.last: BaseTable | None = None
        self.known = KnownState(Place.new(storage.uri), session)
        self._name = name
        self._storage = storage
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._listed: tuple[BaseTable, FileIdentity] | None = None
        """A version that Lance found to be the newest, and the directory of versions just before that."""
        self._mark: FileIdentity | None = None
        """Of the table; None where nobody had marked it when a version was opened last."""
        self._identified_at = 0.0
        self._found_at = 0.0

    def find(self) -> BaseTable:
        """The newest version; the same object while it is.

        Raises:
            NotFoundError: the table was dropped.
            CorruptDataError: its manifest can't be read.
            UnavailableError: storage failed to answer.
        """
        last, started = self.last, time.monotonic()
        if last is not None and self._is_newest(last):
            self._found_at = started
            return last
        with self._lock:
            other = self.last
            if other is None or other is last or not self._is_newest(other):
                other = self._opened(other)
            self._found_at = started
            return other

    def recent(self) -> BaseTable:
        """The newest version, as it was found a moment ago where looking for it takes long.

        For those who need the columns of the table, and not its rows.

        Raises:
            LanceGatewayError: as `find`.
        """
        trusted = self._storage.backend.identity_seconds
        if not trusted:
            return self.find()
        with self._looking:  # One looks for all who wait.
            last = self.last
            if last is None or time.monotonic() - self._found_at >= trusted:
                last = self.find()
            return last

    def _is_newest(self, base: BaseTable) -> bool:
        manifest = base.manifest
        if manifest is None:
            return False
        trusted = self._storage.backend.identity_seconds
        if not trusted:
            return not self._has_newer_file(base, manifest) and manifest.is_there(self._storage)
        if _has_newer(base):
            return False
        now = time.monotonic()
        if now - self._identified_at >= trusted:
            if not manifest.is_there(self._storage):
                return False
            self._identified_at = now
        return True

    def _is_same(self, before: BaseTable) -> bool:
        """Whether the table is still the one that a version was opened of."""
        if before.manifest is not None and before.manifest.is_there(self._storage):
            return True
        return self._mark is not None and table_mark(self._storage) == self._mark

    def _has_newer_file(self, base: BaseTable, manifest: ManifestFile) -> bool:
        """The same where files are local: while nothing came to the directory, Lance need not list it.

        The time of a directory is coarse, so the next version is looked for by its name as well.
        """
        directory = self._storage.identity(VERSIONS)
        if self._listed == (base, directory) and not self._storage.exists(manifest.following)[0]:
            return False
        newer = _has_newer(base)
        self._listed = None if newer or directory is None else (base, directory)
        return newer

    def _opened(self, before: BaseTable | None) -> BaseTable:
        """Open the newest version; let go of all that is known where that is another table's."""
        started = time.monotonic()
        known, expected = self.known, None
        if before is not None:
            with contextlib.suppress(OSError, ValueError):
                expected = ManifestFile.of(self._storage, before.dataset.latest_version)
        opened = self._open(known)
        if before is not None and not self._is_same(before):
            # Asked afterwards (ADR 33): what was opened while the old manifest was there is the old table.
            known, expected, self._mark = known.made_anew(), None, None
        if expected is None or expected.version != opened.version:
            # The file is looked at before it is read: it may be replaced in between, which is noticed then.
            expected = ManifestFile.of(self._storage, opened.version)
            opened = self._open(known)
        if expected is not None and expected.version == opened.version:
            opened = replace(opened, manifest=expected)
        if self._mark is None:
            mark = table_mark(self._storage)
            if opened.manifest is not None and opened.manifest.is_there(self._storage):
                self._mark = mark  # It was there before the manifest was, and so it is of the same table.
        self.known, self.last, self._identified_at = known, opened, started
        return opened

    def _open(self, known: KnownState) -> BaseTable:
        return open_base_table(self._name, self._storage, None, known.session, known.place)


def _has_newer(base: BaseTable) -> bool:
    """Whether Lance finds another version, or none: opening the table tells what became of it."""
    try:
        newest: int = base.dataset.latest_version
    except (OSError, ValueError):
        return True
    return newest != base.version
