"""A connection of the driver, with rows as dbt takes them."""

from typing import Any, Final

import pyarrow as pa
from adbc_driver_manager import dbapi

_PART_ROWS: Final = 8_192
"""Rows of one batch that is sent; the driver refuses messages of more than 16 MiB."""


class GatewayHandle:
    """A connection with one cursor at a time: dbt closes none.

    Args:
        connection: of the driver, in autocommit mode.
    """

    def __init__(self, connection: dbapi.Connection) -> None:
        self._connection = connection
        self._cursor: GatewayCursor | None = None

    def cursor(self) -> "GatewayCursor":
        """Return a new cursor; the one before is closed, with what it has not read."""
        if self._cursor is not None:
            self._cursor.close()
        self._cursor = GatewayCursor(self._connection.cursor())
        return self._cursor

    def cancel(self) -> None:
        """Stop the statement that runs, from another thread."""
        if self._cursor is not None:
            self._cursor.cancel()

    def close(self) -> None:
        """Close the cursor and the connection."""
        if self._cursor is not None:
            self._cursor.close()
        self._connection.close()

    def rollback(self) -> None:
        """Do nothing: each statement was committed when it returned."""


class GatewayCursor:
    """A cursor whose rows are Python values: times are cut to microseconds, as Python has them.

    Args:
        cursor: of the driver.
    """

    def __init__(self, cursor: dbapi.Cursor) -> None:
        self._cursor = cursor
        self._reader: pa.RecordBatchReader | None = None
        self.schema: pa.Schema | None = None

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Return names and Arrow types of the result's columns; None of a statement without a result."""
        if not self.schema:
            return None
        return [(field.name, field.type, None, None, None, None, None) for field in self.schema]

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the statement changed; -1 for queries."""
        return int(self._cursor.rowcount)

    def execute(self, sql: str, bindings: Any = None) -> None:
        """Run a statement.

        Raises:
            adbc_driver_manager.dbapi.Error: the gateway refused it.
        """
        self._cursor.execute(sql, bindings or None)
        self._reader = self._cursor.fetch_record_batch() if self._cursor.description else None
        self.schema = self._reader.schema if self._reader is not None else None

    def insert(self, sql: str, rows: pa.Table) -> None:
        """Run an INSERT with `?` for each column of rows, all of which are one statement.

        Raises:
            adbc_driver_manager.dbapi.Error: the gateway refused it; nothing was written.
        """
        self._cursor.executemany(sql, rows.to_reader(_PART_ROWS))

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        return next(iter(self.fetchmany(1)), None)

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Return the first rows, at most so many; the others are not read."""
        rows: list[tuple[Any, ...]] = []
        if self._reader is not None:
            while len(rows) < size and (batch := next(self._reader, None)) is not None:
                rows += _to_rows(batch.slice(0, size - len(rows)))
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return [row for batch in self._reader or () for row in _to_rows(batch)]

    def cancel(self) -> None:
        """Stop the work on the server."""
        self._cursor.adbc_cancel()

    def close(self) -> None:
        """Give up what was not read."""
        self._reader = None
        self._cursor.close()


def _to_rows(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    columns = [_to_microseconds(column).to_pylist() for column in batch.columns]
    return list(zip(*columns, strict=True))


def _to_microseconds(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_time64(column.type) and column.type.unit == "ns":
        return column.cast(pa.time64("us"), safe=False)
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    return column
