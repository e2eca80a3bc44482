"""The catalog as one principal sees it."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from memwal.creating import list_not_null_columns
from memwal.errors import InvalidInputError, NotFoundError, PreconditionError
from planner.access.rights import UNRESTRICTED, Access, FullAccess, TableAccess
from planner.access.table_policy import TablePolicy, plan_policy
from planner.sql.as_of import AsOf
from planner.sql.tokens import fold
from planner.tables.sources.base_table import BaseTable
from planner.tables.state.catalog import Catalog
from planner.tables.state.past_tables import check_past_access
from planner.tables.state.table import Table

__all__ = ["VisibleCatalog", "unknown_table"]

SYSTEM_SCHEMA = "system"

MOMENT = pa.timestamp("us", "UTC")
"""Type of moments in system tables."""


class SystemTable(Protocol):
    """One table of the schema."""

    @property
    def name(self) -> str:
        """Within the schema."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns; the same for everybody."""

    def read(self, access: Access) -> pa.Table:
        """The rows that a principal may see, as they are now.

        Raises:
            LanceGatewayError: what they tell about can't be read.
        """


logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SecuredTable:
    """A table handle that can't be used without its restrictions.

    It keeps the version that it finds; a newer one is found with a handle of a later catalog.

    Args:
        table: in the catalog.
        access: what is seen of it.
    """

    table: Table
    access: TableAccess

    @property
    def name(self) -> str:
        """In the catalog."""
        return self.table.name

    @cached_property
    def base(self) -> BaseTable:
        """The version of the base table that was the newest when this was first asked for."""
        return self.table.base()

    def policy(self, base: BaseTable) -> TablePolicy | None:
        """How the restrictions are applied to rows of this version; None where there are none.

        Raises:
            PreconditionError: they don't fit the version's columns. Nothing of the table is shown then.
        """
        if self.access.is_unrestricted:
            return None
        try:
            return plan_policy(base.schema, self.access)
        except InvalidInputError as error:
            # The text of a policy is not for those whom it restricts.
            logger.error("the access policy of table %r can't be applied: %s", self.name, error)  # noqa: TRY400
            raise misfit(self.name) from None

    @cached_property
    def visible_schema(self) -> pa.Schema:
        """Columns that exist for the principal.

        Raises:
            PreconditionError: see `policy`.
        """
        policy = self.policy(self.base)
        return self.base.schema if policy is None else policy.schema

    @cached_property
    def declared_schema(self) -> pa.Schema:
        """Visible columns, as the table declares them.

        Raises:
            PreconditionError: see `policy`.
        """
        declared: pa.Schema = self.base.dataset.schema
        policy = self.policy(self.base)
        if policy is None:
            return declared
        keyed = self.primary_key == self.base.primary_key
        fields = [declared.field(name) for name in policy.schema.names]
        # What is not a key to the principal is not declared as part of one either.
        return pa.schema(fields if keyed else [field.remove_metadata() for field in fields])

    @property
    def required_columns(self) -> frozenset[str]:
        """Columns in which NULL is refused; none where a policy restricts what is shown."""
        if not self.access.is_unrestricted:
            return frozenset()
        return frozenset(list_not_null_columns(self.base.dataset.schema))

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Key columns, in key order; () unless all of them are shown, with their true values."""
        key = self.base.primary_key
        concealed = self.access.hidden_columns | self.access.masks.keys()
        return () if concealed.intersection(key) else key

    def is_like(self, other: SecuredTable) -> bool:
        """Whether a statement that was prepared with the other handle would be prepared alike with this."""
        one, another = self.base, other.base
        return one is another or (
            one.place == another.place
            and one.schema.equals(another.schema)
            and one.primary_key == another.primary_key
        )


def check_table_access(table: Table, access: TableAccess) -> None:
    """Whether restrictions fit the newest version of a table.

    Raises:
        InvalidInputError: what does not fit, with the policy's own words: for its author, not for users.
    """
    try:
        plan_policy(table.base().schema, access)
    except InvalidInputError as error:
        raise InvalidInputError(f"table {table.name!r}: {error}") from error


def misfit(table: str) -> PreconditionError:
    """What users are told of a policy that can't be applied."""
    return PreconditionError(
        f"the access policy of table {table!r} does not fit the table: none of its rows are shown until an "
        "administrator corrects the policy (the log of the gateway says what is wrong)"
    )


class VisibleCatalog:
    """What a principal's statements and metadata requests resolve their names with.

    A table or view without a grant is absent in every respect; a table with one is handed out together with
    what may be seen of it. What was found stays found: a statement is prepared with one catalog, and each of
    its runs has another one.

    Args:
        catalog: tables and views.
        access: what the principal may see of them.
        system: tables of the schema `system`, which show each principal the rows that concern it.
    """

    __slots__ = ("_catalog", "_found", "_system", "access", "views")

    def __init__(
        self, catalog: Catalog, access: Access, system: Mapping[str, SystemTable] = MappingProxyType({})
    ) -> None:
        self._catalog = catalog
        self._system = system
        self._found: dict[tuple[str, AsOf | None], SecuredTable] = {}
        self.views: dict[str, str] = {}
        """The views that were found, and what they say."""
        self.access = access

    def anew(self) -> VisibleCatalog:
        """The same catalog for the same principal, of which nothing was found yet."""
        return VisibleCatalog(self._catalog, self.access, self._system)

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
        """Whether a table of that name exists for the principal; it need not be one that can be read."""
        return self._rights(name) is not None and self._catalog.has_table(name)

    def find(self, name: str) -> SecuredTable | None:
        """The table of that name in its newest version; None where there is none for the principal.

        Raises:
            LanceGatewayError: it can't be read.
        """
        found = self._found.get((name, None))
        if found is None:
            access = self._rights(name)
            if access is None or not self._catalog.has_table(name):
                return None
            try:
                found = self._found[name, None] = SecuredTable(self._catalog.table(name), access)
            except NotFoundError:  # it was dropped just now; the message lists tables without a grant
                return None
        _ = found.base
        return found

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
        known = self._found.get((name, as_of))
        if known is not None:
            return known
        access = self._rights(name)
        try:
            found = None if access is None else self._catalog.table(name)
        except NotFoundError:  # it lists tables without a grant
            found = None
        if access is None or found is None:
            raise unknown_table(name, self.names())
        if as_of is not None:
            past = self._catalog.past.find(found, as_of)
            if not access.is_unrestricted:
                check_past_access(found.base(), past.base())
            found = past
        secured = self._found[name, as_of] = SecuredTable(found, access)
        return secured

    def view_sql(self, name: str) -> str | None:
        """The SELECT behind a view; None where there is no view of that name for the principal.

        Raises:
            PreconditionError: the policy restricts rows or columns of the view.
        """
        access = self._rights(name)
        sql = None if access is None else self.views.get(name) or self._catalog.view_sql(name)
        if access is not None and sql is not None:
            check_view_access(name, access)
            self.views[name] = sql
        return sql

    def holds(self) -> bool:
        """Whether every name that was found still means the same, and every table has the columns it had.

        Raises:
            LanceGatewayError: a table was dropped, or can't be read.
        """
        now = self.anew()
        if self.views and not self.views_hold(now):
            return False
        for (name, as_of), old in list(self._found.items()):
            new = now.table(name, as_of)
            # A tag may be moved, and what an expression gives may change by itself.
            if not (new.is_like(old) if as_of is None else new.declared_schema.equals(old.declared_schema)):
                return False
        # The next comparison begins with the versions of this one.
        self._found = now._found  # noqa: SLF001 - of the same class
        return True

    def views_hold(self, now: VisibleCatalog | None = None) -> bool:
        """Whether every view that was found says what it said.

        Args:
            now: what is found now; None finds it.
        """
        now = now or self.anew()
        return all(now.view_sql(name) == sql and not now.has_table(name) for name, sql in self.views.items())

    def system_tables(self) -> tuple[str, ...]:
        """Tables of the schema `system`, sorted."""
        return tuple(sorted(self._system))

    def system_table(self, name: str) -> SystemTable:
        """One of them."""
        return self._system[name]

    def _granted(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if self._rights(name) is not None)

    def _rights(self, name: str) -> TableAccess | None:
        return UNRESTRICTED if type(self.access) is FullAccess else self.access.of(name)


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
