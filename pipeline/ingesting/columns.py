"""Whether rows fit a table, and rows in its columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from memwal.errors import InvalidInputError, PreconditionError
from memwal.writing import OpenTable
from pipeline.ingesting.options import IngestOptions


@dataclass(frozen=True)
class Columns:
    """How the columns of rows become those of a table; sent to executors.

    Attributes:
        table: name, for messages.
        schema: of the table.
        key: columns of its key.
        required: columns in which NULL is refused.
        given: columns of the table that rows have.
        deleted: column of rows whose truth deletes a key.
    """

    table: str
    schema: pa.Schema
    key: tuple[str, ...]
    required: tuple[str, ...]
    given: tuple[str, ...]
    deleted: str | None

    @staticmethod
    def fitting(rows: pa.Schema, table: OpenTable, options: IngestOptions) -> Columns:
        """Match columns by name.

        Args:
            rows: schema of what comes in.
            table: what it goes into.
            options: of the job.

        Raises:
            PreconditionError: the table has no key.
            InvalidInputError: a column is unknown, missing, there twice, or of a type that does not fit.
        """
        name, schema = table.name, table.schema
        if not table.key:
            msg = (
                f"table {name!r} has no primary key, so rows that Spark writes twice would be there twice: "
                "declare a key, or insert through a gateway"
            )
            raise PreconditionError(msg)
        if len(set(rows.names)) != len(rows.names):
            twice = next(one for one in rows.names if rows.names.count(one) > 1)
            msg = f"table {name!r}: the rows have column {twice!r} twice: columns are found by name"
            raise InvalidInputError(msg)
        _check_extras(rows, table, options)
        extras = {*options.order_by, options.deleted_column} - set(schema.names)
        for one in rows.names:
            if one not in extras and one not in schema.names:
                close = difflib.get_close_matches(one.lower(), schema.names, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(schema.names)}"
                raise InvalidInputError(f"table {name!r} has no column {one!r}: {hint}")
        for one in table.required:
            if one not in rows.names:
                what = "belongs to its key" if one in table.key else "must not be NULL"
                msg = f"table {name!r}: column {one!r} {what}, but the rows have {', '.join(rows.names)}"
                raise InvalidInputError(msg)
        given = tuple(one for one in rows.names if one in schema.names)
        for one in given:
            _check_type(name, one, rows.field(one).type, schema.field(one).type)
        return Columns(name, schema, table.key, table.required, given, options.deleted_column)

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Rows to write, and rows whose keys die; both may lack columns, none has extra ones."""
        if self.deleted is None:
            return rows.select(list(self.given)), None
        dead = pc.fill_null(rows.column(self.deleted), fill_value=False)
        rows = rows.select(list(self.given))
        return rows.filter(pc.invert(dead)), rows.filter(dead)

    def conformed(self, rows: pa.Table) -> pa.Table:
        """Rows with exactly the table's columns in its types; what is missing is NULL.

        Raises:
            InvalidInputError: a value does not fit; names table, column and the row's key.
        """
        columns = []
        for field in self.schema:
            if field.name not in self.given:
                columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
                continue
            column = rows.column(field.name)
            columns.append(column if column.type == field.type else self._cast(rows, field))
        return pa.Table.from_arrays(columns, schema=self.schema)

    def check(self, rows: pa.Table) -> None:
        """Make sure that there are values where the table needs them.

        Args:
            rows: as they come in.

        Raises:
            InvalidInputError: names table, column and the row's key.
        """
        if self.deleted is None:
            self._check_values(rows, self.required)
            return
        self._check_values(rows, self.key)
        self._check_values(self.split(rows)[0], self.required)

    def named(self, rows: pa.Table, at: int) -> str:
        """A row by its key, for messages."""
        values = (f"{one} = {rows.column(one)[at].as_py()!r}" for one in self.key if one in rows.column_names)
        return f"the row with {', '.join(values)}"

    def _check_values(self, rows: pa.Table, names: tuple[str, ...]) -> None:
        for name in names:
            column = rows.column(name)
            if column.null_count:
                at = int(np.flatnonzero(column.is_null().to_numpy())[0])
                msg = (
                    f"table {self.table!r}: column {name!r} can't be NULL, but {self.named(rows, at)} has no "
                    "value there; give one"
                )
                raise InvalidInputError(msg)

    def _cast(self, rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
        column = rows.column(field.name)
        try:
            return column.cast(field.type)
        except pa.ArrowException as error:
            at = first_failing(
                rows.num_rows, lambda start, length: column.slice(start, length).cast(field.type)
            )
            reason = str(error).split("\n")[0]
            msg = (
                f"table {self.table!r}: column {field.name!r} is {field.type}, which {self.named(rows, at)} "
                f"does not fit: {reason}"
            )
            raise InvalidInputError(msg) from error


def first_failing(rows: int, attempt: Callable[[int, int], object]) -> int:
    """Position of a row at which something fails that fails for all rows together.

    Args:
        rows: how many there are.
        attempt: is called with start and length of some of them.
    """
    start, length = 0, rows
    while length > 1:
        half = length // 2
        try:
            attempt(start, half)
        except Exception:  # noqa: BLE001 - whatever it is, the row is looked for
            length = half
        else:
            start, length = start + half, length - half
    return start


def _check_extras(rows: pa.Schema, table: OpenTable, options: IngestOptions) -> None:
    for one in options.order_by:
        if one not in rows.names:
            msg = f"table {table.name!r}: rows can't be ordered by {one!r}: they have {', '.join(rows.names)}"
            raise InvalidInputError(msg)
    deleted = options.deleted_column
    if deleted is None:
        return
    if deleted in table.schema.names:
        msg = (
            f"column {deleted!r} is one of table {table.name!r}: what deletes keys must be a column that the "
            "table has not"
        )
        raise InvalidInputError(msg)
    if deleted not in rows.names or not kinds.is_boolean(rows.field(deleted).type):
        found = "none" if deleted not in rows.names else str(rows.field(deleted).type)
        msg = f"table {table.name!r}: column {deleted!r} must be a boolean of the rows, but it is {found}"
        raise InvalidInputError(msg)


def _check_type(table: str, name: str, given: pa.DataType, wanted: pa.DataType) -> None:
    if given == wanted:
        return
    fits = not (
        # Arrow would take a number for a count of some unit since 1970.
        (_is_number(given) and kinds.is_temporal(wanted)) or (kinds.is_temporal(given) and _is_number(wanted))
    )
    try:
        if fits:
            pa.array([], given).cast(wanted)
    except pa.ArrowException:
        fits = False
    if not fits:
        msg = f"table {table!r}: column {name!r} is {wanted}, which {given} does not fit: cast it"
        raise InvalidInputError(msg)


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind) or kinds.is_boolean(kind)
    )
