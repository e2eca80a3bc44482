"""What a principal sees: relations with their columns, keys, constraints and indexes."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from lance_gateway.memwal.base.comments import read_table_comment
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.rules import Constraint, ConstraintKind, Identity, list_defaults, list_identities
from lance_gateway.memwal.storage.table_names import MAIN_SCHEMA, TableName
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMA, VisibleCatalog
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.system.catalogs.sql_types import ColumnType, list_column_types

logger = logging.getLogger(__name__)

INFORMATION_SCHEMA: Final = "information_schema"
PG_CATALOG: Final = "pg_catalog"
InferSchema = Callable[[TableName], pa.Schema]
"""Returns the columns of a view.

Raises:
    LanceGatewayError: the view can't be read.
"""
_Name = tuple[str, str, str]
_FIRST_OID: Final = 16_384
"""PostgreSQL numbers its own objects below."""
_PLAIN_NAME: Final = re.compile("[a-z_][a-z0-9_]*")
_LETTERS: Final[Mapping[ConstraintKind, str]] = MappingProxyType(
    {ConstraintKind.CHECK: "c", ConstraintKind.UNIQUE: "u", ConstraintKind.FOREIGN_KEY: "f"}
)


class Kind(Enum):
    """Kind of a relation; its value is PostgreSQL's letter."""

    TABLE = "r"
    VIEW = "v"


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a table.

    Attributes:
        name: unique within its schema.
        columns: of the table, in order.
        type: such as "BTree".
        is_primary: whether it is the index of the primary key, which need not be stored.
    """

    name: str
    columns: tuple[str, ...]
    type: str
    is_primary: bool = False


@dataclass(frozen=True, eq=False)
class Relation:
    """A table or view.

    Attributes:
        schema: of the catalog, by name.
        name: within the schema.
        kind: table or view.
        columns: as declared; NOT NULL where they take no NULL.
        key: columns of the primary key, in order.
        constraints: that the principal may see.
        indexes: likewise.
        definition: SELECT of a view.
        comment: of the relation.
        is_writable: whether the principal may write rows.
        measure: returns the bytes of its base table; None where the principal may not know.
        is_own: whether it is one of the gateway's own, which are the same for all who see them.
    """

    schema: str
    name: str
    kind: Kind
    columns: pa.Schema
    key: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    indexes: tuple[Index, ...] = ()
    definition: str | None = None
    comment: str | None = None
    is_writable: bool = False
    measure: Callable[[], int] | None = None
    is_own: bool = False

    @cached_property
    def types(self) -> Mapping[str, ColumnType]:
        """Column -> type."""
        return list_column_types(self.columns)

    @cached_property
    def defaults(self) -> Mapping[str, str]:
        """Column -> default, in SQL."""
        return {column: default.expression for column, default in list_defaults(self.columns).items()}

    @cached_property
    def identities(self) -> Mapping[str, Identity]:
        """Column -> how it numbers its rows, for columns that do."""
        return list_identities(self.columns)

    def number(self, column: str) -> int:
        """Return the place of a column, counted from 1; 0 if the principal sees none of that name."""
        return int(self.columns.get_field_index(column)) + 1


@dataclass(frozen=True, eq=False)
class Rule:
    """A constraint.

    Attributes:
        name: unique within its table.
        letter: PostgreSQL's, of its type.
        type: such as "PRIMARY KEY".
        columns: in order.
        expression: of a CHECK.
        is_enforced: whether rows are checked.
        target_name: name of the relation to which a foreign key refers.
        target: that relation, if the principal sees it.
        target_columns: likewise.
    """

    name: str
    letter: str
    type: str
    columns: tuple[str, ...]
    expression: str = ""
    is_enforced: bool = True
    target_name: str = ""
    target: Relation | None = None
    target_columns: tuple[str, ...] = ()

    @property
    def definition(self) -> str:
        """Text of the constraint, as PostgreSQL writes it."""
        names = ", ".join(map(quote_plainly, self.columns))
        if self.letter == "c":
            return f"CHECK (({self.expression}))" + ("" if self.is_enforced else " NOT VALID")
        ending = "" if self.is_enforced else " NOT ENFORCED"
        if not self.target_name:
            return f"{self.type} ({names}){ending}"
        others = ", ".join(map(quote_plainly, self.target_columns))
        return f"FOREIGN KEY ({names}) REFERENCES {quote_plainly(self.target_name)}({others}){ending}"


def quote_plainly(name: str) -> str:
    """Return a name as an identifier, with quotes where it needs them."""
    return name if _PLAIN_NAME.fullmatch(name) else quote(name)


class Relations:
    """The relations that a principal sees, gathered once; safe to share between threads.

    Args:
        catalog: as the principal sees it.
        infer_schema: None leaves views out.
        list_own: returns name -> columns of the tables of information_schema.
        schema: of names without one.
    """

    def __init__(
        self,
        catalog: VisibleCatalog,
        infer_schema: InferSchema | None,
        list_own: Callable[[], Mapping[str, pa.Schema]],
        schema: str = MAIN_SCHEMA,
    ) -> None:
        self.schema = schema
        # Opened again, so that the statement does not depend on the tables that it lists.
        self.catalog = catalog.reopen()
        self._infer_schema = infer_schema
        self._list_own = list_own
        self._lock = threading.Lock()
        self._gathered: tuple[Relation, ...] | None = None

    @property
    def all(self) -> tuple[Relation, ...]:
        """All relations, by schema and name, but those of pg_catalog; what can't be read is left out."""
        with self._lock:
            if self._gathered is None:
                # Never on the caller's thread: it may be one of DataFusion's own, and DataFusion, entered a
                # second time there, ends the process.
                with ThreadPoolExecutor(1, thread_name_prefix="relations") as thread:
                    found = thread.submit(lambda: tuple(self._gather())).result()
                self._gathered = tuple(sorted(found, key=lambda one: (one.schema, one.name)))
            return self._gathered

    @cached_property
    def schemas(self) -> tuple[str, ...]:
        """Names of the schemas, sorted."""
        system = (SYSTEM_SCHEMA,) if self.catalog.system_tables() else ()
        return tuple(sorted((*self.catalog.schema_names(), INFORMATION_SCHEMA, PG_CATALOG, *system)))

    @property
    def user(self) -> str:
        """Name of the principal."""
        return self.catalog.access.user

    @cached_property
    def numbers(self) -> Mapping[_Name, int]:
        """Schema, relation and "" -> oid of the relation; with the name of an index -> that of the index."""
        names = [(one.schema, one.name, "") for one in self.all]
        names += [(one.schema, one.name, index.name) for one in self.all for index in one.indexes]
        return _number_all(names)

    def number(self, relation: Relation) -> int:
        """Return the oid of a relation."""
        return self.numbers[relation.schema, relation.name, ""]

    def find(self, schema: str, name: str) -> Relation | None:
        """Return a relation by its name; None if the principal sees none."""
        return next((one for one in self.all if (one.schema, one.name) == (schema, name)), None)

    def list_rules(self, relation: Relation) -> Iterator[Rule]:
        """Yield the constraints of a relation that the principal may see, its primary key first."""
        if relation.key:
            yield Rule(f"{relation.name}_pkey", "p", "PRIMARY KEY", relation.key)
        for one in relation.constraints:
            target = None
            if one.kind is ConstraintKind.FOREIGN_KEY:
                named = TableName.parse(one.referenced_table)
                target = self.find(named.schema, named.table)
            columns = one.referenced_columns or (() if target is None else target.key)
            yield Rule(
                one.name,
                _LETTERS[one.kind],
                one.kind.value,
                one.columns,
                one.expression,
                one.enforced,
                one.referenced_table,
                target,
                columns,
            )

    def _gather(self) -> Iterator[Relation]:
        for table in self.catalog.table_names():
            try:
                yield _describe_table(self.catalog, self.catalog.table(table))
            except LanceGatewayError as error:
                logger.warning("table %r is not listed: %s", table, error)
        if self._infer_schema is not None:
            yield from self._gather_views(self._infer_schema)
        for name in self.catalog.system_tables():
            yield _describe_own(SYSTEM_SCHEMA, name, Kind.TABLE, self.catalog.system_table(name).schema)
        for name, schema in self._list_own().items():
            yield _describe_own(INFORMATION_SCHEMA, name, Kind.VIEW, schema)

    def _gather_views(self, infer_schema: InferSchema) -> Iterator[Relation]:
        for name in self.catalog.view_names():
            try:
                columns, sql = infer_schema(name), self._read_definition(name)
            except LanceGatewayError as error:
                logger.warning("view %r is not listed: %s", name, error)
                continue
            yield Relation(name.schema, name.table, Kind.VIEW, columns, definition=sql)

    def _read_definition(self, view: TableName) -> str | None:
        """Return the SELECT of a view, for those who may change it: it may name what others don't see."""
        access = self.catalog.access
        return self.catalog.view_sql(view) if access.is_admin or access.can_write(view) else None


_OWN: Final[dict[tuple[str, str], Relation]] = {}


def _describe_own(schema: str, name: str, kind: Kind, columns: pa.Schema) -> Relation:
    """Return a relation of the gateway's own, with what was computed of it before."""
    known = _OWN.get((schema, name))
    if known is None or known.columns is not columns:
        known = _OWN[schema, name] = Relation(schema, name, kind, columns, is_own=True)
    return known


def _describe_table(catalog: VisibleCatalog, table: SecuredTable) -> Relation:
    required = table.required_columns
    declared = table.declared_schema
    columns = pa.schema(
        [field.with_nullable(field.name not in required) for field in declared], metadata=declared.metadata
    )
    key = table.primary_key
    indexes = [Index(f"{table.name.table}_pkey", key, "BTree", is_primary=True)] if key else []
    constraints: tuple[Constraint, ...] = ()
    comment = None
    if table.access.is_unrestricted:
        base = table.base
        constraints = tuple(base.constraints)
        indexes += [
            Index(index.name, index.columns, index.type)
            for index in base.indexes
            if index.columns and all(column in columns.names for column in index.columns)
        ]
        comment = read_table_comment(base.dataset)
    writes = (
        table.access.is_unrestricted
        and catalog.access.can_write(table.name)
        and table.base.details is not None
    )
    return Relation(
        table.name.schema,
        table.name.table,
        Kind.TABLE,
        columns,
        key,
        constraints,
        tuple(indexes),
        None,
        comment,
        writes,
        (lambda: _measure(table)) if table.access.is_unrestricted else None,
    )


def _measure(table: SecuredTable) -> int:
    """Return the bytes of the data files of a base table, as its manifest tells them."""
    fragments = table.base.dataset.get_fragments()
    return sum(file.file_size_bytes or 0 for one in fragments for file in one.metadata.files)


def _number_all(names: Iterable[_Name]) -> Mapping[_Name, int]:
    """Return name -> oid; where two names have the same one, the later takes another."""
    numbers: dict[_Name, int] = {}
    taken: set[int] = set()
    for name in names:
        text = ".".join(map(quote, name))
        while (number := make_number(text)) in taken:
            text += "'"
        taken.add(number)
        numbers[name] = number
    return numbers


def make_number(name: str) -> int:
    """Return the oid of a name: the same in all processes and at all times."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return _FIRST_OID + int.from_bytes(digest, "big") % (2**31 - _FIRST_OID)
