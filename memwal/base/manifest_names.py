"""Names of a base table's manifests: Lance had another naming scheme before, which some operations refuse."""

from __future__ import annotations

from typing import Any, Final

import lance

from lance_gateway.memwal.base.version_list import list_manifests
from lance_gateway.memwal.errors import PreconditionError, UnavailableError, UnsupportedError, shorten_error
from lance_gateway.memwal.storage.files import VERSIONS, Storage, base_manifest_paths

OPTION: Final = "v2_manifest_paths"
"""Of ALTER TABLE .. SET (..); Lance's name for the second scheme."""
_ATTEMPTS: Final = 4


def has_first_names(table: Storage) -> bool:
    """Return whether a manifest has a name of the first scheme, such as `7.manifest`.

    Raises:
        UnavailableError: storage failed to answer.
    """
    listed = list_manifests(table)
    return any(
        f"{VERSIONS}/{found.name}" == base_manifest_paths(version)[1] for version, found in listed.items()
    )


def build_names_error(table: Storage) -> PreconditionError:
    """Build the error for a commit that Lance refuses where manifests have names of the first scheme."""
    return PreconditionError(
        f"{table.uri}: its manifests have names of Lance's first scheme (such as 7.manifest), with which a "
        f"version can't be committed on one other alone: ALTER TABLE .. SET ({OPTION} = true) renames them"
    )


def migrate_manifest_names(table: Storage) -> None:
    """Give all manifests of a base table names of the second scheme; safe to repeat.

    Nothing else may commit to the table meanwhile.

    Raises:
        UnsupportedError: a DynamoDB table knows the names.
        UnavailableError: storage failed, or others commit by the first scheme; some names may be changed.
    """
    if table.committed_by:
        msg = (
            f"{table.uri}: a DynamoDB table has the names of its manifests, so they can't be changed: make a "
            "copy without one by CREATE TABLE .. CLONE"
        )
        raise UnsupportedError(msg)
    for _ in range(_ATTEMPTS):
        try:
            dataset: Any = lance.dataset(table.uri, storage_options=dict(table.options) or None)
            dataset.migrate_manifest_paths_v2()
        except (OSError, ValueError, RuntimeError) as error:
            msg = f"{table.uri}: manifests were not all renamed: {shorten_error(error)}; set the option again"
            raise UnavailableError(msg) from error
        if not has_first_names(table):
            return
    msg = f"{table.uri}: others commit versions with names of the first scheme: stop them, and set it again"
    raise UnavailableError(msg)
