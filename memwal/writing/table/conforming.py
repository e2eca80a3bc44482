"""Rows with the columns and types of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from lance_gateway.memwal.columns.stored_fields import FIELD_ID, TOMBSTONE
from lance_gateway.memwal.errors import (
    InvalidInputError,
)
from lance_gateway.memwal.rules import (
    build_initial_column,
)


def conform_rows(
    rows: pa.Table, schema: pa.Schema, required: Collection[str], table: str, *, fill: bool = False
) -> pa.Table:
    """Return rows with exactly the columns and types of a schema.

    Args:
        rows: with columns of these names, in any order.
        schema: of the table, or of its key.
        required: columns in which NULL is refused.
        table: name, for messages.
        fill: whether columns may be missing, since they came into being after the rows did.

    Raises:
        InvalidInputError: a column is missing, unknown, of a type that doesn't fit, or NULL and required.
    """
    if not rows.schema.equals(schema):
        rows = _match_columns(rows, schema, table, fill=fill)
    for name in required:
        if nulls := rows.column(name).null_count:
            msg = (
                f"table {table!r}: column {name!r} can't be NULL, but {nulls} of {rows.num_rows} rows have "
                "no value there: give one"
            )
            raise InvalidInputError(msg)
    return rows


def _match_columns(rows: pa.Table, schema: pa.Schema, table: str, *, fill: bool) -> pa.Table:
    names = set(rows.column_names)
    missing = [name for name in schema.names if name not in names]
    unknown = [name for name in rows.column_names if schema.get_field_index(name) < 0]
    if (missing and not fill) or unknown or len(names) != rows.num_columns:
        msg = (
            f"table {table!r} has the columns {', '.join(schema.names)}; the rows have "
            f"{', '.join(rows.column_names)}"
        )
        raise InvalidInputError(msg)
    columns = []
    for one in schema:
        if one.name in names:
            columns.append(cast_column(rows.column(one.name), one.type, one.name, table))
        else:
            columns.append(pa.chunked_array([build_initial_column(one, rows.num_rows)]))
    return pa.Table.from_arrays(columns, schema=schema)


def cast_column(column: pa.ChunkedArray, kind: pa.DataType, name: str, table: str) -> pa.ChunkedArray:
    """Cast a column to the table's type.

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


def build_entry_schema(schema: pa.Schema, field_ids: Sequence[int], *, keyed: bool) -> pa.Schema:
    """Return the schema of WAL entries, with field ids in the metadata of the fields."""
    fields = [
        field.with_metadata({**(field.metadata or {}), FIELD_ID: str(field_id).encode()})
        for field, field_id in zip(schema, field_ids, strict=True)
    ]
    if keyed:
        fields.append(pa.field(TOMBSTONE, pa.bool_(), nullable=False))
    return pa.schema(fields)
