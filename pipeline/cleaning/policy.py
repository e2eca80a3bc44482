"""What may be removed."""

from __future__ import annotations

from dataclasses import dataclass

from memwal.errors import InvalidInputError
from pipeline.cleaning.garbage import Kind

GRACE_SECONDS = 900.0
"""Longer than a gateway's tickets (600 s) and any statement that it runs in the time it is allowed."""

WEEK_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class CleanPolicy:
    """What may be removed, and how long readers are waited for.

    Attributes:
        grace_seconds: what a reader may have found so long ago stays. Longer than any query and any ticket.
        older_than_seconds: versions of the base table that were committed longer ago may go, and with them
            what they alone need to be read `FOR VERSION AS OF`. None for a week, or for any age where
            `retain_versions` is given.
        retain_versions: so many of the newest versions stay; None for the newest alone.
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
    def version_age(self) -> int:
        """Versions of the base table that are younger stay; in microseconds."""
        default = WEEK_SECONDS if self.retain_versions is None else 0.0
        return int((default if self.older_than_seconds is None else self.older_than_seconds) * 1e6)
