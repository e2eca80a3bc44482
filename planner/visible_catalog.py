"""The catalog as one principal sees it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from memwal.errors import NotFoundError, PreconditionError
from planner.access import Access, TableAccess
from planner.as_of import AsOf
from planner.catalog import Catalog
from planner.past_tables import check_past_access
from planner.secured import SecuredTable
from planner.system_tables import SystemTable
from planner.tokens import fold

__all__ = ["VisibleCatalog", "unknown_table"]


class VisibleCatalog:
    """What a principal's statements and metadata requests resolve their names with.

    A table or view without a grant is absent in every respect; a table with one is handed out together with
    what may be seen of it.

    Args:
        catalog: tables and views.
        access: what the principal may see of them.
        system: tables of the schema `system`, which show each principal the rows that concern it.
    """

    __slots__ = ("_catalog", "_system", "access")

    def __init__(
        self, catalog: Catalog, access: Access, system: Mapping[str, SystemTable] = MappingProxyType({})
    ) -> None:
        self._catalog = catalog
        self._system = system
        self.access = access

    def table_names(self) -> tuple[str, ...]:
        """Tables with a grant, sorted."""
        return self._granted(self._catalog.table_names())

    def view_names(self) -> tuple[str, ...]:
        """Views with a grant, sorted. What they read is checked like the principal's own statements."""
        return self._granted(self._catalog.view_names())

    def names(self) -> tuple[str, ...]:
        """Tables and views with a grant, sorted."""
        return self._granted(self._catalog.names())

    def has_table(self, name: str) -> bool:
        """Whether a table of that name exists for the principal."""
        return self.access.of(name) is not None and self._catalog.has_table(name)

    def table(self, name: str, as_of: AsOf | None = None) -> SecuredTable:
        """The table of that name.

        Args:
            name: in the catalog.
            as_of: which past of it; None for the table as it is.

        Raises:
            NotFoundError: there is none for this principal; names those that there are. Or there is no such
                past of it.
            PreconditionError: a policy applies that does not fit the past.
        """
        access = self.access.of(name)
        try:
            found = None if access is None else self._catalog.table(name)
        except NotFoundError:  # it lists tables without a grant
            found = None
        if access is None or found is None:
            raise unknown_table(name, self.names())
        if as_of is None:
            return SecuredTable(found, access)
        past = self._catalog.past.find(found, as_of)
        if not access.is_unrestricted:
            check_past_access(found.base(), past.base())
        return SecuredTable(past, access)

    def past_schema(self, name: str, as_of: AsOf) -> pa.Schema:
        """Visible columns that a table had, as it declared them.

        Raises:
            NotFoundError: there is no such table for this principal, or no such past of it.
            PreconditionError: a policy applies that does not fit the past.
        """
        return self.table(name, as_of).declared_schema()

    def table_schema(self, name: str) -> pa.Schema:
        """Visible columns of a table, as it declares them.

        Raises:
            NotFoundError: there is no such table for this principal.
            PreconditionError: the policy does not fit the table.
        """
        return self.table(name).declared_schema()

    def primary_key(self, name: str) -> tuple[str, ...]:
        """Key columns in key order; () unless all of them are shown, with their true values."""
        return self.table(name).primary_key()

    def view_sql(self, name: str) -> str | None:
        """The SELECT behind a view; None where there is no view of that name for the principal.

        Raises:
            PreconditionError: the policy restricts rows or columns of the view.
        """
        access = self.access.of(name)
        if access is None:
            return None
        sql = self._catalog.view_sql(name)
        if sql is not None:
            check_view_access(name, access)
        return sql

    def system_tables(self) -> tuple[str, ...]:
        """Tables of the schema `system`, sorted."""
        return tuple(sorted(self._system))

    def system_table(self, name: str) -> SystemTable:
        """One of them."""
        return self._system[name]

    def _granted(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if self.access.of(name) is not None)


def check_view_access(name: str, access: TableAccess) -> None:
    """Refuse restrictions on a view: its rows are restricted where its tables are.

    Raises:
        PreconditionError: there are some.
    """
    if not access.is_unrestricted:
        msg = (
            f"the access policy restricts rows or columns of view {name!r}, which only tables can have: "
            "an administrator must restrict the tables that the view reads"
        )
        raise PreconditionError(msg)


def unknown_table(name: str, known: Sequence[str]) -> NotFoundError:
    """What is said of a table that does not exist.

    Args:
        name: as resolved.
        known: all tables and views that the one who asked may know of.
    """
    names = sorted(known)
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
