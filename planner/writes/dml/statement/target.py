"""The table that a statement writes to, and the check of the right to write it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pyarrow as pa

from lance_gateway.memwal.errors import (
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
    PreconditionError,
    UnsupportedError,
)
from lance_gateway.memwal.rules import Default, IdentityDefault
from lance_gateway.memwal.storage.table_names import CATALOG, TableName
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.unknown_names import unknown_name_error
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMAS
from lance_gateway.planner.plans.errors import schema_changed_error
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.sql.dialects.translate import NATIVE
from lance_gateway.planner.sql.text.tokens import fold, quote
from lance_gateway.planner.tables.sources.base_table import BaseTable
from lance_gateway.planner.tables.state.extended_tables import ROW_NUMBER, Extension
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.writes.dml.statement.text import ReadSession


@dataclass(frozen=True, eq=False)
class Target:
    """A table that may be written.

    Attributes:
        name: name in the catalog.
        table: the table.
        secured: the table with the rights of the principal.
        base: newest version of the base table when the statement was prepared.
        key: key columns, in key order.
        schema: schema of rows as they are written: columns in the table's order, with its types.
        required: columns that must not be NULL.
        find_largest: returns the largest number in a column, of all rows.
    """

    name: TableName
    table: Table
    secured: SecuredTable
    base: BaseTable
    key: tuple[str, ...]
    schema: pa.Schema
    required: frozenset[str]
    find_largest: Callable[[str], int | None] = lambda _: None

    def relation(self, name: str) -> str:
        """Return the table as a relation of a query that reads rows to change, and calls it by a name."""
        return name_relation(self.read_name, name)

    @cached_property
    def defaults(self) -> Mapping[str, Default]:
        """Column -> default, for columns that have one, or number their rows."""
        return {**self.base.defaults, **self.identities}

    @cached_property
    def identities(self) -> Mapping[str, IdentityDefault]:
        """Column -> its numbers, for columns that number their rows."""
        return {
            name: IdentityDefault(
                name,
                self.schema.field(name).type,
                self.table.identity_numbers(self.base, name, identity),
                partial(self.find_largest, name),
            )
            for name, identity in self.base.identities.items()
        }

    def check_numbers(self, columns: Iterable[str], way_out: str) -> None:
        """Refuse values for columns that always number their rows.

        Args:
            columns: that are given values.
            way_out: end of the message.

        Raises:
            InvalidInputError: one is among them.
        """
        identities = self.base.identities
        always = [name for name in columns if name in identities and identities[name].always]
        if always:
            msg = (
                f"column {always[0]!r} of table {self.name!r} is GENERATED ALWAYS AS IDENTITY, and takes no "
                f"values: {way_out}"
            )
            raise InvalidInputError(msg)

    @cached_property
    def region_columns(self) -> tuple[str, ...]:
        """Columns outside of the key that decide about the region of a row that is changed.

        None without a key: rows that are changed are in the base table.
        """
        details = self.base.details
        if not self.key or details is None or not details.region_specs:
            return ()
        sources = {source for field in details.region_specs[-1].fields for source in field.source_ids}
        names = [self.base.field_names[source] for source in sources if source in self.base.field_names]
        return tuple(name for name in self.schema.names if name in names and name not in self.key)

    @property
    def is_plain(self) -> bool:
        """Whether the table has no MemWAL: rows are appended to its base table."""
        return self.base.details is None

    @property
    def identity(self) -> tuple[str, ...]:
        """Columns that tell rows apart while they are changed: the key, or without one the row's number."""
        return self.key or (ROW_NUMBER,)

    @property
    def read_name(self) -> TableName:
        """Name under which statements read the rows that they change."""
        return self.name if self.key else Extension.NUMBERS.extend_name(self.name)

    @cached_property
    def place_columns(self) -> tuple[str, ...]:
        """The identity, and the other columns that decide about the region of a row."""
        return (*self.identity, *self.region_columns)

    @cached_property
    def read_schema(self) -> pa.Schema:
        """Columns of the rows that are changed, as they are read: those of the table and of the identity."""
        return self.schema if self.key else self.schema.append(pa.field(ROW_NUMBER, pa.uint64()))

    def has_column(self, name: str) -> bool:
        """Whether the table has a column of that name."""
        return bool(self.schema.get_field_index(name) >= 0)

    def check_column(self, name: str) -> None:
        """Check that the table has a column.

        Raises:
            InvalidInputError: it has not; suggests similar names.
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
        """Check that the table has a primary key.

        Raises:
            PreconditionError: the table has none.
        """
        if not self.key:
            msg = (
                f"table {self.name!r} has no primary key, so no row is in the way of another: leave {what} "
                "out, or give the table a key, ALTER TABLE .. ADD PRIMARY KEY (..)"
            )
            raise PreconditionError(msg)

    def check_schema_unchanged(self, sql: str) -> None:
        """Check that the table still has the columns that the statement was prepared for.

        Raises:
            PreconditionError: the table was altered.
        """
        self.check_version(self.table.find_recent_base(), sql)

    def check_version(self, base: BaseTable, sql: str) -> None:
        """Check that a version has the columns that the statement was prepared for.

        Raises:
            PreconditionError: the table was altered.
        """
        if base is not self.base and not self.is_compatible(base):
            raise schema_changed_error(sql)

    @contextmanager
    def detecting_alterations(self) -> Iterator[None]:
        """Look at the table again when rows are refused: they may have the columns of an earlier version.

        Raises:
            PreconditionError: the table was altered.
        """
        try:
            yield
        except InvalidInputError as error:
            base = self.table.find_recent_base()
            if base is self.base or self.is_compatible(base):
                raise
            msg = (
                f"table {self.name!r} was altered while the statement ran, and these rows were not written: "
                "send it again"
            )
            raise PreconditionError(msg) from error

    def is_compatible(self, base: BaseTable) -> bool:
        """Whether rows for this target fit another version of the table, or a table created again."""
        details = self.base.details
        return (
            base.declared_schema.equals(self.schema)
            and base.primary_key == self.key
            and base.defaults == self.base.defaults
            and base.identities == self.base.identities
            and (not base.identities or base.table_id == self.base.table_id)
            and (
                base.details is details is None
                if base.details is None or details is None
                else base.details.region_specs == details.region_specs
            )
        )


def name_relation(table: TableName, name: str) -> str:
    """Return a table as a relation of a query, which calls it by its own name or an alias."""
    return table.sql if name == table.table else f"{table.sql} AS {quote(name)}"


def resolve_table_name(parts: Sequence[str], schema: str) -> TableName:
    """Return the table's name in the catalog.

    Args:
        parts: of the name in a statement.
        schema: of names without one.

    Raises:
        NotFoundError: the catalog does not exist.
        UnsupportedError: the schema is read-only.
        InvalidInputError: the name has too many parts.
    """
    *qualifiers, name = parts
    if len(qualifiers) > 2:
        msg = f"a table's name has at most three parts (catalog.schema.table), not {'.'.join(parts)!r}"
        raise InvalidInputError(msg)
    if len(qualifiers) == 2 and qualifiers[0] != CATALOG:
        msg = f"Catalog {qualifiers[0]!r} does not exist; the only one is {CATALOG!r}"
        raise NotFoundError(msg)
    full_name = TableName.qualify(name, qualifiers[-1] if qualifiers else "", schema)
    if full_name.schema in SYSTEM_SCHEMAS:
        msg = f"{full_name} is a system table, which is only read: write to tables of another schema"
        raise UnsupportedError(msg)
    return full_name


def has_table(engine: QueryPlanner, name: TableName, access: Access) -> bool:
    """Return whether a table exists for the principal, who may not be allowed to write it."""
    return access.of(name) is not None and engine.catalog.has_table(name)


def check_may_write(engine: QueryPlanner, name: TableName, access: Access) -> TableAccess:
    """Check that the principal may write to a table, change it or drop it.

    Args:
        engine: engine of the table.
        name: name of the table.
        access: rights of the principal.

    Returns:
        The unrestricted rights of the principal on the table.

    Raises:
        NotFoundError: the table does not exist for this principal.
        PermissionDeniedError: the principal may not write to the table.
        UnsupportedError: the name is that of a view.
    """
    rights, may_write = access.of(name), access.can_write(name)
    sees_all = rights is not None and rights.is_unrestricted
    if rights is None or not engine.catalog.has_table(name):
        if rights is not None and engine.catalog.view_sql(name) is not None:
            msg = f"{name!r} is a view, which can't be written: write to the tables that it reads"
            raise UnsupportedError(msg)
        raise unknown_name_error(name, engine.visible_catalog(access))
    if not may_write:
        msg = f"user {access.user!r} may not write to table {name!r}: an administrator must grant it"
        raise PermissionDeniedError(msg)
    if not sees_all:
        # Hidden values would be lost, or could be inferred from the effects of the statement.
        msg = (
            f"user {access.user!r} may not write to table {name!r}, since a policy hides some of its rows or "
            "columns from them: only those who see all of it can write it"
        )
        raise PermissionDeniedError(msg)
    return rights


def check_writable(engine: QueryPlanner, name: str) -> None:
    """Check that the gateway is not read-only.

    Raises:
        PreconditionError: the gateway is read-only.
    """
    if engine.catalog.writing is None:
        msg = f"{name!r} can't be made, changed or dropped: this gateway was started read-only"
        raise PreconditionError(msg)


def find_target(session: ReadSession, parts: Sequence[str]) -> Target:
    """Find the target of a statement, and check that it can be written.

    Args:
        session: session of the statement.
        parts: parts of the table's name.

    Raises:
        LanceGatewayError: the table does not exist, or can't be written.
    """
    name = resolve_table_name(parts, session.settings.schema)
    catalog = session.engine.catalog
    rights = check_may_write(session.engine, name, session.access)
    table = catalog.table(name)
    base = table.find_recent_base()
    if catalog.writing is None:
        table.writer()  # raises the error that says why
    if base.details is None and base.primary_key:
        msg = (
            f"table {name!r} has no MemWAL, so it takes no streaming writes: "
            f"ALTER TABLE {name} SET (memwal = true, region_by = '...') gives it one"
        )
        raise PreconditionError(msg)
    schema, key = base.declared_schema, base.primary_key
    required = base.not_null_columns.union(key)
    secured = SecuredTable(table, rights)
    return Target(name, table, secured, base, key, schema, required, partial(_find_largest, session, name))


def _find_largest(session: ReadSession, name: TableName, column: str) -> int | None:
    """Return the largest number in a column of all rows, whoever may see them."""
    everything = ReadSession(session.engine, replace(session.settings, dialect=NATIVE), FULL_ACCESS)
    settings = everything.with_strong_consistency().settings
    query = session.engine.prepare(f"SELECT max({quote(column)}) FROM {name.sql}", settings, FULL_ACCESS)  # noqa: S608
    largest: int | None = query.execute((), settings).read_all().column(0)[0].as_py()
    return largest
