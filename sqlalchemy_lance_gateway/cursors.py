"""Cursors of ADBC as SQLAlchemy expects them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from adbc_driver_manager import AdbcStatusCode, dbapi

_PART_BYTES: Final = 4 << 20
"""Bytes of one batch of parameters; the driver refuses messages of more than 16 MiB."""
_PART_ROWS: Final = 65_536
"""Rows of one batch of parameters, which the gateway writes together."""


class GatewayCursor:
    """A cursor that tells statements without result from those with one, and binds many rows as columns.

    Args:
        cursor: of the driver. What is not defined here is its own.
    """

    def __init__(self, cursor: dbapi.Cursor) -> None:
        self._cursor = cursor
        self._rowcount: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """Return the columns of the result; None of a statement without, where the driver has []."""
        description: list[tuple[Any, ...]] | None = self._cursor.description
        return description or None

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the statement changed; -1 for queries."""
        return self._cursor.rowcount if self._rowcount is None else self._rowcount

    def execute(self, statement: str, parameters: Sequence[Any] | None = None) -> None:
        """Run a statement once.

        Raises:
            adbc_driver_manager.dbapi.Error: the gateway refused it, or a value has no Arrow type.
        """
        self._rowcount = None
        self._cursor.execute(statement, _build_table([parameters]) if parameters else None)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement with each row of parameters, all of which are sent in one call.

        Raises:
            adbc_driver_manager.dbapi.Error: as with `execute`.
        """
        self._rowcount = None
        if rows and not rows[0]:
            self._execute_each(statement, len(rows))
            return
        table = _build_table(rows)
        part_rows = max(1, min(_PART_ROWS, _PART_BYTES * len(rows) // max(1, table.nbytes)))
        self._cursor.executemany(statement, table.to_reader(part_rows))

    def _execute_each(self, statement: str, times: int) -> None:
        """Run a statement without parameters several times."""
        changed = 0
        for _ in range(times):
            self._cursor.execute(statement)
            changed += self._cursor.rowcount
        self._rowcount = changed


def _build_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows of parameters as columns, each with the Arrow type that its values have."""
    arrays = []
    for number, values in enumerate(zip(*rows, strict=True)):
        try:
            arrays.append(pa.array(values))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise dbapi.DataError(
                f"parameter {number + 1} can't be sent: {error}", status_code=AdbcStatusCode.INVALID_ARGUMENT
            ) from error
    return pa.table(arrays, names=[str(number) for number in range(len(arrays))])
