"""Connections to a gateway, on which each statement commits by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from adbc_driver_flightsql import dbapi as flightsql
from adbc_driver_manager import AdbcStatusCode, dbapi
from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.lance_gateway.credentials import LanceGatewayCredentials
from dbt.adapters.lance_gateway.handle import GatewayCursor, GatewayHandle
from dbt.adapters.lance_gateway.types import write_kind
from dbt.adapters.sql import SQLConnectionManager
from dbt_common.exceptions import DbtDatabaseError


class LanceGatewayConnectionManager(SQLConnectionManager):
    """Opens, cancels and closes the connections of dbt's threads."""

    TYPE = "lance_gateway"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open a connection that is not open.

        Raises:
            FailedToConnectError: no gateway is there, or it does not let the user in.
        """
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials: LanceGatewayCredentials = connection.credentials
        try:
            opened = flightsql.connect(
                credentials.uri, db_kwargs=credentials.build_options(), autocommit=True
            )
        except dbapi.Error as error:
            connection.state = ConnectionState.FAIL
            connection.handle = None
            raise FailedToConnectError(f"{credentials.uri}: {error}") from error
        connection.handle = GatewayHandle(opened)
        connection.state = ConnectionState.OPEN
        return connection

    def cancel(self, connection: Connection) -> None:
        """Stop what a connection of another thread runs."""
        connection.handle.cancel()

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Raise errors of the driver as dbt's.

        Raises:
            DbtDatabaseError: the gateway refused the statement.
        """
        try:
            yield
        except dbapi.Error as error:
            raise DbtDatabaseError(str(error)) from error

    @classmethod
    def get_response(cls, cursor: GatewayCursor) -> AdapterResponse:
        """Return what dbt prints behind a statement."""
        changed = cursor.rowcount
        if cursor.schema or changed < 0:
            return AdapterResponse(_message="OK")
        return AdapterResponse(_message=f"OK {changed}", rows_affected=changed)

    @classmethod
    def data_type_code_to_name(cls, type_code: pa.DataType) -> str:
        """Return the type of a column of a result, as contracts compare it."""
        return write_kind(type_code)

    def add_begin_query(self) -> None:
        """Send nothing: definitions can't be rolled back, and neither can changes of tables without a key."""

    def add_commit_query(self) -> None:
        """Send nothing, as with `add_begin_query`."""

    def insert(self, sql: str, rows: pa.Table) -> None:
        """Run an INSERT with `?` for each column of rows; see `GatewayCursor.insert`."""
        with self.exception_handler(sql):
            self.get_thread_connection().handle.cursor().insert(sql, rows)

    def fetch_schema(self, sql: str) -> pa.Schema | None:
        """Run a query and return the Arrow schema of its result; None if a table of it is not there."""
        try:
            _, cursor = self.add_select_query(sql)
        except DbtDatabaseError as error:
            if getattr(error.__cause__, "status_code", None) == AdbcStatusCode.NOT_FOUND:
                return None
            raise
        return cursor.schema

    def fetch_rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        _, cursor = self.add_select_query(sql)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
