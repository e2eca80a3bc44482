"""What cleaning finds, and what it may remove."""

from dataclasses import dataclass
from enum import Enum

from memwal.errors import InvalidInputError


class Kind(Enum):
    """What garbage is, and what becomes of it.

    VERSIONS: of the base table; Lance removes them, and the files that no other version has.
    GENERATIONS: merged, and still listed; they are taken out of their region's manifest.
    DIRECTORIES: of generations that no manifest lists; they are deleted.
    LOG: entries; they are deleted.
    MANIFESTS: older ones of regions; their contents are deleted, and their names stay.
    LEFTOVERS: drafts of files, records and markers; they are deleted.
    """

    VERSIONS = "versions"
    GENERATIONS = "generations"
    DIRECTORIES = "directories"
    LOG = "log"
    MANIFESTS = "manifests"
    LEFTOVERS = "leftovers"


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something that nobody needs any more.

    Attributes:
        kind: of garbage.
        path: below the table's directory.
        bytes: that removing it sets free; those of GENERATIONS come free when their directories go.
        reason: why nobody needs it.
        region_id: UUID in its usual text form; "" for what belongs to no region.
        files: how many there are.
        first: number of the first file, of what has numbers: versions and positions; 0 for none.
        last: number of the last file.
    """

    kind: Kind
    path: str
    bytes: int
    reason: str
    region_id: str = ""
    files: int = 1
    first: int = 0
    last: int = 0

    def __post_init__(self) -> None:
        if self.bytes < 0 or self.first > self.last or ".." in self.path.split("/"):
            raise InvalidInputError(
                f"garbage {self.path!r} has {self.bytes} bytes and numbers {self.first} to {self.last}"
            )

    @property
    def described(self) -> str:
        """Path, with numbers of files where they have any."""
        if not self.last:
            return self.path
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}..{self.last}"
        return f"{self.path} {numbers}"


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that is no garbage yet.

    Attributes:
        kind: of garbage that it will be.
        path: below the table's directory.
        reason: what it waits for.
    """

    kind: Kind
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What a look at a table finds.

    Attributes:
        garbage: by kind in the order of removal, then by path.
        kept: what has to wait.
    """

    garbage: tuple[Garbage, ...] = ()
    kept: tuple[Kept, ...] = ()

    def of(self, kind: Kind) -> tuple[Garbage, ...]:
        """Garbage of one kind."""
        return tuple(one for one in self.garbage if one.kind is kind)


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What a job did.

    Attributes:
        table: its name.
        is_removed: whether the garbage was removed, or only looked for.
        garbage: that was removed, or would be.
        kept: what has to wait.
    """

    table: str
    is_removed: bool
    garbage: tuple[Garbage, ...]
    kept: tuple[Kept, ...]

    @property
    def bytes(self) -> int:
        """That came free, or would; without GENERATIONS, whose directories go later."""
        return sum(one.bytes for one in self.garbage if one.kind is not Kind.GENERATIONS)


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
            raise InvalidInputError(f"a grace of {self.grace_seconds} s can't be: give 0 or more")
        if self.older_than_seconds is not None and self.older_than_seconds < 0:
            raise InvalidInputError(
                f"versions older than {self.older_than_seconds} s can't be removed: give 0 or more"
            )
        if self.retain_versions is not None and self.retain_versions < 1:
            raise InvalidInputError(
                f"{self.retain_versions} versions can't be retained: the newest always stays, give 1 or more"
            )
        if not self.kinds:
            raise InvalidInputError(
                f"no kind of garbage is given: name some of {', '.join(one.value for one in Kind)}"
            )

    @property
    def grace(self) -> int:
        """In microseconds."""
        return int(self.grace_seconds * 1e6)

    @property
    def version_age(self) -> int:
        """Versions of the base table that are younger stay; in microseconds."""
        default = WEEK_SECONDS if self.retain_versions is None else 0.0
        return int((default if self.older_than_seconds is None else self.older_than_seconds) * 1e6)
