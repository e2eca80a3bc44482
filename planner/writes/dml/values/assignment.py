"""Columns of any type become columns of a table, or an error that names column, row and value."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.writes.dml.statement.target import Target
from planner.writes.dml.values.casting import MISFITS, converted

__all__ = ["assigned", "check_assignable", "check_given", "check_required", "filled", "filled_batch"]

_SHOWN = 80


def assigned(
    values: pa.Array | pa.ChunkedArray,
    field: pa.Field,
    first_row: int = 1,
    *,
    rows: Sequence[int] | None = None,
) -> pa.ChunkedArray:
    """Values as ones of a column.

    Args:
        values: of any type; handed through without a copy where it is the column's own.
        field: the column.
        first_row: number of the first value, for messages.
        rows: number of each value, where they do not follow one another.

    Raises:
        InvalidInputError: one of them does not fit; names the column, the row and the value.
    """
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    if column.type.equals(field.type):
        return column
    chunks, row = [], first_row
    for chunk in column.chunks:
        try:
            chunks.append(converted(chunk, field.type))
        except MISFITS as error:
            numbers = range(row, row + len(chunk)) if rows is None else rows[row - first_row :]
            raise _misfit(chunk, field, numbers, error) from error
        row += len(chunk)
    return pa.chunked_array(chunks, field.type)


def check_assignable(kind: pa.DataType, field: pa.Field) -> None:
    """Refuse a type whose values never fit a column.

    Raises:
        InvalidInputError: names the column and both types.
    """
    if kind.equals(field.type) or pa.types.is_null(kind):
        return
    try:
        converted(pa.array([], kind), field.type)
    except MISFITS as error:
        msg = f"column {field.name!r} is {_type_text(field.type)}, and is given {_type_text(kind)}"
        raise InvalidInputError(f"{msg}: {_reason(error)}") from error


def check_required(rows: pa.Table, required: Sequence[str] | frozenset[str], first_row: int = 1) -> None:
    """Refuse NULL where it must not be.

    Raises:
        InvalidInputError: names the column and the row.
    """
    for name in rows.column_names:
        if name not in required or not rows.column(name).null_count:
            continue
        row = first_row + rows.column(name).is_null().index(True).as_py()
        msg = f"column {name!r} of row {row} is NULL, which it must not be: give it a value"
        raise InvalidInputError(msg)


def _misfit(values: pa.Array, field: pa.Field, rows: Sequence[int], error: Exception) -> InvalidInputError:
    """Which value it was: the end of the shortest beginning that does not fit."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            converted(values.slice(low, middle - low), field.type)
        except MISFITS as found:
            high, error = middle, found
        else:
            low = middle
    try:
        converted(values.slice(low, 1), field.type)
    except MISFITS as found:
        error = found
    shown = "nothing" if not len(values) else _shown(values[low])
    return InvalidInputError(
        f"column {field.name!r} ({_type_text(field.type)}), row {rows[low]}: {shown} does not fit: "
        f"{_reason(error)}"
    )


def _shown(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError, pa.ArrowException):
        text = str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _type_text(kind: pa.DataType) -> str:
    text = str(kind)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _reason(error: Exception) -> str:
    return str(error).strip().rstrip(".").split("\n")[0]


def filled(target: Target, given: pa.Table, first_row: int = 1) -> pa.Table:
    """Whole rows of a table: columns that are not given are NULL.

    Args:
        target: the table.
        given: some of its columns, in its types.
        first_row: number of the first row, for messages.

    Raises:
        InvalidInputError: NULL where it must not be.
    """
    places = {name: at for at, name in enumerate(given.column_names)}
    columns = [
        given.column(places[field.name])
        if field.name in places
        else pa.chunked_array([pa.nulls(given.num_rows, field.type)])
        for field in target.schema
    ]
    # Before the schema, which promises that there are no NULLs in some columns.
    check_required(pa.Table.from_arrays(columns, names=target.schema.names), target.required, first_row)
    return pa.Table.from_arrays(columns, schema=target.schema)


def filled_batch(target: Target, columns: Sequence[str], batch: pa.RecordBatch, first_row: int) -> pa.Table:
    """Whole rows of a table from values of any type that can be assigned to its columns.

    Args:
        target: the table.
        columns: what each column of the batch is in the table.
        batch: the values.
        first_row: number of the first row, for messages.

    Raises:
        InvalidInputError: a value that doesn't fit, or NULL where it must not be.
    """
    arrays = [
        assigned(values, target.schema.field(name), first_row)
        for name, values in zip(columns, batch.columns, strict=True)
    ]
    return filled(target, pa.table(arrays, list(columns)), first_row)


def check_given(target: Target, columns: Sequence[str], giver: str) -> None:
    """Refuse rows without a column that must not be NULL.

    Args:
        target: the table.
        columns: that are given.
        giver: who gives them, for the message.

    Raises:
        InvalidInputError: one is missing.
    """
    missing = [name for name in target.schema.names if name in target.required and name not in columns]
    if missing:
        msg = (
            f"column {missing[0]!r} of table {target.name!r} must not be NULL, and {giver} gives it no value"
        )
        raise InvalidInputError(msg)
