"""Commits on top of one given version of a base table.

Lance commits an index on the newest version: an index that was built from an older one would replace what a
merge recorded in between. So Lance writes the manifest as a detached version, which readers ignore; it
becomes the next version by a file that only one process can create.
"""

from __future__ import annotations

import json
import logging
import random
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final, TypeVar

import lance

from lance_gateway.memwal.base.manifest_names import build_names_error, has_first_names
from lance_gateway.memwal.base.version_list import list_manifests
from lance_gateway.memwal.errors import (
    CorruptDataError,
    LanceGatewayError,
    PreconditionError,
    UnavailableError,
    UnsupportedError,
    is_storage_failure,
    shorten_error,
)
from lance_gateway.memwal.storage.files import VERSIONS, Storage, base_manifest_paths
from lance_gateway.protos import mem_wal_pb2

logger = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")

ATTEMPTS: Final = 12
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0
_CONFLICTS: Final = (
    "commit conflict",
    "conflicted",
    "preempted by concurrent",
    "please retry",
    "concurrent writers",
    "concurrent transaction",
)


def commit_with_retries(failing: str, change: Callable[[], Outcome]) -> Outcome:
    """Call a function that commits; call it again if another commit came first.

    Args:
        failing: begins the message of an error: "table 't': can't build index 'x'".
        change: opens the newest version of a table, works, and commits.

    Raises:
        PreconditionError: Lance refuses it; says why.
        UnavailableError: others were first, time after time.
    """
    failure: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            # Whoever lost waits a little longer each time, and not all for the same time.
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt)
            time.sleep(random.uniform(0.5, 1.0) * pause)  # noqa: S311 - no secret
        try:
            return change()
        except LanceGatewayError:
            raise
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, NotImplementedError) as error:
            reason = shorten_error(error)
            if not any(word in reason.lower() for word in _CONFLICTS):
                msg = f"{failing}: {reason}"
                raise (UnavailableError if is_storage_failure(error) else PreconditionError)(msg) from error
            failure = error
    msg = f"{failing}: {ATTEMPTS} times another change came first; try again later"
    raise UnavailableError(msg) from failure


_FOOTER: Final = struct.Struct("<QHH4s")
_LENGTH: Final = struct.Struct("<I")
# Versions count down in names of so many digits.
_HINT: Final = f"{VERSIONS}/latest_version_hint.json"


class NotCommittedError(UnavailableError):
    """A version could not be made, and it is certain that nothing was committed."""


def commit_next(table: Storage, version: int, *operations: Any) -> bool:  # noqa: ANN401 - lance types
    """Commit operations as the one version that follows another, unless that exists.

    Whoever commits by Lance at the same time is told of the last operation alone: the others must be of kinds
    that no commit of others is in conflict with.

    Args:
        table: directory of the table.
        version: that the operations were made from.
        operations: `lance.LanceOperation`s, each on top of the one before.

    Returns:
        True when this call made the next version; False when somebody else did: look at the table again.

    Raises:
        UnsupportedError: a DynamoDB table decides which versions count.
        PreconditionError: manifests have names of Lance's first scheme.
        NotCommittedError: the version can't be created.
        UnavailableError: storage failed; after the last step it is unknown whether the version was made.
    """
    if table.committed_by:
        msg = (
            f"{table.uri}: which of its versions count is decided in a DynamoDB table, where a version can't "
            "be committed on one other alone. Keep the table under s3://, which needs no such table any more"
        )
        raise UnsupportedError(msg)
    drafts: list[str] = []
    try:
        try:
            _make_drafts(table, version, operations, drafts)
        except (OSError, ValueError) as error:
            if max(list_manifests(table), default=version) > version:
                return False  # It was cleaned up, for instance.
            if has_first_names(table):
                raise build_names_error(table) from error
            msg = f"{table.uri}: a version on top of {version} can't be made: {shorten_error(error)}"
            raise NotCommittedError(msg) from error
        last = drafts[-1]
        data = renumber_manifest(table.read(last), version + 1, source=table.locate(last))
        return _create_version(table, version, data)
    finally:
        for draft in drafts:
            with suppress(UnavailableError):
                table.delete(draft)


def read_operation_name(dataset: Any, version: int) -> str | None:  # noqa: ANN401 - lance types
    """Return the name of Lance's operation that made a version; None where `read_operation` finds none."""
    operation = read_operation(dataset, version)
    return None if operation is None else type(operation).__name__


def read_operation(dataset: Any, version: int) -> Any | None:  # noqa: ANN401 - lance types
    """Return the `lance.LanceOperation` that made a version; None if that is not recorded, or unreadable.

    Lance can't give back those that rewrote an index, such as a compaction below one.
    """
    try:
        # Lance changes the object meanwhile, and fails where another thread reads by it.
        transaction = copy(dataset).read_transaction(version)
    except (OSError, ValueError, TypeError) as error:
        logger.info("the transaction of version %d can't be read: %s", version, error)
        return None
    return None if transaction is None else transaction.operation


def _make_drafts(table: Storage, version: int, operations: Sequence[Any], drafts: list[str]) -> None:
    """Write a detached version for each operation, which readers ignore; add their paths to `drafts`."""
    options = dict(table.options) or None
    for operation in operations:
        made = lance.LanceDataset.commit(
            lance.dataset(table.uri, version=version, storage_options=options),
            operation,
            read_version=version,
            storage_options=options,
            detached=True,
        )
        version = made.version
        drafts.append(f"{VERSIONS}/d{version}.manifest")


def _create_version(table: Storage, version: int, data: bytes) -> bool:
    """Create the manifest of the next version; return False if the version is not the newest any more.

    A missing next version proves nothing: it may have been created and cleaned up.
    """
    listed = list_manifests(table)
    found = listed.get(version)
    if found is None or max(listed) != version:
        return False
    # A table keeps to one of two naming schemes.
    scheme = base_manifest_paths(version).index(f"{VERSIONS}/{found.name}")
    path = base_manifest_paths(version + 1)[scheme]
    if not table.put_if_absent(path, data):
        return False
    after = list_manifests(table)
    ours = after.get(version + 1)
    if ours is not None and any(one.written < ours.written for at, one in after.items() if at > version + 1):
        table.delete(path)  # Newer versions were there before it: it came after the cleaning up.
        return False
    with suppress(UnavailableError):  # Lance looks upward from any hint.
        if _read_version_hint(table) <= version:
            table.put(_HINT, b'{"version":%d}' % (version + 1))
    return True


def _read_version_hint(table: Storage) -> int:
    try:
        found = json.loads(table.read(_HINT))["version"]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return 0
    return found if isinstance(found, int) else 0


def renumber_manifest(data: bytes, version: int, *, source: str) -> bytes:
    """Return a manifest file with another version number.

    Raises:
        CorruptDataError: it is not a whole manifest file.
    """
    try:
        position, major, minor, magic = _FOOTER.unpack(data[-_FOOTER.size :])
        start = position + _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, position)
    except struct.error as error:
        msg = f"{source} ({len(data)} bytes) is not a whole base table manifest: {error}"
        raise CorruptDataError(msg) from error
    manifest = mem_wal_pb2.BaseManifest.FromString(data[start : start + length])
    manifest.version = version  # All fields that are not known here stay as they are.
    encoded = manifest.SerializeToString()
    return (
        data[:position] + _LENGTH.pack(len(encoded)) + encoded + _FOOTER.pack(position, major, minor, magic)
    )
