"""What one principal may see of the tables.

The planner enforces it wherever a name is resolved and wherever rows are read; who the principal is, and
which policy says so, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from memwal.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class TableAccess:
    """What a principal sees of one table.

    Attributes:
        row_filter: SQL condition over the columns of a row; rows for which it is not true do not exist. None
            shows all rows.
        masks: column -> SQL expression over the row's true values that stands in for the column.
        hidden_columns: columns that do not exist for the principal.
        is_unrestricted: whether all rows and columns are shown as they are.
    """

    row_filter: str | None = None
    masks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    hidden_columns: frozenset[str] = frozenset()
    is_unrestricted: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "is_unrestricted", self.row_filter is None and not self.masks and not self.hidden_columns
        )
        for column in self.masks:
            if column in self.hidden_columns:
                msg = f"column {column!r} is both masked and hidden: choose one"
                raise InvalidInputError(msg)


UNRESTRICTED = TableAccess()


class Access(Protocol):
    """What one principal may see; compared by identity, so the same object stands for the same rights."""

    @property
    def user(self) -> str:
        """Name of the principal."""

    @property
    def is_admin(self) -> bool:
        """Whether the principal sees and stops the statements of others."""

    def of(self, table: str) -> TableAccess | None:
        """What is seen of a table or view; None where nothing is, not even that it exists."""

    def can_write(self, table: str) -> bool:
        """Whether rows of a table may be written, and the table made, changed and dropped."""


@dataclass(frozen=True, eq=False)
class FullAccess:
    """Everything, as it is."""

    user: str = "anonymous"
    is_admin: bool = True

    def of(self, table: str) -> TableAccess | None:  # noqa: ARG002 - every table alike
        """All rows and columns."""
        return UNRESTRICTED

    def can_write(self, table: str) -> bool:  # noqa: ARG002 - every table alike
        """Everywhere."""
        return True


FULL_ACCESS: Access = FullAccess()
