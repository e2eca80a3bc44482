"""The rights of one principal on tables.

The planner enforces them wherever names are resolved and rows are read. The gateway authenticates principals
and reads policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.memwal.storage.table_names import SearchPath, TableName, is_temporary_schema


@dataclass(frozen=True, slots=True)
class TableAccess:
    """What a principal sees of one table.

    Attributes:
        row_filter: SQL condition over the columns of a row; rows for which it is not true are hidden. None
            shows all rows.
        masks: column -> SQL expression over the unmasked row that replaces the column.
        hidden_columns: columns that do not exist for the principal.
        is_unrestricted: whether all rows and columns are shown unchanged.
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
    """The rights of one principal; compared by identity, so equal rights must be the same object.

    Names of tables are `TableName`s; plain texts are read as `TableName.parse` does.
    """

    @property
    def user(self) -> str:
        """Return the name of the principal."""

    @property
    def is_admin(self) -> bool:
        """Return whether the principal may see and stop the statements of others."""

    def of(self, table: str) -> TableAccess | None:
        """Return the access to a table or view; None if it does not exist for the principal."""

    def can_write(self, table: str) -> bool:
        """Return whether the principal may write rows of a table, and create, alter and drop it."""

    def covers_schema(self, schema: str, *, to_write: bool = False) -> bool:
        """Return whether the principal sees, or may write, all tables that a schema has or will have."""


@dataclass(frozen=True, eq=False)
class FullAccess:
    """All rights on all tables."""

    user: str = "anonymous"
    is_admin: bool = True

    def of(self, table: str) -> TableAccess | None:
        """Return access to all rows and columns; None for temporary tables, which are of one session."""
        return None if TableName.parse(table).is_temporary else UNRESTRICTED

    def can_write(self, table: str) -> bool:
        """Return True for all tables but temporary ones."""
        return not TableName.parse(table).is_temporary

    def covers_schema(self, schema: str, *, to_write: bool = False) -> bool:  # noqa: ARG002 - both alike
        """Return True for all schemas but those of temporary tables."""
        return not is_temporary_schema(schema)


FULL_ACCESS: Access = FullAccess()


@dataclass(frozen=True, eq=False)
class SessionAccess:
    """The rights of a principal in a session with temporary tables, all of which they have.

    An object is good until a temporary table is made or dropped, so plans that are kept for it name the
    tables that they mean.

    Attributes:
        principal: rights outside of the session.
        temporary: schema of the temporary tables.
        names: those of its tables and views.
        directory: that has the schema, on the disk of the gateway.
    """

    principal: Access
    temporary: str
    names: frozenset[str]
    directory: str

    @property
    def user(self) -> str:
        """Name of the principal."""
        return self.principal.user

    @property
    def is_admin(self) -> bool:
        """Whether the principal may see and stop the statements of others."""
        return self.principal.is_admin

    def of(self, table: str) -> TableAccess | None:
        """Return the access to a table or view; None if it does not exist for the principal."""
        return UNRESTRICTED if TableName.parse(table).schema == self.temporary else self.principal.of(table)

    def can_write(self, table: str) -> bool:
        """Return whether the principal may write rows of a table, and create, alter and drop it."""
        return TableName.parse(table).schema == self.temporary or self.principal.can_write(table)

    def covers_schema(self, schema: str, *, to_write: bool = False) -> bool:
        """Return whether the principal sees, or may write, all tables that a schema has or will have."""
        return schema == self.temporary or self.principal.covers_schema(schema, to_write=to_write)

    def find_path(self, schema: str) -> str:
        """Return the current schema of the session, with its temporary tables before it."""
        return SearchPath(schema, self.temporary, self.names)
