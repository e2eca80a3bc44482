"""The state of a region for the rules of cleaning, with the history of its manifests."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from lance_gateway.memwal.errors import PreconditionError, UnavailableError
from lance_gateway.memwal.regions.manifest import (
    RegionManifest,
    manifest_directory,
    manifest_path,
    parse_manifest_version,
    read_latest_manifest,
)
from lance_gateway.memwal.regions.wal import wal_directory
from lance_gateway.memwal.storage.files import Entry, Storage, region_directory
from lance_gateway.pipeline.cleaning.garbage import CleanPolicy
from lance_gateway.pipeline.cleaning.versions import FOREVER, Base

_ATTEMPTS = 8


class RegionHistory:
    """The readable manifests of a region, ascending; used by one thread at a time.

    Attributes:
        region_id: id of the region.
        newest: newest manifest.
        versions: versions of the readable manifests.
        written: time of each in microseconds since 1970, ascending.
        sizes: size of each in bytes.
        others: other files of the directory.
    """

    def __init__(self, storage: Storage, newest: RegionManifest, names: tuple[Entry, ...]) -> None:
        self.region_id = newest.region_id
        self.newest = newest
        numbered = sorted(_list_versions(names))
        self.versions = tuple(version for version, _ in numbered)
        # Times of files are inexact; this makes them ascend with the versions.
        self.written = tuple(accumulate((one.written // 1000 for _, one in numbered), max))
        self.sizes = tuple(one.size for _, one in numbered)
        self.others = tuple(name for name in names if not name.name.endswith(".binpb"))
        self._storage = storage
        self._read = {newest.version: newest}

    @staticmethod
    def of(storage: Storage, region_id: str) -> RegionHistory | None:
        """Read the history of a region; None if it has no manifest yet.

        Raises:
            PreconditionError: the newest manifest is not the one that writers find.
        """
        listed = 0
        for _ in range(_ATTEMPTS):
            names = storage.list(manifest_directory(region_id))
            newest = read_latest_manifest(storage, region_id)
            listed = max((version for version, _ in _list_versions(names)), default=0)
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
        """Read a manifest.

        Raises:
            UnavailableError: another clean-up is removing the manifest.
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
        """Return the manifest that was the newest at a time; None if there is no readable one.

        Args:
            moment: microseconds since 1970.
        """
        at = bisect_right(self.written, moment)
        return self.read(self.versions[at - 1]) if at else None

    def find_superseded_time(self, at: int) -> int:
        """Return when the next manifest was written; `FOREVER` for the newest.

        Args:
            at: index into `versions`.
        """
        return self.written[at + 1] if at + 1 < len(self.written) else FOREVER

    def find_first_with(self, generation: int) -> tuple[RegionManifest, int] | None:
        """Return the first readable manifest after the flush of a generation, and when it was written.

        If a readable manifest lists the generation, this one does.
        """
        at = bisect_right(self.versions, generation, key=lambda one: self.read(one).current_generation)
        return (self.read(self.versions[at]), self.written[at]) if at < len(self.versions) else None

    def find_last_before(self, moment: int, generation: int) -> RegionManifest | None:
        """Return the newest manifest of a time at which no later generation was flushed; None for none.

        Args:
            moment: microseconds since 1970.
            generation: newest generation that may be flushed.
        """
        by_time = bisect_right(self.written, moment)
        flushed = bisect_right(
            self.versions, generation + 1, hi=by_time, key=lambda one: self.read(one).current_generation
        )
        return self.read(self.versions[flushed - 1]) if flushed else None

    def find_claim_time(self) -> int | None:
        """Return when the current writer claimed the region, in microseconds since 1970; None if unknown."""
        epoch = self.newest.writer_epoch
        at = bisect_left(self.versions, epoch, key=lambda one: self.read(one).writer_epoch)
        is_first = at == 0 and self.versions[0] == 1
        is_behind_another = at > 0 and self.versions[at - 1] == self.versions[at] - 1
        return self.written[at] if is_first or is_behind_another else None


def _list_versions(names: tuple[Entry, ...]) -> Iterator[tuple[int, Entry]]:
    """Yield the versions and entries of manifests that are not empty."""
    for name in names:
        version = parse_manifest_version(name.name)
        if version is not None and name.size:
            yield version, name


@dataclass(frozen=True)
class RegionView:
    """The state of a region.

    Attributes:
        storage: directory of the table.
        region_id: id of the region.
        directories: names in the region's directory, listed before the manifests are read, so directories of
            later flushes are not among them.
        history: history of the manifests.
        log: entries of the log's directory, listed after the manifests.
        settled: the manifest that was the newest a grace ago, which readers may still use; None if no such
            manifest is readable.
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
        """Read the state of a region; None if it has no manifest yet."""
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
        """The newest manifest."""
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
