"""Rows as Lance takes them: decimals are aligned, blobs and JSON have the stored type, no batch is empty."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_gateway.memwal.columns.blobs import is_blob
from lance_gateway.memwal.columns.json_values import build_stored_field, encode_json, map_json
from lance_gateway.memwal.columns.nested_fields import has_field, map_values

_ALIGNMENT = 16


def export_rows(rows: pa.Table | pa.RecordBatchReader, stored: pa.Schema) -> pa.RecordBatchReader:
    """Return rows for Lance to write to a dataset.

    Args:
        rows: columns of a table, or some of them; blobs are bytes.
        stored: schema of the dataset, or of one that is made.

    Raises:
        Exception: while it is read, an error of `rows`.
    """
    blobs = [
        field.name in stored.names and has_field(stored.field(field.name), is_blob) for field in rows.schema
    ]
    fields = [
        stored.field(field.name) if blob else field for field, blob in zip(rows.schema, blobs, strict=True)
    ]
    schema = pa.schema(fields, rows.schema.metadata)
    has_decimals = any(_has_decimals(one) for one in rows.schema.types)

    def convert() -> Iterator[pa.RecordBatch]:
        for given in rows.to_batches() if isinstance(rows, pa.Table) else rows:
            batch = given
            if not batch.num_rows:
                continue
            if any(blobs):
                columns = [
                    map_values(column, field, field, is_blob, _store_blobs) if blob else column
                    for column, field, blob in zip(batch.columns, fields, blobs, strict=True)
                ]
                batch = pa.RecordBatch.from_arrays(columns, schema=schema)
            yield _align(batch) if has_decimals and not _is_aligned(batch) else batch

    return pa.RecordBatchReader.from_batches(schema, convert())


def export_to_log(rows: pa.Table, stored: pa.Schema) -> pa.RecordBatchReader:
    """Return rows, or keys, for one of Lance's writers to append to its log; see `export_rows`.

    Raises:
        InvalidInputError: Lance takes a text for no JSON.
    """
    return export_rows(map_json(rows, build_stored_field, encode_json), stored)


def _store_blobs(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return bytes as Lance takes them for a column of blobs of a type."""
    is_extension = isinstance(kind, pa.BaseExtensionType)
    wanted = kind.storage_type if is_extension else kind
    given = values.cast(pa.large_binary())
    if not pa.types.is_struct(wanted):
        return given
    children = [given if one.name == "data" else pa.nulls(len(given), one.type) for one in wanted]
    stored = pa.StructArray.from_arrays(children, fields=list(wanted), mask=given.is_null())
    return pa.ExtensionArray.from_storage(kind, stored) if is_extension else stored


def _has_decimals(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.BaseExtensionType):
        return _has_decimals(dtype.storage_type)
    if pa.types.is_dictionary(dtype):
        return _has_decimals(dtype.value_type)
    children = (dtype.field(place).type for place in range(dtype.num_fields))
    return pa.types.is_decimal(dtype) or any(map(_has_decimals, children))


def _is_aligned(batch: pa.RecordBatch) -> bool:
    buffers = (buffer for column in batch.columns for buffer in column.buffers() if buffer is not None)
    return all(buffer.address % _ALIGNMENT == 0 for buffer in buffers)


def _align(batch: pa.RecordBatch) -> pa.RecordBatch:
    # Lance panics over decimals that aren't, and what comes from the wire often isn't.
    options = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(sink.getvalue(), options=options).read_next_batch()
