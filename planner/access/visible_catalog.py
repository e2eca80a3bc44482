"""The catalog as one principal sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from lance_gateway.memwal.errors import NotFoundError, PreconditionError
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.access.rights import UNRESTRICTED, Access, FullAccess, SessionAccess, TableAccess
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.unknown_names import unknown_name_error
from lance_gateway.planner.sql.text.as_of import AsOf
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.extended_tables import Extension, extend_table, split_extension
from lance_gateway.planner.tables.state.past.noted_tables import find_state
from lance_gateway.planner.tables.state.past.past_table import check_past_access
from lance_gateway.planner.tables.state.table import Table

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
        now.look_ahead(self)
        for (name, as_of), old in list(self._tables.items()):
            new = now.table(name, as_of)
            # A tag may have moved, and an expression may have another value.
            if not (new.is_like(old) if as_of is None else new.declared_schema.equals(old.declared_schema)):
                return False
        # The next comparison starts with the new versions.
        self._tables = now._tables  # noqa: SLF001 - of the same class
        return True

    def look_ahead(self, before: VisibleCatalog, *, confirms: bool = False) -> None:
        """Find the newest versions of the tables that another catalog has found, all of them in parallel.

        Args:
            before: the other catalog.
            confirms: whether the state of the tables is confirmed as well, for a strong read.

        Raises:
            LanceGatewayError: a table was dropped, or can't be read.
        """

        def look(key: tuple[str, AsOf | None]) -> None:
            table = self.table(*key)
            if confirms and key[1] is None:
                table.confirm()
            else:
                _ = table.base

        keys = list(before._tables)
        if not self._catalog.storage.is_local and (confirms or len(keys) > 1):
            self._catalog.storage.each_table(look, keys)

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
