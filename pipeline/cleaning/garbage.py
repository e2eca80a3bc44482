"""Garbage, the results of cleaning, and its policy."""

from dataclasses import dataclass
from enum import Enum

from lance_gateway.memwal.errors import InvalidInputError


class Kind(Enum):
    """Kinds of garbage.

    VERSIONS: versions of the base table; Lance removes them, and the files that no other version has.
    GENERATIONS: merged generations that are still listed; they are removed from their region's manifest.
    DIRECTORIES: directories of generations that no manifest lists; they are deleted.
    LOG: log entries; they are deleted.
    MANIFESTS: older manifests of regions; their contents are deleted, and their names stay.
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
    """Files that nobody needs any more.

    Attributes:
        kind: kind of garbage.
        path: path relative to the table's directory.
        bytes: size; that of GENERATIONS is freed when their directories are deleted.
        reason: why nobody needs them.
        region_id: id of the region; "" if they belong to no region.
        files: number of files.
        first: number of the first version or log position; 0 for files without numbers.
        last: number of the last one.
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
        """Path, and the range of numbers, if there is one."""
        if not self.last:
            return self.path
        numbers = f"{self.first}" if self.first == self.last else f"{self.first}..{self.last}"
        return f"{self.path} {numbers}"


@dataclass(frozen=True, slots=True)
class Kept:
    """Files that will become garbage.

    Attributes:
        kind: kind of garbage.
        path: path relative to the table's directory.
        reason: what their removal waits for.
    """

    kind: Kind
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    """The garbage of a table or region.

    Attributes:
        garbage: by kind in the order of removal, then by path.
        kept: files that have to wait.
    """

    garbage: tuple[Garbage, ...] = ()
    kept: tuple[Kept, ...] = ()

    def of(self, kind: Kind) -> tuple[Garbage, ...]:
        """Return the garbage of a kind."""
        return tuple(item for item in self.garbage if item.kind is kind)


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The result of a clean job.

    Attributes:
        table: name of the table.
        is_removed: whether the garbage was removed, or only found.
        garbage: the garbage.
        kept: files that have to wait.
    """

    table: str
    is_removed: bool
    garbage: tuple[Garbage, ...]
    kept: tuple[Kept, ...]

    @property
    def bytes(self) -> int:
        """Size of the garbage, without GENERATIONS, whose directories are deleted later."""
        return sum(item.bytes for item in self.garbage if item.kind is not Kind.GENERATIONS)


GRACE_SECONDS = 900.0
"""Longer than a gateway's tickets (600 s) and any statement that it runs in the time it is allowed."""

WEEK_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class CleanPolicy:
    """What may be removed, and how long to wait for readers.

    Attributes:
        grace_seconds: files that a reader may have found so long ago are kept. Longer than any query and any
            ticket.
        older_than_seconds: minimum age of versions of the base table that may be removed, with the files that
            only `FOR VERSION AS OF` needs. None for a week, or for any age if `retain_versions` is set.
        retain_versions: number of newest versions to keep; None for one.
        keep_changes_seconds: how long `lance_changes` can go on from a token, and tell every single change
            since then: what states so young need is kept: merged generations, log entries and versions.
        kinds: kinds of garbage.
    """

    grace_seconds: float = GRACE_SECONDS
    older_than_seconds: float | None = None
    retain_versions: int | None = None
    keep_changes_seconds: float = 0.0
    kinds: tuple[Kind, ...] = tuple(Kind)

    def __post_init__(self) -> None:
        if not 0 <= self.grace_seconds < float("inf"):
            raise InvalidInputError(f"a grace of {self.grace_seconds} s can't be: give 0 or more")
        if not 0 <= self.keep_changes_seconds < float("inf"):
            raise InvalidInputError(
                f"changes can't be kept for {self.keep_changes_seconds} s: give 0 or more, such as 1d"
            )
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
        """How long a state stays readable, in microseconds: for queries that run, and for tokens."""
        return int(max(self.grace_seconds, self.keep_changes_seconds) * 1e6)

    @property
    def version_age(self) -> int:
        """Minimum age of versions that may be removed, in microseconds."""
        default = WEEK_SECONDS if self.retain_versions is None else 0.0
        return int((default if self.older_than_seconds is None else self.older_than_seconds) * 1e6)
