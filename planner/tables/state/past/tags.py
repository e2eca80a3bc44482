"""Tags: names of versions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from lance_gateway.memwal.errors import PreconditionError, shorten_error
from lance_gateway.planner.tables.sources.base_table import BaseTable


class Tag(NamedTuple):
    """Name of a version.

    Attributes:
        version: number.
        branch: that it is a version of; None for the main branch.
        created_at: when the tag was made; None if that is not recorded.
        updated_at: when it was moved; None if that is not recorded.
    """

    version: int
    branch: str | None
    created_at: datetime | None
    updated_at: datetime | None


def read_tags(newest: BaseTable) -> Mapping[str, Tag]:
    """Return the tags of all branches by name.

    Raises:
        PreconditionError: Lance can't list them.
    """
    try:
        listed = newest.dataset.tags.list()
    except (OSError, ValueError) as error:
        msg = (
            f"the tags of table {newest.name!r} can't be listed ({shorten_error(error)}): Lance makes tags "
            "with letters that are not ASCII, and can't read them again; delete their files in _refs/tags"
        )
        raise PreconditionError(msg) from error
    return {
        name: Tag(int(one["version"]), one.get("branch"), one.get("created_at"), one.get("updated_at"))
        for name, one in listed.items()
    }


def list_tags(newest: BaseTable) -> Mapping[str, int]:
    """Return the tags of the main branch with their versions; see `read_tags`."""
    return {name: tag.version for name, tag in read_tags(newest).items() if tag.branch is None}
