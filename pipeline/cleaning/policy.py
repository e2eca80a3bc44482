"""What may be removed."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.errors import InvalidInputError
from pipeline.cleaning.garbage import Kind

GRACE_SECONDS = 900.0
"""Longer than a gateway's tickets (600 s) and any statement that it runs in the time it is allowed."""


@dataclass(frozen=True, slots=True)
class CleanPolicy:
    """What may be removed, and how long readers are waited for.

    Attributes:
        grace_seconds: what a reader may have found so long ago stays. Longer than any query and any ticket.
        older_than_seconds: versions of the base table that were committed longer ago may go; None for all.
        retain_versions: so many of the newest versions stay; None for no such number. Without either, none
            goes, and neither does what a version needs to be read `FOR VERSION AS OF`.
        kinds: of garbage.
    """

    grace_seconds: float = GRACE_SECONDS
    older_than_seconds: float | None = None
    retain_versions: int | None = None
    kinds: tuple[Kind, ...] = tuple(Kind)

    def __post_init__(self) -> None:
        if not 0 <= self.grace_seconds < float("inf"):
            msg = f"a grace of {self.grace_seconds} s can't be: give 0 or more"
            raise InvalidInputError(msg)
        if self.older_than_seconds is not None and self.older_than_seconds < 0:
            msg = f"versions older than {self.older_than_seconds} s can't be removed: give 0 or more"
            raise InvalidInputError(msg)
        if self.retain_versions is not None and self.retain_versions < 1:
            msg = (
                f"{self.retain_versions} versions can't be retained: the newest always stays, give 1 or more"
            )
            raise InvalidInputError(msg)
        if not self.kinds:
            msg = f"no kind of garbage is given: name some of {', '.join(one.value for one in Kind)}"
            raise InvalidInputError(msg)

    @property
    def grace(self) -> int:
        """In microseconds."""
        return int(self.grace_seconds * 1e6)

    @property
    def removes_versions(self) -> bool:
        """Whether versions of the base table may go."""
        limits = (self.older_than_seconds, self.retain_versions)
        return Kind.VERSIONS in self.kinds and limits != (None, None)
