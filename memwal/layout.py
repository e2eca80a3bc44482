"""Where the files of MemWAL are, below a table's directory."""

from functools import lru_cache
from typing import Final

from memwal.errors import InvalidInputError

MEM_WAL: Final = "_mem_wal"
VERSIONS: Final = "_versions"
EXTENTS: Final = "_gateway/merging"
_BITS: Final = 64
_LARGEST: Final = (1 << _BITS) - 1


@lru_cache(maxsize=4096)
def bit_reversed(number: int) -> str:
    """Returns the 64 binary digits of a number, lowest first: sequential files spread over an object store.

    Raises:
        InvalidInputError: the number does not fit 64 bits.
    """
    if not 0 <= number < 1 << _BITS:
        msg = f"{number} cannot name a file: a version or position is between 0 and 2^{_BITS} - 1"
        raise InvalidInputError(msg)
    return f"{number:0{_BITS}b}"[::-1]


def from_bit_reversed(digits: str) -> int | None:
    """Returns the number that 64 reversed binary digits stand for, or None when they are something else."""
    if len(digits) != _BITS or digits.strip("01"):
        return None
    return int(digits[::-1], 2)


def base_manifest_paths(version: int) -> tuple[str, str]:
    """Returns the two files of which one is the manifest of a version of the base table.

    By the newer naming scheme, which comes first, versions count down: the newest is listed first.
    """
    return f"{VERSIONS}/{_LARGEST - version:020d}.manifest", f"{VERSIONS}/{version}.manifest"


def region_directory(region_id: str) -> str:
    """Returns the directory of a region."""
    return f"{MEM_WAL}/{region_id}"


def generation_directory(region_id: str, path: str) -> str:
    """Returns the directory of a flushed generation, whose `path` a region's manifest records."""
    return f"{MEM_WAL}/{region_id}/{path}"


def manifest_directory(region_id: str) -> str:
    """Returns the directory of a region's manifests."""
    return f"{MEM_WAL}/{region_id}/manifest"


def manifest_path(region_id: str, version: int) -> str:
    """Returns the file of one version of a region's manifest."""
    return f"{manifest_directory(region_id)}/{bit_reversed(version)}.binpb"


def version_hint_path(region_id: str) -> str:
    """Returns the file that names a recent version of a region's manifest."""
    return f"{manifest_directory(region_id)}/version_hint.json"


def wal_entry_path(region_id: str, position: int) -> str:
    """Returns the file of one WAL entry; positions start at 1."""
    return f"{MEM_WAL}/{region_id}/wal/{bit_reversed(position)}.arrow"


def extent_path(region_id: str, first: int) -> str:
    """Returns the file in which mergers agree where a merge ends that begins at generation `first`."""
    return f"{EXTENTS}/{region_id}.{first}"
