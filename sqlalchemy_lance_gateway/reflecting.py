"""What tables there are, and what the gateway tells of them.

Names and columns come from Flight SQL's own listings; defaults, constraints and indexes from the schema
`system`. Each lists what the caller may see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa
from adbc_driver_manager import AdbcStatusCode, dbapi
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import (
    ReflectedCheckConstraint,
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
    ReflectedTableComment,
    ReflectedUniqueConstraint,
)

from sqlalchemy_lance_gateway.defining import NAME
from sqlalchemy_lance_gateway.types import build_type

DEFAULT_SCHEMA: Final = "main"
_TABLES: Final = ("TABLE", "SYSTEM TABLE")
_VIEWS: Final = ("VIEW",)
_REMARKS: Final = b"ARROW:FLIGHT:SQL:REMARKS"
# Lance's names of the types that `CREATE INDEX` calls otherwise.
_INDEX_TYPES: Final[Mapping[str, str]] = MappingProxyType({"LABELLIST": "LABEL_LIST"})

_COLUMNS: Final = sa.text(
    "SELECT column_name, column_default, is_uuid, is_json FROM system.columns "
    "WHERE table_schema = :schema AND table_name = :name"
)
_CONSTRAINTS: Final = sa.text(
    "SELECT constraint_name, constraint_type, columns, expression, referenced_schema, referenced_table, "
    "referenced_columns "
    "FROM system.constraints WHERE table_schema = :schema AND table_name = :name ORDER BY constraint_name"
)
_COMMENT: Final = sa.text(
    "SELECT comment FROM system.tables WHERE table_schema = :schema AND table_name = :name"
)
_INDEXES: Final = sa.text(
    "SELECT index_name, type, columns FROM system.indexes "
    "WHERE table_schema = :schema AND table_name = :name ORDER BY index_name"
)


class ReflectingDialect(DefaultDialect):
    """The part of the dialect that inspects a gateway; the methods are those of SQLAlchemy's `Dialect`."""

    @reflection.cache
    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return the schemas of tables, and the gateway's own; not that of temporary tables."""
        (catalog,) = self._list_objects(connection, "db_schemas")
        names = (schema["db_schema_name"] for schema in catalog["catalog_db_schemas"])
        return sorted(name for name in names if not name.startswith("pg_temp"))

    @reflection.cache
    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the tables of a schema."""
        return self._list_names(connection, schema, _TABLES)

    @reflection.cache
    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the views of a schema."""
        return self._list_names(connection, schema, _VIEWS)

    @reflection.cache
    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Return whether there is a table or view of that name."""
        try:
            self._read_schema(connection, table_name, schema, **kw)
        except sa.exc.NoSuchTableError:
            return False
        return True

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedColumn]:
        """Return the columns of a table or view."""
        arrow = self._read_schema(connection, table_name, schema, **kw)
        declared = {
            row.column_name: row for row in connection.execute(_COLUMNS, self._name(table_name, schema))
        }
        columns: list[ReflectedColumn] = []
        for field in arrow:
            rules = declared.get(field.name)
            comment = (field.metadata or {}).get(_REMARKS)
            columns.append(
                {
                    "name": field.name,
                    "type": build_type(
                        field,
                        is_uuid=rules is not None and rules.is_uuid,
                        is_json=rules is not None and rules.is_json,
                    ),
                    "nullable": field.nullable,
                    "default": None if rules is None else rules.column_default,
                    "autoincrement": False,
                    "comment": None if comment is None else comment.decode(),
                }
            )
        return columns

    @reflection.cache
    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedPrimaryKeyConstraint:
        """Return the primary key, without columns where there is none."""
        for row in self._list_constraints(connection, table_name, schema, **kw):
            if row.constraint_type == "PRIMARY KEY":
                return {"constrained_columns": list(row.columns), "name": row.constraint_name}
        return reflection.ReflectionDefaults.pk_constraint()

    @reflection.cache
    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        """Return the foreign keys that a table notes; nobody enforces them."""
        return [
            {
                "name": row.constraint_name,
                "constrained_columns": list(row.columns),
                "referred_schema": self._name_schema(row.referenced_schema, schema),
                "referred_table": row.referenced_table,
                "referred_columns": list(row.referenced_columns),
                "options": {},
            }
            for row in self._list_constraints(connection, table_name, schema, **kw)
            if row.constraint_type == "FOREIGN KEY"
        ]

    @reflection.cache
    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedUniqueConstraint]:
        """Return the unique constraints that a table notes; nobody enforces them."""
        return [
            {"name": row.constraint_name, "column_names": list(row.columns)}
            for row in self._list_constraints(connection, table_name, schema, **kw)
            if row.constraint_type == "UNIQUE"
        ]

    @reflection.cache
    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedCheckConstraint]:
        """Return the conditions that rows have to meet."""
        return [
            {"name": row.constraint_name, "sqltext": row.expression}
            for row in self._list_constraints(connection, table_name, schema, **kw)
            if row.constraint_type == "CHECK"
        ]

    @reflection.cache
    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[ReflectedIndex]:
        """Return the indexes of a table, each with its type as `lancegateway_using`."""
        self._read_schema(connection, table_name, schema, **kw)
        return [
            {
                "name": row.index_name,
                "column_names": list(row.columns),
                "unique": False,
                "dialect_options": {f"{NAME}_using": _INDEX_TYPES.get(row.type.upper(), row.type.upper())},
            }
            for row in connection.execute(_INDEXES, self._name(table_name, schema))
        ]

    @reflection.cache
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> ReflectedTableComment:
        """Return what `CREATE TABLE .. COMMENT` wrote."""
        self._read_schema(connection, table_name, schema, **kw)
        return {"text": connection.scalar(_COMMENT, self._name(table_name, schema))}

    @reflection.cache
    def _list_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[sa.Row[Any]]:
        self._read_schema(connection, table_name, schema, **kw)
        return list(connection.execute(_CONSTRAINTS, self._name(table_name, schema)))

    @reflection.cache
    def _read_schema(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> pa.Schema:
        """Return the columns of a table or view.

        Raises:
            sqlalchemy.exc.NoSuchTableError: there is none of that name, or the caller may not see it.
        """
        try:
            # The driver takes the name as it stands, and the schema as a pattern.
            return _driver(connection).adbc_get_table_schema(
                table_name, db_schema_filter=_escape(schema or self._default_schema)
            )
        except dbapi.Error as error:
            if error.status_code == AdbcStatusCode.NOT_FOUND:
                raise sa.exc.NoSuchTableError(table_name) from None
            raise

    @property
    def _default_schema(self) -> str:
        return self.default_schema_name or DEFAULT_SCHEMA

    def _name(self, table_name: str, schema: str | None) -> dict[str, str]:
        """Return the parameters that name a table in statements about system tables."""
        return {"schema": schema or self._default_schema, "name": table_name}

    def _name_schema(self, named: str, schema: str | None) -> str | None:
        """Return a schema as a table of another one names it: None where both leave theirs out."""
        return None if schema is None and named == self._default_schema else named

    def _list_names(self, connection: Connection, schema: str | None, kinds: tuple[str, ...]) -> list[str]:
        objects = self._list_objects(
            connection,
            "tables",
            db_schema_filter=_escape(schema or self._default_schema),
            table_types_filter=list(kinds),
        )
        return sorted(
            table["table_name"]
            for catalog in objects
            for listed in catalog["catalog_db_schemas"] or ()
            for table in listed["db_schema_tables"] or ()
        )

    def _list_objects(self, connection: Connection, depth: Any, **filters: Any) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (
            _driver(connection).adbc_get_objects(depth=depth, **filters).read_all().to_pylist()
        )
        return listed


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def _escape(name: str) -> str:
    """Return the search pattern that matches `name` only."""
    return re.sub(r"([\\%_])", r"\\\1", name)
