"""Rows in the form in which a region's writer takes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from memwal.errors import InvalidInputError
from memwal.stored_fields import FIELD_ID, TOMBSTONE

_MANY_BYTES = 1 << 20
_ALIGNMENT = 16


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


def gathered(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows of several requests; many small ones are copied together."""
    rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts)
    if rows.num_columns and rows.column(0).num_chunks > 1 and rows.nbytes < _MANY_BYTES:
        rows = rows.combine_chunks()
    return rows


def exported(rows: pa.Table) -> pa.RecordBatchReader:
    """Rows as Lance takes them over: decimals at the addresses that it demands, no empty batches."""
    batches = [batch for batch in rows.to_batches() if batch.num_rows]
    if any(_has_decimals(column.type) for column in rows.schema):
        batches = [batch if _is_aligned(batch) else _aligned(batch) for batch in batches]
    return pa.RecordBatchReader.from_batches(rows.schema, batches)


def _has_decimals(dtype: pa.DataType) -> bool:
    """Whether values of a type are decimals, or hold some."""
    if isinstance(dtype, pa.BaseExtensionType):
        return _has_decimals(dtype.storage_type)
    if pa.types.is_dictionary(dtype):
        return _has_decimals(dtype.value_type)
    held = (dtype.field(place).type for place in range(dtype.num_fields))
    return pa.types.is_decimal(dtype) or any(map(_has_decimals, held))


def _is_aligned(batch: pa.RecordBatch) -> bool:
    buffers = (one for column in batch.columns for one in column.buffers() if one is not None)
    return all(one.address % _ALIGNMENT == 0 for one in buffers)


def _aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    # Lance panics over decimals that aren't, and what comes from the wire often isn't.
    options = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue(), options=options).read_next_batch()


def entry_schema(schema: pa.Schema, field_ids: Sequence[int], *, keyed: bool) -> pa.Schema:
    """Schema of WAL entries, with field ids as Lance notes them there."""
    fields = [
        field.with_metadata({**(field.metadata or {}), FIELD_ID: str(field_id).encode()})
        for field, field_id in zip(schema, field_ids, strict=True)
    ]
    if keyed:
        fields.append(pa.field(TOMBSTONE, pa.bool_(), nullable=False))
    return pa.schema(fields)


def entry_rows(rows: pa.Table, schema: pa.Schema, *, deleted: bool) -> pa.Table:
    """Rows that were put, or keys that were deleted, as the WAL has them.

    Args:
        rows: of the table's columns; of a delete, its key columns.
        schema: of the WAL entry; nothing but keys is set in tombstones.
        deleted: whether they are keys that were deleted.
    """
    columns = []
    for field in schema:
        if field.name == TOMBSTONE:
            column = pa.array(np.full(rows.num_rows, deleted))
        elif deleted and rows.schema.get_field_index(field.name) < 0:
            column = pa.nulls(rows.num_rows, field.type)
        else:
            column = rows.column(field.name)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
