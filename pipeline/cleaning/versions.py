"""Versions of the base table: those that are kept, what each of them needs, and those that Lance removes.

`FOR VERSION AS OF n` shows version n and what was flushed by its commit, `FOR TIMESTAMP AS OF t` the newest
version of that time and what was flushed by t. So a version stands for a stretch of time: from its commit to
the next one's. Where the next version was removed, only its own commit is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memwal.base.index_details import MEM_WAL_INDEX, MemWalIndexDetails, read_index_details
from memwal.errors import InvalidInputError, UnavailableError, shorten_error
from memwal.regions.manifest import list_regions
from memwal.storage.files import VERSIONS, Storage, parse_base_manifest_version
from pipeline.cleaning.garbage import CleanPolicy, Garbage, Kind
from pipeline.jobs.lake import LakeTable, NoMemWalError

FOREVER = 1 << 62
"""Later than any file."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Since 1970; Lance tells local time."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the base table.

    Attributes:
        number: of it.
        committed_at: microseconds since 1970.
        tags: that name it.
    """

    number: int
    committed_at: int
    tags: tuple[str, ...] = ()

    @property
    def described(self) -> str:
        """For reasons."""
        named = f" ({', '.join(map(repr, self.tags))})" if self.tags else ""
        return f"version {self.number}{named}"


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A version that is kept, and the time it stands for.

    Attributes:
        version: which.
        until: last microsecond at which what is read as it was may be this version.
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
    """All versions that are kept, ascending."""

    versions: tuple[PastVersion, ...]

    @property
    def newest(self) -> Version:
        """The table's newest version."""
        return self.versions[-1].version

    def needing(self, region_id: str, generation: int, listed_at: int) -> Version | None:
        """A version that can't be read as it was without a generation; None where each can.

        Args:
            region_id: of the generation.
            generation: its number.
            listed_at: when a manifest listed it first, or earlier.
        """
        for one in self.versions:
            is_lacking = one.merged is not None and one.merged.get(region_id, 0) < generation
            if is_lacking and listed_at <= one.until:
                return one.version
        return None

    def showing(self, since: int, before: int) -> Version | None:
        """A version that stands for a part of a stretch of time; None where none does.

        Args:
            since: first microsecond.
            before: behind the last microsecond.
        """
        for one in self.versions:
            if one.merged is not None and one.version.committed_at < before and since <= one.until:
                return one.version
        return None


def list_versions(dataset: Any) -> tuple[Version, ...]:  # noqa: ANN401 (lance types)
    """All versions of a `lance.LanceDataset`, ascending, with their tags.

    Raises:
        UnavailableError: one can't be read, or is being removed by another run.
    """
    try:
        tagged, listed = dataset.tags.list(), dataset.versions()
    except (OSError, ValueError, RuntimeError) as error:
        raise UnavailableError(
            f"{dataset.uri}: versions of the base table can't be listed: {shorten_error(error)}; retry"
        ) from error
    tags: dict[int, list[str]] = {}
    for name, one in sorted(tagged.items()):
        if one.get("branch") is None:
            tags.setdefault(int(one["version"]), []).append(name)
    found = (
        Version(number, microseconds(one["timestamp"]), tuple(tags.get(number, ())))
        for one in listed
        for number in (int(one["version"]),)
    )
    return tuple(sorted(found, key=lambda one: one.number))


def expired(versions: Sequence[Version], policy: CleanPolicy, now: int) -> tuple[Version, ...]:
    """Versions that may go.

    The newest stays, as do those with tags, and those that were the newest within the grace: whoever began to
    read them may not be done.

    Args:
        versions: all of them, ascending.
        policy: what may go.
        now: microseconds since 1970.
    """
    if Kind.VERSIONS not in policy.kinds:
        return ()
    candidates = versions[: -(policy.retain_versions or 1)]
    followers = dict(zip((one.number for one in versions), versions[1:], strict=False))
    return tuple(
        one
        for one in candidates
        if not one.tags
        and one.committed_at <= now - policy.version_age
        and followers[one.number].committed_at <= now - policy.grace
    )


def past_of(table: LakeTable, kept: Sequence[Version]) -> Past:
    """What versions need.

    Args:
        table: whose versions they are.
        kept: ascending; the last one is the newest of the table.
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
    """What is known of a base table; read before the manifests of regions: what it has merged stays merged.

    Attributes:
        merged: region id -> newest generation that the newest version contains.
        lagging: name of a maintained index that does not cover the whole table -> region id -> newest
            generation that it covers.
        past: versions that are kept.
    """

    merged: Mapping[str, int]
    lagging: Mapping[str, Mapping[str, int]]
    past: Past

    def lagging_index(self, region_id: str, generation: int) -> str | None:
        """A maintained index that lacks rows of a merged generation; None where none does."""
        lacking = (name for name, covered in self.lagging.items() if covered.get(region_id, 0) < generation)
        return next(lacking, None)

    def still(self, table: LakeTable) -> Base:
        """The same, with what is merged and indexed by now."""
        merged, lagging = _progress(table)
        return replace(self, merged=merged, lagging=lagging)


def read_base(table: LakeTable, past: Past) -> Base:
    """Look at a base table.

    Raises:
        NoMemWalError: it has no MemWAL.
    """
    return Base(*_progress(table), past)


def _progress(table: LakeTable) -> tuple[Mapping[str, int], Mapping[str, Mapping[str, int]]]:
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
    return details.merged_generations, _lagging(dataset, details)


def _lagging(dataset: Any, details: MemWalIndexDetails) -> dict[str, Mapping[str, int]]:  # noqa: ANN401
    """Indexes that lack fragments: those that cover all of them have whatever was merged.

    Progress by generation is lost when the table is compacted, so it is only asked for what is lacking.
    """
    fragments = {one.fragment_id for one in dataset.get_fragments()}
    found = {}
    for index in dataset.describe_indices():
        is_maintained = details.maintain_all_indexes or index.name in details.maintained_indexes
        if index.name == MEM_WAL_INDEX or not is_maintained:
            continue
        covered = {one for segment in index.segments for one in segment.fragment_ids}
        if not fragments <= covered:
            found[index.name] = details.index_catchup.get(index.name, {})
    return found


_PARTS = ("data", "_deletions", "_indices")


def old_versions(
    table: LakeTable, versions: Sequence[Version], expired: Sequence[Version]
) -> Iterator[Garbage]:
    """Versions that expired, each with the bytes of what no later version has.

    Those that another run has removed by now are left out.

    Raises:
        UnavailableError: one is there and can't be read.
    """
    if not expired:
        return
    sizes = {f"{part}/{one.name}": one.size for part in _PARTS for one in table.storage.files(part)}
    of_indexes: dict[str, int] = {}
    for path, size in sizes.items():
        if path.startswith("_indices/"):
            of_indexes[path.split("/")[1]] = of_indexes.get(path.split("/")[1], 0) + size
    manifests = _manifest_sizes(table.storage)
    gone = {one.number for one in expired}
    newest = table.dataset()
    seen: set[str] = set()
    for one in versions:
        if one.number not in gone:
            seen.update(_files(table, newest, one.number) or ())
    for one in reversed(expired):
        found = _files(table, newest, one.number)
        if found is None:
            continue
        own = found - seen
        seen |= own
        size = manifests.get(one.number, 0)
        size += sum(sizes.get(path, of_indexes.get(path, 0)) for path in own)
        reason = "older than versions are kept; neither tagged nor the newest within the grace"
        yield Garbage(
            Kind.VERSIONS, VERSIONS, size, reason, files=1 + len(own), first=one.number, last=one.number
        )


def remove_versions(table: LakeTable, numbers: Sequence[int]) -> None:
    """Remove versions by Lance, which leaves the newest and those with tags alone.

    Raises:
        UnavailableError: it was not done, or not all of it.
    """
    try:
        table.dataset().cleanup_old_versions(versions=list(numbers), error_if_tagged_old_versions=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = shorten_error(error)
        raise UnavailableError(
            f"table {table.name!r}: old versions of the base table were not removed: {reason}"
        ) from error


def _files(table: LakeTable, newest: Any, number: int) -> set[str] | None:  # noqa: ANN401 (lance types)
    """Data files, deletion files and ids of indexes of a version; None where it is gone.

    Args:
        table: whose version it is.
        newest: a version of it, a `lance.LanceDataset`.
        number: of the version.

    Raises:
        UnavailableError: it is there and can't be read.
    """
    try:
        return _files_of(newest.checkout_version(number))
    except (OSError, ValueError) as error:
        if number not in _manifest_sizes(table.storage):
            return None
        raise UnavailableError(
            f"table {table.name!r}: version {number} can't be read: {shorten_error(error)}"
        ) from error


def _files_of(dataset: Any) -> set[str]:  # noqa: ANN401 (lance types)
    found: set[str] = set()
    for fragment in dataset.get_fragments():
        found.update(f"data/{one.path}" for one in fragment.metadata.files)
        deletions = fragment.deletion_file()
        if deletions:
            found.add(str(deletions))
    for index in dataset.describe_indices():
        found.update(str(segment.uuid) for segment in index.segments)
    return found


def _manifest_sizes(storage: Storage) -> dict[int, int]:
    """By version; named by either scheme."""
    files = ((parse_base_manifest_version(one.name), one.size) for one in storage.list(VERSIONS))
    return {version: size for version, size in files if version is not None}
