"""The gateway as a database of SQLAlchemy 1.4, which is Superset's: connections, tables and columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_manager import AdbcStatusCode, dbapi
from adbc_driver_manager import DatabaseOptions as CommonOptions
from sqlalchemy import exc
from sqlalchemy.engine import URL, Connection
from sqlalchemy.engine.default import DefaultDialect

from superset_lance_gateway.types import build_type

_DEFAULT_PORT: Final = 31337
_DEFAULT_SCHEMA: Final = "main"
_TABLES: Final = ("TABLE", "SYSTEM TABLE")
_VIEWS: Final = ("VIEW",)
_FILES: Final[Mapping[str, DatabaseOptions]] = MappingProxyType(
    {
        "tls_ca": DatabaseOptions.TLS_ROOT_CERTS,
        "tls_certificate": DatabaseOptions.MTLS_CERT_CHAIN,
        "tls_key": DatabaseOptions.MTLS_PRIVATE_KEY,
    }
)
_SESSION_OPTIONS: Final = ("consistency", "max_staleness_ms", "query_timeout_ms", "read_only")


class LanceGatewayDialect(DefaultDialect):
    """`lance_gateway://user:password@host:port`; every statement is committed when it returns."""

    name = "lance_gateway"
    driver = "adbc"
    tls = False

    default_paramstyle = "qmark"
    default_schema_name = _DEFAULT_SCHEMA
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_sane_rowcount = True
    postfetch_lastrowid = False

    @classmethod
    def dbapi(cls) -> ModuleType:
        """Return the driver."""
        from adbc_driver_flightsql import dbapi as flightsql  # noqa: PLC0415 - SQLAlchemy asks when it is needed

        return flightsql

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        """Return the arguments of the driver's `connect`.

        Raises:
            sqlalchemy.exc.ArgumentError: an option behind the question mark is unknown or can't be read.
        """
        options = {DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"}
        for name, value in url.query.items():
            options |= _read_option(name, value)
        if url.username is not None:
            options |= {
                CommonOptions.USERNAME.value: url.username,
                CommonOptions.PASSWORD.value: str(url.password or ""),
            }
        host = url.host or "127.0.0.1"
        address = f"[{host}]" if ":" in host else host
        scheme = "grpc+tls" if self.tls else "grpc"
        return [f"{scheme}://{address}:{url.port or _DEFAULT_PORT}"], {
            "db_kwargs": options,
            "autocommit": True,
        }

    def do_execute(self, cursor: Any, statement: str, parameters: Sequence[Any], context: Any = None) -> None:
        """Run a statement; without parameters nothing is bound."""
        cursor.execute(statement, parameters or None)

    def do_commit(self, dbapi_connection: Any) -> None:
        """Send nothing."""

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Send nothing."""

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Return whether a new connection may help."""
        return isinstance(e, dbapi.Error) and e.status_code in {
            AdbcStatusCode.IO,
            AdbcStatusCode.UNAUTHENTICATED,
        }

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        """Return the schemas."""
        return sorted(schema["db_schema_name"] for schema in _list_schemas(connection, "db_schemas"))

    def get_table_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the tables of a schema."""
        return _list_names(connection, schema, _TABLES)

    def get_view_names(self, connection: Connection, schema: str | None = None, **kw: Any) -> list[str]:
        """Return the views of a schema."""
        return _list_names(connection, schema, _VIEWS)

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        """Return whether there is a table or view of that name."""
        return table_name in _list_names(connection, schema, (*_TABLES, *_VIEWS))

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[dict[str, Any]]:
        """Return the columns of a table or view.

        Raises:
            sqlalchemy.exc.NoSuchTableError: there is none, or the user may not see it.
        """
        try:
            fields = _driver(connection).adbc_get_table_schema(
                table_name, db_schema_filter=_escape(schema or _DEFAULT_SCHEMA)
            )
        except dbapi.Error as error:
            if error.status_code == AdbcStatusCode.NOT_FOUND:
                raise exc.NoSuchTableError(table_name) from None
            raise
        return [
            {"name": field.name, "type": build_type(field.type), "nullable": field.nullable, "default": None}
            for field in fields
        ]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> dict[str, Any]:
        """Return the primary key, without columns where there is none."""
        rows = connection.exec_driver_sql(
            "SELECT constraint_name, columns FROM system.constraints "
            "WHERE constraint_type = 'PRIMARY KEY' AND table_schema = ? AND table_name = ?",
            (schema or _DEFAULT_SCHEMA, table_name),
        )
        for name, columns in rows:
            return {"constrained_columns": list(columns), "name": name}
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Connection, table_name: str, **kw: Any) -> list[dict[str, Any]]:
        """Return none: Superset does not use them."""
        return []

    def get_indexes(self, connection: Connection, table_name: str, **kw: Any) -> list[dict[str, Any]]:
        """Return none: Superset shows them only."""
        return []


class LanceGatewayTlsDialect(LanceGatewayDialect):
    """`lance_gateway+tls://`: the same, encrypted."""

    # SQLAlchemy keeps compiled statements of a dialect that says so itself.
    supports_statement_cache = True
    driver = "tls"
    tls = True


def _read_option(name: str, value: Any) -> dict[str, str]:
    """Return the driver's options for one option of a URL."""
    if not isinstance(value, str):
        raise exc.ArgumentError(f"the URL has {name!r} more than once")
    if name == "token":
        return {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {value}"}
    if name in _FILES:
        try:
            return {_FILES[name].value: Path(value).read_text(encoding="utf-8")}
        except OSError as error:
            raise exc.ArgumentError(f"{name}={value!r} can't be read: {error.strerror}") from None
    if name in _SESSION_OPTIONS:
        return {f"{DatabaseOptions.RPC_CALL_HEADER_PREFIX.value}x-lance-gateway-{name}": value}
    known = ", ".join(sorted(("token", *_FILES, *_SESSION_OPTIONS)))
    raise exc.ArgumentError(f"the URL has an unknown option {name!r}; there are {known}")


def _list_names(connection: Connection, schema: str | None, kinds: Sequence[str]) -> list[str]:
    listed = _list_schemas(
        connection,
        "tables",
        db_schema_filter=_escape(schema or _DEFAULT_SCHEMA),
        table_types_filter=list(kinds),
    )
    return sorted(table["table_name"] for one in listed for table in one["db_schema_tables"] or ())


def _list_schemas(connection: Connection, depth: Any, **filters: Any) -> list[dict[str, Any]]:
    (catalog,) = _driver(connection).adbc_get_objects(depth=depth, **filters).read_all().to_pylist()
    schemas: list[dict[str, Any]] = catalog["catalog_db_schemas"] or []
    return schemas


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def _escape(name: str) -> str:
    """Return the search pattern that matches `name` only."""
    return re.sub(r"([\\%_])", r"\\\1", name)
