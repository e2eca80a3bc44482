"""Types that every Arrow client can read: no views, no dictionaries, no run-end encoding."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import LanceGatewayError


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Returns the type that every Arrow client can read for values of `data_type`."""
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_nested(data_type):
        return _plain_nested(data_type)
    return {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(data_type, data_type)


def _plain_nested(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(plain_field(data_type.value_field), data_type.list_size)
    if pa.types.is_large_list(data_type) or pa.types.is_large_list_view(data_type):
        return pa.large_list(plain_field(data_type.value_field))
    if pa.types.is_list(data_type) or pa.types.is_list_view(data_type):
        return pa.list_(plain_field(data_type.value_field))
    if pa.types.is_map(data_type):
        return pa.map_(plain_type(data_type.key_type), plain_field(data_type.item_field))
    if pa.types.is_struct(data_type):
        return pa.struct([plain_field(field) for field in data_type])
    return data_type


def plain_field(field: pa.Field) -> pa.Field:
    """Returns `field` with its plain type."""
    return pa.field(field.name, plain_type(field.type), field.nullable)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """Returns `schema` with plain types and without metadata, as it is advertised."""
    return pa.schema([plain_field(field) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of `batch` under exactly `schema`; columns are matched by position.

    Copies nothing where only names or nullability differ.

    Raises:
        LanceGatewayError: the batch has more or fewer columns, values that the advertised type cannot hold,
            or NULLs where none were advertised.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns != len(schema):
        raise LanceGatewayError(
            f"a batch has the columns {batch.schema.names}, advertised were {schema.names}: "
            "run the query again"
        )
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if column.null_count and not field.nullable:
            raise LanceGatewayError(
                f"column {field.name!r} was advertised without NULLs and holds {column.null_count}"
            )
        columns.append(_cast(column, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if column.type.equals(data_type):
        return column
    if pa.types.is_dictionary(column.type):
        return _cast(column.dictionary_decode(), data_type)
    if pa.types.is_run_end_encoded(column.type):
        return _cast(pc.run_end_decode(column), data_type)
    try:
        return column.cast(data_type)
    except pa.ArrowInvalid as error:
        raise LanceGatewayError(
            f"a column of {column.type} does not fit the advertised {data_type}: {error}"
        ) from error
