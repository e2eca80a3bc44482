"""One region at one moment, as the rules look at it, with its manifests by time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from memwal.errors import PreconditionError, UnavailableError
from memwal.regions.manifest import (
    RegionManifest,
    manifest_directory,
    manifest_path,
    parse_manifest_version,
    read_latest_manifest,
)
from memwal.regions.wal import wal_directory
from memwal.storage.files import Entry, Storage, region_directory
from pipeline.cleaning.garbage import CleanPolicy
from pipeline.cleaning.versions import FOREVER, Base

_ATTEMPTS = 8


class RegionHistory:
    """The manifests of a region that can be read, ascending; used by one thread at a time.

    Attributes:
        region_id: UUID in its usual text form.
        newest: manifest.
        versions: numbers of those that can be read.
        written: when each was written, in microseconds since 1970, ascending.
        sizes: bytes of each.
        others: what else is in the directory.
    """

    def __init__(self, storage: Storage, newest: RegionManifest, names: tuple[Entry, ...]) -> None:
        self.region_id = newest.region_id
        self.newest = newest
        numbered = sorted(_numbered(names))
        self.versions = tuple(version for version, _ in numbered)
        # Times of files are not that exact: what is later by its number is not earlier by its time.
        self.written = tuple(accumulate((one.written // 1000 for _, one in numbered), max))
        self.sizes = tuple(one.size for _, one in numbered)
        self.others = tuple(one for one in names if not one.name.endswith(".binpb"))
        self._storage = storage
        self._read = {newest.version: newest}

    @staticmethod
    def of(storage: Storage, region_id: str) -> RegionHistory | None:
        """The history of a region; None where it has no manifest yet.

        Raises:
            PreconditionError: the newest manifest is not the one that writers find.
        """
        listed = 0
        for _ in range(_ATTEMPTS):
            names = storage.list(manifest_directory(region_id))
            newest = read_latest_manifest(storage, region_id)
            listed = max((version for version, _ in _numbered(names)), default=0)
            if newest is None and not listed:
                return None
            if newest is not None and newest.version == listed:
                return RegionHistory(storage, newest, names)
        raise PreconditionError(
            f"region {region_id} in {storage.uri} is not cleaned: its newest manifest is version {listed}, "
            "but whoever follows version_hint.json does not find it. If no writer is busy there, manifests "
            "were removed by hand: restore them"
        )

    def read(self, version: int) -> RegionManifest:
        """A manifest.

        Raises:
            UnavailableError: it is being removed by somebody else.
        """
        if version not in self._read:
            path = manifest_path(self.region_id, version)
            try:
                data = self._storage.read(path)
            except FileNotFoundError:
                data = b""
            if not data:
                raise UnavailableError(
                    f"{self._storage.locate(path)} is being removed by another clean-up; retry"
                )
            self._read[version] = RegionManifest.decode(data, source=self._storage.locate(path))
        return self._read[version]

    def at(self, moment: int) -> RegionManifest | None:
        """The manifest that was the newest at a time; None where it can't be read any more, or never was.

        Args:
            moment: microseconds since 1970.
        """
        at = bisect_right(self.written, moment)
        return self.read(self.versions[at - 1]) if at else None

    def superseded_at(self, at: int) -> int:
        """When the next manifest was written; for the newest, later than any time.

        Args:
            at: number in `versions`.
        """
        return self.written[at + 1] if at + 1 < len(self.written) else FOREVER

    def first_with(self, generation: int) -> tuple[RegionManifest, int] | None:
        """The first manifest that knows a generation to be flushed, and when it was written.

        If a manifest ever listed the generation, this one does, or did before it could be read no longer.
        """
        at = bisect_right(self.versions, generation, key=lambda one: self.read(one).current_generation)
        return (self.read(self.versions[at]), self.written[at]) if at < len(self.versions) else None

    def last_before(self, moment: int, generation: int) -> RegionManifest | None:
        """The newest manifest of a time at which no later generation than this was flushed; None for none.

        Args:
            moment: microseconds since 1970.
            generation: may be flushed, and those before it.
        """
        by_time = bisect_right(self.written, moment)
        flushed = bisect_right(
            self.versions, generation + 1, hi=by_time, key=lambda one: self.read(one).current_generation
        )
        return self.read(self.versions[flushed - 1]) if flushed else None

    def claimed_at(self) -> int | None:
        """When the region's writer claimed it, in microseconds since 1970; None where that is not known."""
        epoch = self.newest.writer_epoch
        at = bisect_left(self.versions, epoch, key=lambda one: self.read(one).writer_epoch)
        is_first = at == 0 and self.versions[0] == 1
        is_behind_another = at > 0 and self.versions[at - 1] == self.versions[at] - 1
        return self.written[at] if is_first or is_behind_another else None


def _numbered(names: tuple[Entry, ...]) -> Iterator[tuple[int, Entry]]:
    """Manifests that are not emptied."""
    for one in names:
        version = parse_manifest_version(one.name)
        if version is not None and one.size:
            yield version, one


@dataclass(frozen=True)
class RegionView:
    """A region.

    Attributes:
        storage: directory of the table.
        region_id: UUID in its usual text form.
        directories: names in the region's directory, listed before its manifests: what is not listed by them
            was not listed by any of that time.
        history: its manifests.
        log: what is in the directory of the log, listed after its manifests.
        settled: the manifest that was the newest a grace ago, which readers may still go by; None where there
            was none, or it can't be read.
        base: the base table.
        policy: what may be removed.
        now: microseconds since 1970.
    """

    storage: Storage
    region_id: str
    directories: tuple[str, ...]
    history: RegionHistory
    log: tuple[Entry, ...]
    settled: RegionManifest | None
    base: Base
    policy: CleanPolicy
    now: int

    @staticmethod
    def of(storage: Storage, region_id: str, base: Base, policy: CleanPolicy, now: int) -> RegionView | None:
        """Look at a region; None where it has no manifest yet."""
        # Directories, then manifests, then the log: this order must not change (ADR 25).
        directories = storage.directories(region_directory(region_id))
        history = RegionHistory.of(storage, region_id)
        if history is None:
            return None
        settled = history.at(now - policy.grace)
        log = storage.list(wal_directory(region_id))
        return RegionView(storage, region_id, directories, history, log, settled, base, policy, now)

    @property
    def newest(self) -> RegionManifest:
        """Its newest manifest."""
        return self.history.newest

    @property
    def merged(self) -> int:
        """Newest generation that the base table contains; 0 for none."""
        return self.base.merged.get(self.region_id, 0)

    @property
    def directory(self) -> str:
        """Below the table's."""
        return region_directory(self.region_id)

    @property
    def log_directory(self) -> str:
        """Below the table's."""
        return wal_directory(self.region_id)
