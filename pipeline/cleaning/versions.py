"""Old versions of the base table, which Lance removes with all files that no other version has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memwal.errors import UnavailableError, brief
from memwal.storage.files import VERSIONS, Storage, base_manifest_version
from pipeline.cleaning.garbage import Garbage, Kind
from pipeline.cleaning.past import Version
from pipeline.jobs.lake import LakeTable

_PARTS = ("data", "_deletions", "_indices")


def old_versions(
    table: LakeTable, versions: Sequence[Version], expired: Sequence[Version]
) -> Iterator[Garbage]:
    """Versions that expired, each with the bytes of what no later version has.

    Those that another run has removed by now are left out.

    Args:
        table: whose versions they are.
        versions: all of them, ascending.
        expired: those that go.

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
        reason = brief(error)
        msg = f"table {table.name!r}: old versions of the base table were not removed: {reason}"
        raise UnavailableError(msg) from error


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
        msg = f"table {table.name!r}: version {number} can't be read: {brief(error)}"
        raise UnavailableError(msg) from error


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
    files = ((base_manifest_version(one.name), one.size) for one in storage.list(VERSIONS))
    return {version: size for version, size in files if version is not None}
