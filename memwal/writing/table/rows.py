"""Rows with the columns of a table, and of the entries of its logs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.stored_fields import FIELD_ID, TOMBSTONE


def conformed(
    rows: pa.Table, schema: pa.Schema, required: Collection[str], table: str, *, fill: bool = False
) -> pa.Table:
    """Rows with exactly the columns of a schema.

    Args:
        rows: with columns of these names, in any order.
        schema: of the table, or of its key.
        required: columns in which NULL is refused.
        table: name, for messages.
        fill: whether columns that are missing become NULL: they came into being after the rows did.

    Raises:
        InvalidInputError: a column is missing, unknown, of a type that doesn't fit, or NULL and required.
    """
    if not rows.schema.equals(schema):
        rows = _matched(rows, schema, table, fill=fill)
    for name in required:
        if nulls := rows.column(name).null_count:
            msg = (
                f"table {table!r}: column {name!r} can't be NULL, but {nulls} of {rows.num_rows} rows have "
                "no value there: give one"
            )
            raise InvalidInputError(msg)
    return rows


def _matched(rows: pa.Table, schema: pa.Schema, table: str, *, fill: bool) -> pa.Table:
    names = set(rows.column_names)
    missing = [field.name for field in schema if field.name not in names]
    unknown = [name for name in rows.column_names if schema.get_field_index(name) < 0]
    if (missing and not fill) or unknown or len(names) != rows.num_columns:
        msg = (
            f"table {table!r} has the columns {', '.join(schema.names)}; the rows have "
            f"{', '.join(rows.column_names)}"
        )
        raise InvalidInputError(msg)
    columns = []
    for field in schema:
        if field.name not in names:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
            continue
        columns.append(cast(rows.column(field.name), field.type, field.name, table))
    return pa.Table.from_arrays(columns, schema=schema)


def cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, table: str) -> pa.ChunkedArray:
    """A column's values in the type that the table has for it.

    Raises:
        InvalidInputError: they don't fit it.
    """
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowException as error:
        msg = f"table {table!r}: column {name!r} is {kind}, not {column.type}: {error}"
        raise InvalidInputError(msg) from error


def entry_schema(schema: pa.Schema, field_ids: Sequence[int], *, keyed: bool) -> pa.Schema:
    """Schema of WAL entries, with field ids as Lance notes them there."""
    fields = [
        field.with_metadata({**(field.metadata or {}), FIELD_ID: str(field_id).encode()})
        for field, field_id in zip(schema, field_ids, strict=True)
    ]
    if keyed:
        fields.append(pa.field(TOMBSTONE, pa.bool_(), nullable=False))
    return pa.schema(fields)
