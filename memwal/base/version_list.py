"""The versions of a base table, while others commit new ones and remove old ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from lance_gateway.memwal.errors import build_read_error, shorten_error
from lance_gateway.memwal.storage.files import VERSIONS, Entry, Storage, parse_base_manifest_version

_FAILURES: Final = (OSError, ValueError, RuntimeError)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CommittedVersion(NamedTuple):
    """Version of a base table.

    Attributes:
        version: number.
        committed_at: microseconds since 1970.
        rows: in it, deleted ones not counted; None where that is not recorded.
    """

    version: int
    committed_at: int
    rows: int | None


def list_manifests(table: Storage) -> dict[int, Entry]:
    """Return the manifest files by version, without detached versions; none of them is read."""
    files = ((parse_base_manifest_version(entry.name), entry) for entry in table.list(VERSIONS))
    return {version: entry for version, entry in files if version is not None}


def list_versions(dataset: Any, table: Storage) -> tuple[CommittedVersion, ...]:  # noqa: ANN401 - lance types
    """Return all versions that exist, ascending.

    Lance lists the manifests, reads all of them, and fails if one was removed in between. Then they are read
    one by one, and those that are gone are left out.

    Args:
        dataset: `lance.LanceDataset` at any version.
        table: its directory.

    Raises:
        CorruptDataError: a manifest that is there can't be read.
        UnavailableError: storage failed.
    """
    try:
        listed = dataset.versions()
    except _FAILURES:
        listed = [one for version in sorted(list_manifests(table)) for one in _read(dataset, table, version)]
    found = (CommittedVersion(int(one["version"]), _read_time(one), _read_row_count(one)) for one in listed)
    return tuple(sorted(found))


def read_commit_time(dataset: Any) -> int:  # noqa: ANN401 - lance types
    """Return when the version of an open `lance.LanceDataset` was committed, in microseconds since 1970."""
    return _read_time(dataset.get_version())


def _read(dataset: Any, table: Storage, version: int) -> list[Mapping[str, Any]]:  # noqa: ANN401 - lance types
    """Return what Lance tells of a version; [] if it was removed."""
    try:
        return [dataset.checkout_version(version).get_version()]
    except _FAILURES as error:
        if version not in list_manifests(table):
            return []
        msg = f"{table.uri}: version {version} of the base table can't be read: {shorten_error(error)}"
        raise build_read_error(msg, error) from error


def _read_time(version: Mapping[str, Any]) -> int:
    # Lance returns local time without a zone.
    moment: datetime = version["timestamp"]
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


def _read_row_count(version: Mapping[str, Any]) -> int | None:
    recorded = version.get("metadata", {}).get("total_rows")
    return None if recorded is None else int(recorded)
