"""Branches of a table: versions of their own, in a directory below that of the table, on top of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from lance_gateway.execnodes.storage.data_files import Place
from lance_gateway.memwal.errors import PreconditionError, shorten_error
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.state.table import Table

MAIN: Final = "main"
"""What Lance calls the versions of the table itself."""
BRANCHES: Final = "tree"
"""Directory below that of the table, where Lance keeps branches."""


class Branch(NamedTuple):
    """A branch.

    Attributes:
        parent: branch that it was made from.
        parent_version: version of the parent that it began with.
        created_at: when it was made, in whole seconds.
    """

    parent: str
    parent_version: int
    created_at: datetime


def read_branches(newest: BaseTable) -> Mapping[str, Branch]:
    """Return the branches of a table by name.

    Raises:
        PreconditionError: Lance can't list them.
    """
    try:
        listed = newest.dataset.branches.list()
    except (OSError, ValueError) as error:
        msg = f"the branches of table {newest.name!r} can't be listed ({shorten_error(error)})"
        raise PreconditionError(msg) from error
    return {
        name: Branch(
            one["parent_branch"] or MAIN,
            int(one["parent_version"]),
            datetime.fromtimestamp(int(one["create_at"]), UTC),
        )
        for name, one in listed.items()
    }


class BranchTable(Table):
    """The newest state of a branch, with rows in its own regions. Thread-safe.

    It is read like a shallow clone: regions of the table are not its own. Nobody writes it here.

    Attributes:
        branch: its name.

    Args:
        newest: the table of today.
        branch: see the attribute.
        columns: keeps decoded columns of past versions.
    """

    def __init__(self, newest: Table, branch: str, columns: DecodedColumns) -> None:
        storage = newest.storage.child(BRANCHES, *branch.split("/"))
        super().__init__(newest.name, storage, newest.cache, columns, newest.places, newest.session)
        self.branch = branch

    @property
    def described_time(self) -> str:
        """See `Table.described_time`."""
        return f"on branch {self.branch!r}"


@dataclass(frozen=True, slots=True)
class BranchName:
    """Cache key of a branch: the table, and its name."""

    place: Place
    branch: str
