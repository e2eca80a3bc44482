"""The dialect: what the gateway can do, as SQLAlchemy asks for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NoReturn

import sqlalchemy as sa
from adbc_driver_manager import AdbcStatusCode, dbapi
from sqlalchemy.engine import Connection
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.engine.interfaces import IsolationLevel

from sqlalchemy_lance_gateway import types
from sqlalchemy_lance_gateway.compiling import GatewayCompiler, GatewayTypeCompiler
from sqlalchemy_lance_gateway.connecting import build_arguments
from sqlalchemy_lance_gateway.cursors import GatewayCursor
from sqlalchemy_lance_gateway.defining import NAME, GatewayDdlCompiler
from sqlalchemy_lance_gateway.reflecting import DEFAULT_SCHEMA, ReflectingDialect

_AUTOCOMMIT: Final = "AUTOCOMMIT"
_TRANSACTIONS: Final = "REPEATABLE READ"
_AUTOCOMMIT_OPTION: Final = "adbc.connection.autocommit"
_REFUSED: Final = "the gateway has no {what}: roll the whole transaction back, or make several of it"
_COMMITTING: Final = "sqlalchemy_lance_gateway_committing"
"""Marks errors of COMMIT."""


class GatewayContext(DefaultExecutionContext):
    """Executes one statement."""

    def create_default_cursor(self) -> Any:
        """Return a cursor of the dialect's own."""
        cursor: Any = super().create_default_cursor()
        return GatewayCursor(cursor)


def _commits_each(dbapi_connection: Any) -> bool:
    """Return whether the driver commits each statement of a connection."""
    autocommit = dbapi_connection.adbc_connection.get_option(_AUTOCOMMIT_OPTION)
    return bool(autocommit == "true")


class LanceGatewayDialect(ReflectingDialect):
    """`lance_gateway://user:password@host:port`.

    By default every statement is committed when it returns: `Connection.begin()`, `commit()` and `rollback()`
    send nothing, and `rollback()` takes nothing back. With `isolation_level="REPEATABLE READ"` there are
    transactions.
    """

    name = NAME
    driver = "adbc"
    tls = False

    default_paramstyle = "qmark"
    execution_ctx_cls = GatewayContext
    statement_compiler = GatewayCompiler
    ddl_compiler = GatewayDdlCompiler
    type_compiler_cls = GatewayTypeCompiler
    colspecs = {  # noqa: RUF012 - SQLAlchemy's form of them
        sa.Uuid: types.TextUuid,
        sa.LargeBinary: types.Bytes,
        sa.BINARY: types.Bytes,
        sa.VARBINARY: types.Bytes,
        sa.BLOB: types.Bytes,
    }
    construct_arguments = [  # noqa: RUF012 - SQLAlchemy's form of them
        (sa.Table, {"with": None}),
        (sa.Index, {"using": None, "with": None}),
    ]

    default_schema_name = DEFAULT_SCHEMA
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_schemas = True
    supports_views = True
    supports_comments = True
    inline_comments = True
    supports_sequences = False
    supports_default_values = True
    supports_default_metavalue = True
    supports_multivalues_insert = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True
    supports_is_distinct_from = True
    postfetch_lastrowid = False
    insert_returning = True
    update_returning = True
    delete_returning = True
    update_returning_multifrom = True
    delete_returning_multifrom = True
    use_insertmanyvalues = True

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the driver."""
        from adbc_driver_flightsql import dbapi as flightsql  # noqa: PLC0415 - SQLAlchemy asks when it is needed

        return flightsql

    def create_connect_args(self, url: sa.URL) -> Any:
        """Return the arguments of the driver's `connect`."""
        return build_arguments(url, tls=self.tls)

    def get_isolation_level_values(self, dbapi_connection: Any) -> Sequence[IsolationLevel]:
        """Return the levels that there are."""
        return [_AUTOCOMMIT, _TRANSACTIONS]

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        """Return the level of a connection."""
        return _AUTOCOMMIT if _commits_each(dbapi_connection) else _TRANSACTIONS

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        """Return the level of connections for which none is chosen."""
        return _AUTOCOMMIT

    def set_isolation_level(self, dbapi_connection: Any, level: IsolationLevel) -> None:
        """Begin or end transactions; SQLAlchemy has checked that there is such a level."""
        dbapi_connection.adbc_connection.set_autocommit(level == _AUTOCOMMIT)

    def do_begin(self, dbapi_connection: Any) -> None:
        """Send nothing: the driver has begun a transaction when the last one ended."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Commit; send nothing where each statement is committed when it returns."""
        if _commits_each(dbapi_connection):
            return
        # By the statement, since the driver's own call makes its connection unusable if it fails.
        with dbapi_connection.cursor() as cursor:
            try:
                cursor.execute("COMMIT")
            except dbapi.Error as error:
                setattr(error, _COMMITTING, True)
                raise

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Roll back; send nothing, and take nothing back, where each statement is committed."""
        if not _commits_each(dbapi_connection):
            dbapi_connection.adbc_connection.rollback()

    def do_savepoint(self, connection: Connection, name: str) -> NoReturn:
        """Refuse what would seem to protect.

        Raises:
            sqlalchemy.exc.InvalidRequestError: always.
        """
        raise sa.exc.InvalidRequestError(_REFUSED.format(what="savepoints"))

    def do_begin_twophase(self, connection: Connection, xid: Any) -> NoReturn:
        """Refuse what would seem to protect.

        Raises:
            sqlalchemy.exc.InvalidRequestError: always.
        """
        raise sa.exc.InvalidRequestError(_REFUSED.format(what="transactions in two phases"))

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        """Return whether a new connection may help: the gateway is away, or a login has expired.

        Where others came first, COMMIT fails with the status of a gateway that is away.
        """
        return (
            not getattr(e, _COMMITTING, False)
            and isinstance(e, dbapi.Error)
            and e.status_code
            in {
                AdbcStatusCode.IO,
                AdbcStatusCode.UNAUTHENTICATED,
            }
        )

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        driver: Any = connection.connection.dbapi_connection
        version = str(driver.adbc_get_info()["vendor_version"])
        return tuple(int(number) for number in re.findall(r"\d+", version))

    def _get_default_schema_name(self, connection: Connection) -> str:
        driver: Any = connection.connection.dbapi_connection
        return str(driver.adbc_current_db_schema)


class LanceGatewayTlsDialect(LanceGatewayDialect):
    """`lance_gateway+tls://`: the same, encrypted."""

    # SQLAlchemy keeps compiled statements of a dialect that says so itself.
    supports_statement_cache = True
    driver = "tls"
    tls = True
