"""Versions of the base table that are kept, and what each of them needs to be read as it was.

`FOR VERSION AS OF n` shows version n and what was flushed by its commit, `FOR TIMESTAMP AS OF t` the newest
version of that time and what was flushed by t. So a version stands for a stretch of time: from its commit to
the next one's. Where the next version was removed, only its own commit is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memwal.base.index_details import read_index_details
from memwal.errors import InvalidInputError, UnavailableError, brief
from pipeline.cleaning.garbage import Kind
from pipeline.cleaning.policy import CleanPolicy
from pipeline.jobs.lake import LakeTable

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
            msg = f"{self.version.described} ends at {self.until}, before it is committed"
            raise InvalidInputError(msg)


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
        msg = f"{dataset.uri}: versions of the base table can't be listed: {brief(error)}; retry"
        raise UnavailableError(msg) from error
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

    Raises:
        LanceGatewayError: one can't be read.
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
