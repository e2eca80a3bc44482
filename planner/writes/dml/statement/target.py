"""The table that a statement writes to, and whether the principal may."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from memwal.creating import list_not_null_columns
from memwal.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnsupportedError,
)
from planner.access.rights import Access, TableAccess
from planner.access.visible_catalog import SYSTEM_SCHEMA, SecuredTable, unknown_table
from planner.plans.query_planner import QueryPlanner
from planner.plans.results import altered
from planner.sql.tokens import fold, quote
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.catalog import CATALOG, SCHEMA
from planner.tables.state.table import Table
from planner.writes.dml.statement.text import ReadSession

__all__ = ["Target", "check_may_write", "find_target", "named_table"]

_NOT_WRITABLE = frozenset({SYSTEM_SCHEMA, "information_schema"})


@dataclass(frozen=True, eq=False)
class Target:
    """A table that may be written.

    Attributes:
        name: in the catalog.
        table: of the catalog.
        secured: the same, as the principal sees it.
        base: its newest version when the statement was prepared.
        key: key columns, in key order.
        schema: of rows as they are written: columns in the table's order, with its own types.
        required: columns that must not be NULL.
    """

    name: str
    table: Table
    secured: SecuredTable
    base: BaseTable
    key: tuple[str, ...]
    schema: pa.Schema
    required: frozenset[str]

    @cached_property
    def region_columns(self) -> tuple[str, ...]:
        """Columns from which the region of a row follows, besides the key."""
        details = self.base.details
        if details is None or not details.region_specs:
            return ()
        sources = {source for one in details.region_specs[-1].fields for source in one.source_ids}
        found = [self.base.field_names[source] for source in sources if source in self.base.field_names]
        return tuple(name for name in self.schema.names if name in found and name not in self.key)

    @cached_property
    def place_columns(self) -> tuple[str, ...]:
        """The key, and what else it takes to find the region of a row."""
        return (*self.key, *self.region_columns)

    def has_column(self, name: str) -> bool:
        """Whether the table has a column of that name."""
        return bool(self.schema.get_field_index(name) >= 0)

    def check_column(self, name: str) -> None:
        """Refuse a column that the table does not have.

        Raises:
            InvalidInputError: names those that come close.
        """
        if self.has_column(name):
            return
        folded = [other for other in self.schema.names if fold(other) == fold(name)]
        near = folded or difflib.get_close_matches(name, self.schema.names, n=3)
        if folded:
            hint = f"write {quote(folded[0])} in double quotes"
        elif near:
            hint = f"did you mean {' or '.join(map(repr, near))}?"
        else:
            hint = f"it has {', '.join(self.schema.names[:40])}"
        msg = f"table {self.name!r} has no column {name!r}: {hint}"
        raise InvalidInputError(msg)

    def check_key(self, what: str) -> None:
        """Refuse what needs a primary key.

        Raises:
            PreconditionError: the table has none.
        """
        if not self.key:
            msg = (
                f"table {self.name!r} has no primary key, so {what} can't name the rows that it changes: "
                "only INSERT is possible; make a table with PRIMARY KEY (..) and copy the rows"
            )
            raise PreconditionError(msg)

    def check_unaltered(self, sql: str) -> None:
        """Make sure that the table still has the columns that the statement was prepared for.

        Raises:
            PreconditionError: it was altered.
        """
        newest = self.table.recent_base()
        if newest is not self.base and not self.is_like(newest):
            raise altered(sql)

    def is_like(self, base: BaseTable) -> bool:
        """Whether rows for this table fit another version of it, or one that was made anew."""
        known = self.base.details
        return (
            base.dataset.schema.equals(self.schema)
            and base.primary_key == self.key
            and base.details is not None
            and known is not None
            and base.details.region_specs == known.region_specs
        )


def named_table(parts: Sequence[str]) -> str:
    """The table that a name with dots means.

    Raises:
        NotFoundError: a catalog or schema that does not exist.
        UnsupportedError: tables of a schema that nobody writes.
        InvalidInputError: too many parts.
    """
    *qualifiers, name = parts
    if len(qualifiers) > 2:
        msg = f"a table's name has at most three parts (catalog.schema.table), not {'.'.join(parts)!r}"
        raise InvalidInputError(msg)
    if len(qualifiers) == 2 and qualifiers[0] != CATALOG:
        msg = f"Catalog {qualifiers[0]!r} does not exist; the only one is {CATALOG!r}"
        raise NotFoundError(msg)
    if qualifiers and qualifiers[-1] in _NOT_WRITABLE:
        msg = f"{'.'.join(parts)} is a system table, which is only read: write to tables of schema {SCHEMA!r}"
        raise UnsupportedError(msg)
    if qualifiers and qualifiers[-1] != SCHEMA:
        msg = f"Schema {qualifiers[-1]!r} does not exist; the only one is {SCHEMA!r}"
        raise NotFoundError(msg)
    return name


def check_may_write(engine: QueryPlanner, name: str, access: Access) -> TableAccess:
    """The one check of all that write to a table, change it or drop it.

    Args:
        engine: that the statement came to.
        name: of the table.
        access: rights of the principal.

    Returns:
        What the principal sees of the table: all of it.

    Raises:
        NotFoundError: there is no such table for this principal.
        PermissionDeniedError: the principal may read it, and not write it.
        UnsupportedError: it is a view.
    """
    rights, may_write = access.of(name), access.may_write(name)
    sees_all = rights is not None and rights.is_unrestricted
    if rights is None or not engine.catalog.has_table(name):
        if rights is not None and engine.catalog.view_sql(name) is not None:
            msg = f"{name!r} is a view, which can't be written: write to the tables that it reads"
            raise UnsupportedError(msg)
        raise unknown_table(name, engine.visible(access).names())
    if not may_write:
        msg = f"user {access.user!r} may not write to table {name!r}: an administrator must grant it"
        raise PermissionDeniedError(msg)
    if not sees_all:
        # What can't be seen would be lost, or could be guessed from what happens.
        msg = (
            f"user {access.user!r} may not write to table {name!r}, since a policy hides some of its rows or "
            "columns from them: only those who see all of it can write it"
        )
        raise PermissionDeniedError(msg)
    return rights


def find_target(session: ReadSession, parts: Sequence[str]) -> Target:
    """The table that a statement names as its target.

    Args:
        session: of the statement.
        parts: of the name.

    Raises:
        LanceGatewayError: there is no such table, or it can't be written.
    """
    name = named_table(parts)
    catalog = session.engine.catalog
    rights = check_may_write(session.engine, name, session.access)
    table = catalog.table(name)
    base = table.recent_base()
    if catalog.writing is None:
        table.writer()  # says why not
    if base.details is None:
        msg = (
            f"table {name!r} has no MemWAL, so it takes no streaming writes: "
            f"ALTER TABLE {name} SET (memwal = true, region_by = '...') gives it one"
        )
        raise PreconditionError(msg)
    schema, key = base.dataset.schema, base.primary_key
    required = frozenset({*key, *list_not_null_columns(schema)})
    return Target(name, table, SecuredTable(table, rights), base, key, schema, required)
