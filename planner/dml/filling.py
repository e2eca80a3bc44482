"""Whole rows of a table from some of its columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from memwal.errors import InvalidInputError
from planner.dml.assignment import assigned, check_required
from planner.dml.target import Target

__all__ = ["check_given", "filled", "filled_batch"]


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
