"""The catalog as one principal sees it."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from memwal.errors import InvalidInputError, NotFoundError, PreconditionError
from memwal.rules import drop_default
from memwal.storage.table_names import MAIN_SCHEMA, TableName
from planner.access.rights import UNRESTRICTED, Access, FullAccess, SessionAccess, TableAccess
from planner.access.table_policy import TablePolicy, plan_policy, policy_mismatch_error
from planner.sql.as_of import AsOf
from planner.sql.tokens import fold
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.catalog import Catalog
from planner.tables.state.extended_tables import Extension, extend_table, split_extension
from planner.tables.state.noted_tables import find_state
from planner.tables.state.past.past_table import check_past_access
from planner.tables.state.table import Table

SYSTEM_SCHEMA = "system"
SYSTEM_SCHEMAS = frozenset({SYSTEM_SCHEMA, "information_schema"})
"""Schemas of tables that are only read."""

MOMENT = pa.timestamp("us", "UTC")
"""Type of timestamps in system tables."""


class SystemTable(Protocol):
    """One table of the schema `system`."""

    @property
    def name(self) -> str:
        """Return the name within the schema."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns, which are the same for all principals."""

    def read(self, access: Access) -> pa.Table:
        """Return the current rows that a principal may see.

        Raises:
            LanceGatewayError: the objects that they describe can't be read.
        """


logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SecuredTable:
    """A table together with its restrictions; a handle keeps the version that it has read.

    Args:
        table: in the catalog.
        access: of the principal to the table.
    """

    table: Table
    access: TableAccess

    @property
    def name(self) -> TableName:
        """Return the name in the catalog."""
        return self.table.name

    @cached_property
    def base(self) -> BaseTable:
        """Return the version of the base table that was the newest at the first call."""
        return self.table.base()

    def policy(self, base: BaseTable) -> TablePolicy | None:
        """Plan the restrictions for rows of a version; return None if there are none.

        Raises:
            PreconditionError: they don't fit the columns of the version, so no row may be shown.
        """
        if self.access.is_unrestricted:
            return None
        try:
            return plan_policy(base.schema, self.access)
        except InvalidInputError as error:
            # Principals must not see the text of a policy that restricts them.
            logger.error("the access policy of table %r can't be applied: %s", self.name, error)  # noqa: TRY400
            raise policy_mismatch_error(self.name) from None

    @cached_property
    def visible_schema(self) -> pa.Schema:
        """Return the columns that exist for the principal.

        Raises:
            PreconditionError: as `policy`.
        """
        policy = self.policy(self.base)
        return self.base.schema if policy is None else policy.schema

    @cached_property
    def declared_schema(self) -> pa.Schema:
        """Return the visible columns, as the table declares them, but masked ones without a default.

        Raises:
            PreconditionError: as `policy`.
        """
        declared: pa.Schema = self.base.dataset.schema
        policy = self.policy(self.base)
        if policy is None:
            return declared
        has_key = self.primary_key == self.base.primary_key
        fields = [
            drop_default(declared.field(name)) if name in policy.masks else declared.field(name)
            for name in policy.schema.names
        ]
        # Without a visible key, no field may be declared as part of it.
        return pa.schema(fields if has_key else [field.remove_metadata() for field in fields])

    @property
    def visible_fields(self) -> Mapping[int, str]:
        """Return field id -> name of the visible columns."""
        visible = self.visible_schema.names
        return {number: name for number, name in self.base.field_names.items() if name in visible}

    @property
    def required_columns(self) -> frozenset[str]:
        """Return the NOT NULL columns; none if a policy restricts the table."""
        if not self.access.is_unrestricted:
            return frozenset()
        return self.base.not_null_columns

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Return the key columns, in key order; () if any of them is hidden or masked."""
        key = self.base.primary_key
        restricted = self.access.hidden_columns | self.access.masks.keys()
        return () if restricted.intersection(key) else key

    @property
    def lineage_columns(self) -> tuple[str, ...]:
        """Return the columns of row lineage that may be named; () if a policy restricts the table."""
        return self.base.lineage_columns if self.access.is_unrestricted else ()

    def is_like(self, other: SecuredTable) -> bool:
        """Return whether a statement prepared with the other handle is valid with this one."""
        base, other_base = self.base, other.base
        return base is other_base or (
            base.place == other_base.place
            and base.schema.equals(other_base.schema)
            and base.field_names == other_base.field_names
            and base.primary_key == other_base.primary_key
            and base.lineage_columns == other_base.lineage_columns
        )


def check_table_access(table: Table, access: TableAccess) -> None:
    """Check that restrictions fit the newest version of a table.

    Raises:
        InvalidInputError: they don't fit; the message quotes the policy, so it is for administrators only.
    """
    try:
        plan_policy(table.base().schema, access)
    except InvalidInputError as error:
        raise InvalidInputError(f"table {table.name!r}: {error}") from error


@dataclass(frozen=True, slots=True)
class FoundNames:
    """The names of a statement, as a catalog found them.

    Attributes:
        tables: name and version -> declared columns, and the key columns.
        views: name -> SELECT.
    """

    tables: Mapping[tuple[str, AsOf | None], tuple[pa.Schema, tuple[str, ...]]]
    views: Mapping[str, str]


class VisibleCatalog:
    """Resolves the names in statements and metadata requests of a principal.

    A table or view without a grant does not exist; a table with one comes with its restrictions. A catalog
    finds each table once: a statement is prepared with one catalog, and each of its runs has another.

    Args:
        catalog: tables and views.
        access: rights of the principal.
        system: tables of the schema `system`, which show each principal its own rows.
    """

    __slots__ = ("_catalog", "_system", "_tables", "access", "views")

    def __init__(
        self, catalog: Catalog, access: Access, system: Mapping[str, SystemTable] = MappingProxyType({})
    ) -> None:
        self._catalog = catalog
        self._system = system
        self._tables: dict[tuple[str, AsOf | None], SecuredTable] = {}
        self.views: dict[str, str] = {}
        """Name -> SELECT of the views that were found."""
        self.access = access

    def reopen(self) -> VisibleCatalog:
        """Return a new catalog for the same principal, which finds all tables again."""
        return VisibleCatalog(self._catalog, self.access, self._system)

    def table_names(self, schema: str | None = None) -> tuple[TableName, ...]:
        """Return the names of tables with a grant, of a schema or of all, sorted."""
        return self._list_names(self._catalog.table_names, schema)

    def view_names(self, schema: str | None = None) -> tuple[TableName, ...]:
        """Return the names of views with a grant, sorted; the tables that they read are checked later."""
        return self._list_names(self._catalog.view_names, schema)

    def names(self, schema: str | None = None) -> tuple[TableName, ...]:
        """Return the names of tables and views with a grant, of a schema or of all, sorted."""
        return self._list_names(self._catalog.names, schema)

    def schema_names(self) -> tuple[str, ...]:
        """Return the names of schemas that exist for the principal, sorted; `main` always does."""
        schemas = filter(self._sees_schema, self._catalog.schema_names())
        return tuple(sorted((*schemas, *self._temporary_schemas)))

    def has_schema(self, schema: str) -> bool:
        """Return whether a schema, or one of system tables, exists for the principal."""
        return schema in (*SYSTEM_SCHEMAS, *self._temporary_schemas) or (
            self._catalog.schemas.exists(schema) and self._sees_schema(schema)
        )

    def has_table(self, name: str) -> bool:
        """Return whether a table of that name exists for the principal, readable or not."""
        return self._find_access(name) is not None and self._catalog.has_table(name)

    def find(self, name: str) -> SecuredTable | None:
        """Return the newest version of a table; None if it does not exist for the principal.

        Raises:
            LanceGatewayError: it can't be read.
        """
        secured = self._tables.get((name, None))
        if secured is None:
            access = self._find_access(name)
            if access is None or not self._catalog.has_table(split_extension(name)[0]):
                return None
            try:
                secured = self._tables[name, None] = SecuredTable(self._open(name), access)
            except NotFoundError:  # dropped meanwhile; the message would list tables without a grant
                return None
        try:
            _ = secured.base
        except NotFoundError:
            # Another process may have dropped the table and made a view of its name.
            if self._catalog.view(name) is None:
                raise
            del self._tables[name, None]
            self._catalog.forget(name)
            return None
        return secured

    def table(self, name: str, as_of: AsOf | None = None) -> SecuredTable:
        """Return a table, now or in the past.

        Args:
            name: in the catalog.
            as_of: the past version; None for the newest one.

        Raises:
            NotFoundError: the table does not exist for the principal, or did not exist then.
            PreconditionError: a policy applies that does not fit the past version.
        """
        secured = self._tables.get((name, as_of))
        if secured is not None:
            return secured
        access = self._find_access(name)
        try:
            table = None if access is None else self._open(name)
        except NotFoundError:  # the message would list tables without a grant
            table = None
        if access is None or table is None:
            raise unknown_name_error(name, self)
        if as_of is not None:
            plain, extension = split_extension(name)
            past = find_state(self._catalog.past, self._catalog.table(plain), as_of)
            if not access.is_unrestricted:
                check_past_access(table.base(), past.base())
            table = extend_table(past, extension)
        secured = self._tables[name, as_of] = SecuredTable(table, access)
        return secured

    def view_sql(self, name: str) -> str | None:
        """Return the SELECT of a view; None if there is no view of that name for the principal.

        Raises:
            PreconditionError: the policy restricts rows or columns of the view.
        """
        access = self._find_access(name)
        sql = None if access is None else self.views.get(name) or self._catalog.view_sql(name)
        if access is not None and sql is not None:
            check_view_access(name, access)
            self.views[name] = sql
        return sql

    def view_path(self, name: TableName) -> str:
        """Return the schema of names without one in a view."""
        view = self._catalog.view(name) if name.is_temporary else None
        return name.schema if view is None or view.path is None else view.path

    def is_current(self) -> bool:
        """Return whether all names that were found have the same meaning, and all tables the same columns.

        Raises:
            LanceGatewayError: a table was dropped, or can't be read.
        """
        now = self.reopen()
        if self.views and not self.has_same_views(now):
            return False
        for (name, as_of), old in list(self._tables.items()):
            new = now.table(name, as_of)
            # A tag may have moved, and an expression may have another value.
            if not (new.is_like(old) if as_of is None else new.declared_schema.equals(old.declared_schema)):
                return False
        # The next comparison starts with the new versions.
        self._tables = now._tables  # noqa: SLF001 - of the same class
        return True

    def needs_storage(self, *, is_promised: bool) -> bool:
        """Return whether storage is asked for what a kept statement depends on.

        Args:
            is_promised: whether its columns are compared when it runs, and not before.
        """
        return bool(self.views) or (bool(self._tables) and not is_promised)

    def has_same_views(self, now: VisibleCatalog | None = None) -> bool:
        """Return whether all views that were found have the same SELECT.

        Args:
            now: the catalog to compare with; None opens a new one.
        """
        now = now or self.reopen()
        return all(now.view_sql(name) == sql and not now.has_table(name) for name, sql in self.views.items())

    @property
    def found(self) -> FoundNames:
        """Return the names that were found, for a catalog of another process."""
        tables = {key: (table.declared_schema, table.primary_key) for key, table in self._tables.items()}
        return FoundNames(tables, dict(self.views))

    def find_same(self, found: FoundNames) -> bool:
        """Find names that the catalog of another process has found; return whether they mean the same here.

        Raises:
            LanceGatewayError: one of them does not exist any more, or can't be read.
        """
        for name, sql in found.views.items():
            if self.view_sql(name) != sql or self.has_table(name):
                return False
        for (name, as_of), (schema, key) in found.tables.items():
            table = self.table(name, as_of)
            if not table.declared_schema.equals(schema) or table.primary_key != key:
                return False
        return True

    def system_tables(self) -> tuple[str, ...]:
        """Return the names of tables of the schema `system`, sorted."""
        return tuple(sorted(self._system))

    def system_table(self, name: str) -> SystemTable:
        """Return a table of the schema `system`."""
        return self._system[name]

    def _open(self, name: str) -> Table:
        """Open a table, or one with columns that Lance computes."""
        plain, extension = split_extension(name)
        is_plain = extension is Extension.NONE
        return self._catalog.table(plain) if is_plain else self._catalog.open_extended(plain, extension)

    @property
    def _temporary_schemas(self) -> tuple[str, ...]:
        """The schema of the session's temporary tables, if it has any."""
        access = self.access
        return (access.temporary,) if isinstance(access, SessionAccess) and access.names else ()

    def _list_names(
        self, list_names: Callable[[str | None], Sequence[TableName]], schema: str | None
    ) -> tuple[TableName, ...]:
        names = list(list_names(schema))
        if schema is None:
            names += [name for one in self._temporary_schemas for name in list_names(one)]
        return tuple(sorted(name for name in names if self._find_access(name) is not None))

    def _sees_schema(self, schema: str) -> bool:
        return (
            schema == MAIN_SCHEMA
            or self.access.covers_schema(schema)
            or self.access.covers_schema(schema, to_write=True)
            or bool(self.names(schema))
        )

    def _find_access(self, name: str) -> TableAccess | None:
        if type(self.access) is FullAccess:
            return None if TableName.parse(name).is_temporary else UNRESTRICTED
        plain, extension = split_extension(name)
        access = self.access.of(plain)
        # Policies know nothing of columns that Lance computes, which are for those who see all of a table.
        is_hidden = extension is not Extension.NONE and access is not None and not access.is_unrestricted
        return None if is_hidden else access


def check_view_access(name: str, access: TableAccess) -> None:
    """Refuse restrictions on a view: its rows are restricted where its tables are.

    Raises:
        PreconditionError: the access is restricted.
    """
    if not access.is_unrestricted:
        msg = (
            f"the access policy restricts rows or columns of view {name!r}, which only tables can have: "
            "an administrator must restrict the tables that the view reads"
        )
        raise PreconditionError(msg)


class SchemaNames(Protocol):
    """The tables and views of one schema or of all."""

    def names(self, schema: str | None = None) -> Sequence[TableName]:
        """Return the names of tables and views."""

    def has_schema(self, schema: str) -> bool:
        """Return whether a schema exists."""


def unknown_name_error(name: str, known: SchemaNames) -> NotFoundError:
    """Return the error for a table, or its schema, that does not exist."""
    parsed = TableName.parse(name)
    if not known.has_schema(parsed.schema):
        return unknown_schema_error(parsed.schema)
    return unknown_table_error(parsed, known.names(parsed.schema))


def unknown_schema_error(schema: str) -> NotFoundError:
    """Return the error for a schema that does not exist for the principal."""
    return NotFoundError(
        f"Schema {schema!r} does not exist: CREATE SCHEMA makes one, and tables without one are in 'main'"
    )


def unknown_table_error(name: str, names: Sequence[str]) -> NotFoundError:
    """Return the error for a table that does not exist, with similar names.

    Args:
        name: of the table.
        names: all tables and views that exist for the principal.
    """
    name, names = split_extension(name)[0], sorted(names)
    if not names:
        return NotFoundError(f"Table {name!r} does not exist; there are no tables yet")
    near = [other for other in names if fold(other) == fold(name)]
    if near and near[0] != fold(near[0]):
        hint = f'; write "{near[0]}" in double quotes, since unquoted names are lower-cased'
    else:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    return NotFoundError(
        f"Table {name!r} does not exist{hint} (tables and views: {listed})".replace("?; ", "? ")
    )
