"""Versions of the base table: which are kept, what they need, and which Lance removes.

`FOR VERSION AS OF n` reads version n and what was flushed before its commit; `FOR TIMESTAMP AS OF t` reads
the newest version at t and what was flushed before t. So a version stands for the time from its commit to the
next one, or for its commit alone if the next version was removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lance_gateway.memwal.base.index_details import SYSTEM_INDEXES, MemWalIndexDetails, read_index_details
from lance_gateway.memwal.base.version_list import list_versions
from lance_gateway.memwal.errors import InvalidInputError, UnavailableError, shorten_error
from lance_gateway.memwal.regions.manifest import list_regions
from lance_gateway.memwal.storage.files import VERSIONS, Storage, parse_base_manifest_version
from lance_gateway.pipeline.cleaning.garbage import CleanPolicy, Garbage, Kind
from lance_gateway.pipeline.jobs.lake import LakeTable, NoMemWalError

FOREVER = 1 << 62
"""Later than any file."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the base table.

    Attributes:
        number: number of the version.
        committed_at: microseconds since 1970.
        tags: tags of the version.
        branches: that were made from it, and share its files.
    """

    number: int
    committed_at: int
    tags: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """Description for reasons."""
        names = [*self.tags, *self.branches]
        named = f" ({', '.join(map(repr, names))})" if names else ""
        return f"version {self.number}{named}"


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A kept version, and the time that it stands for.

    Attributes:
        version: the version.
        until: last microsecond that it stands for.
        merged: region id -> newest generation that it contains; None where the table had no MemWAL yet.
    """

    version: Version
    until: int
    merged: Mapping[str, int] | None

    def __post_init__(self) -> None:
        if self.until < self.version.committed_at:
            raise InvalidInputError(f"{self.version.described} ends at {self.until}, before it is committed")


@dataclass(frozen=True, slots=True)
class Past:
    """All kept versions, ascending."""

    versions: tuple[PastVersion, ...]

    @property
    def newest(self) -> Version:
        """The table's newest version."""
        return self.versions[-1].version

    def find_needing(self, region_id: str, generation: int, listed_at: int) -> Version | None:
        """Find a version that can't be read without a generation; None if there is none.

        Args:
            region_id: region of the generation.
            generation: number of the generation.
            listed_at: time at which a manifest first listed it, or earlier.
        """
        for version in self.versions:
            is_lacking = version.merged is not None and version.merged.get(region_id, 0) < generation
            if is_lacking and listed_at <= version.until:
                return version.version
        return None

    def find_showing(self, since: int, before: int) -> Version | None:
        """Find a version that stands for a part of a time range; None if there is none.

        Args:
            since: first microsecond of the range.
            before: first microsecond after the range.
        """
        for version in self.versions:
            if (
                version.merged is not None
                and version.version.committed_at < before
                and since <= version.until
            ):
                return version.version
        return None


def list_named_versions(table: LakeTable) -> tuple[Version, ...]:
    """List all versions of the base table, ascending, with their tags and branches.

    Raises:
        CorruptDataError: a version can't be read.
        UnavailableError: storage failed.
    """
    dataset = table.dataset()
    try:
        tagged, branched = dataset.tags.list(), dataset.branches.list()
    except (OSError, ValueError, RuntimeError) as error:
        raise UnavailableError(
            f"{dataset.uri}: tags and branches of the base table can't be listed: {shorten_error(error)}; "
            "retry"
        ) from error
    tags: dict[int, list[str]] = {}
    for name, one in sorted(tagged.items()):
        if one.get("branch") is None:
            tags.setdefault(int(one["version"]), []).append(name)
    branches = _find_branches(branched)
    return tuple(
        Version(
            one.version,
            one.committed_at,
            tuple(tags.get(one.version, ())),
            tuple(branches.get(one.version, ())),
        )
        for one in list_versions(dataset, table.storage)
    )


def _find_branches(listed: Mapping[str, Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return the names of branches by the version of the table that they were made from."""
    found: dict[int, list[str]] = {}
    for name, one in sorted(listed.items()):
        if one.get("parent_branch") is None:
            found.setdefault(int(one["parent_version"]), []).append(name)
    return found


def find_expired(versions: Sequence[Version], policy: CleanPolicy, now: int) -> tuple[Version, ...]:
    """Find the versions that may be removed.

    The newest version, those with tags or branches, and those that were the newest within the grace are kept,
    since readers may still use them.

    Args:
        versions: all versions, ascending.
        policy: what may be removed.
        now: microseconds since 1970.
    """
    if Kind.VERSIONS not in policy.kinds:
        return ()
    candidates = versions[: -(policy.retain_versions or 1)]
    followers = dict(zip((version.number for version in versions), versions[1:], strict=False))
    return tuple(
        candidate
        for candidate in candidates
        if not (candidate.tags or candidate.branches)
        and candidate.committed_at <= now - policy.version_age
        and followers[candidate.number].committed_at <= now - policy.grace
    )


def read_past(table: LakeTable, kept: Sequence[Version]) -> Past:
    """Read what kept versions contain.

    Args:
        table: the table.
        kept: kept versions, ascending; the last one is the newest of the table.
    """
    details = table.storage.each(lambda one: read_index_details(table.storage, one.number), kept)
    found = []
    for at, (version, one) in enumerate(zip(kept, details, strict=True)):
        until = FOREVER
        if at + 1 < len(kept):
            follower = kept[at + 1]
            is_next = follower.number == version.number + 1
            until = max(follower.committed_at, version.committed_at) if is_next else version.committed_at
        found.append(PastVersion(version, until, None if one is None else one.merged_generations))
    return Past(tuple(found))


@dataclass(frozen=True, slots=True)
class Base:
    """The state of a base table, read before the manifests of regions: merged generations stay merged.

    Attributes:
        merged: region id -> newest generation that the newest version contains.
        lagging: name of a maintained index that does not cover the whole table -> region id -> newest
            generation that it covers.
        past: the kept versions.
    """

    merged: Mapping[str, int]
    lagging: Mapping[str, Mapping[str, int]]
    past: Past

    def lagging_index(self, region_id: str, generation: int) -> str | None:
        """Return a maintained index that lacks rows of a merged generation; None if there is none."""
        lacking = (name for name, covered in self.lagging.items() if covered.get(region_id, 0) < generation)
        return next(lacking, None)

    def refresh(self, table: LakeTable) -> Base:
        """Return the state with the current progress of merges and indexes."""
        merged, lagging = _read_progress(table)
        return replace(self, merged=merged, lagging=lagging)


def read_base(table: LakeTable, past: Past) -> Base:
    """Read the state of a base table.

    Raises:
        NoMemWalError: the table has no MemWAL.
    """
    return Base(*_read_progress(table), past)


def _read_progress(table: LakeTable) -> tuple[Mapping[str, int], Mapping[str, Mapping[str, int]]]:
    dataset = table.dataset()
    details = read_index_details(table.storage, dataset.version)
    if details is None and (left := list_regions(table.storage)):
        raise NoMemWalError(
            f"table {table.name!r} has no MemWAL, but {len(left)} regions of an earlier one, such as "
            f"{left[0]}. ALTER TABLE {table.name} SET (memwal = true, discard_regions = true) through a "
            "gateway gives them up, and what no version needs of them is cleaned up from then on"
        )
    if details is None:
        raise NoMemWalError(
            f"table {table.name!r} has no MemWAL, and so nothing to clean here: Lance's own "
            "cleanup_old_versions() removes old versions of plain tables"
        )
    return details.merged_generations, _find_lagging(dataset, details)


def _find_lagging(dataset: Any, details: MemWalIndexDetails) -> dict[str, Mapping[str, int]]:  # noqa: ANN401
    """Find maintained indexes that lack fragments, and the generations that they cover.

    Indexes that cover all fragments are left out, since compaction resets their recorded progress.
    """
    fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
    found = {}
    for index in dataset.describe_indices():
        is_maintained = details.maintain_all_indexes or index.name in details.maintained_indexes
        if index.name in SYSTEM_INDEXES or not is_maintained:
            continue
        covered = {fragment_id for segment in index.segments for fragment_id in segment.fragment_ids}
        if not fragments <= covered:
            found[index.name] = details.index_catchup.get(index.name, {})
    return found


_PARTS = ("data", "_deletions", "_indices")


def find_old_versions(
    table: LakeTable, versions: Sequence[Version], expired: Sequence[Version]
) -> Iterator[Garbage]:
    """Yield expired versions, each with the size of the files that no later version has.

    Versions that another run has removed meanwhile are left out.

    Raises:
        UnavailableError: an existing version can't be read.
    """
    if not expired:
        return
    sizes = {f"{part}/{file.name}": file.size for part in _PARTS for file in table.storage.files(part)}
    of_indexes: dict[str, int] = {}
    for path, size in sizes.items():
        if path.startswith("_indices/"):
            of_indexes[path.split("/")[1]] = of_indexes.get(path.split("/")[1], 0) + size
    manifests = _read_manifest_sizes(table.storage)
    gone = {version.number for version in expired}
    newest = table.dataset()
    seen: set[str] = set()
    for version in versions:
        if version.number not in gone:
            seen.update(_list_files(table, newest, version.number) or ())
    for version in reversed(expired):
        found = _list_files(table, newest, version.number)
        if found is None:
            continue
        own = found - seen
        seen |= own
        size = manifests.get(version.number, 0)
        size += sum(sizes.get(path, of_indexes.get(path, 0)) for path in own)
        reason = (
            "older than versions are kept; no tag or branch names it, nor was it the newest within the grace"
        )
        yield Garbage(
            Kind.VERSIONS,
            VERSIONS,
            size,
            reason,
            files=1 + len(own),
            first=version.number,
            last=version.number,
        )


def remove_versions(table: LakeTable, numbers: Sequence[int]) -> frozenset[int]:
    """Remove versions by Lance, which keeps those that it needs itself; return those that are gone.

    Raises:
        UnavailableError: some versions were not removed.
    """
    try:
        table.dataset().cleanup_old_versions(versions=list(numbers), error_if_tagged_old_versions=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = shorten_error(error)
        raise UnavailableError(
            f"table {table.name!r}: old versions of the base table were not removed: {reason}"
        ) from error
    return frozenset(numbers) - _read_manifest_sizes(table.storage).keys()


def _list_files(table: LakeTable, newest: Any, number: int) -> set[str] | None:  # noqa: ANN401 - lance types
    """List data files, deletion files and index ids of a version; returns None if it was removed.

    Args:
        table: the table.
        newest: any version of it, as a `lance.LanceDataset`.
        number: number of the version.

    Raises:
        UnavailableError: the version exists and can't be read.
    """
    try:
        return _list_dataset_files(newest.checkout_version(number))
    except (OSError, ValueError) as error:
        if number not in _read_manifest_sizes(table.storage):
            return None
        raise UnavailableError(
            f"table {table.name!r}: version {number} can't be read: {shorten_error(error)}"
        ) from error


def _list_dataset_files(dataset: Any) -> set[str]:  # noqa: ANN401 - lance types
    found: set[str] = set()
    for fragment in dataset.get_fragments():
        found.update(f"data/{file.path}" for file in fragment.metadata.files)
        deletions = fragment.deletion_file()
        if deletions:
            found.add(str(deletions))
    for index in dataset.describe_indices():
        found.update(str(segment.uuid) for segment in index.segments)
    return found


def _read_manifest_sizes(storage: Storage) -> dict[int, int]:
    """Return version -> size of its manifest; handles both naming schemes."""
    files = ((parse_base_manifest_version(entry.name), entry.size) for entry in storage.list(VERSIONS))
    return {version: size for version, size in files if version is not None}
