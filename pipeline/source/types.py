"""Arrow types as Spark's, each by one exact rule, and batches in the types that Spark expects.

A value arrives as it is, or the read fails and names the column: nothing is rounded, cut or wrapped.
"""

import difflib
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from lance_gateway.memwal.columns.kinds import is_list
from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.pipeline.source.options import quote_name

MAX_PRECISION = 38
_PLAIN: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.string(): spark.StringType(),
    pa.large_string(): spark.StringType(),
    pa.string_view(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.large_binary(): spark.BinaryType(),
    pa.binary_view(): spark.BinaryType(),
    pa.date32(): spark.DateType(),
    pa.date64(): spark.DateType(),
    pa.null(): spark.NullType(),
}


def spark_schema(schema: pa.Schema) -> spark.StructType:
    """Columns of a result as Spark's.

    Raises:
        UnsupportedError: names a column that Spark has no type for, or names that Spark can't tell apart.
    """
    _check_names(schema.names, "the result")
    return spark.StructType(
        [
            spark.StructField(field.name, spark_type(field.type, field.name), field.nullable)
            for field in schema
        ]
    )


def spark_type(kind: pa.DataType, column: str) -> spark.DataType:
    """Spark's type for the values of an Arrow type.

    Args:
        kind: as the gateway tells it.
        column: where it stands, for the message.

    Raises:
        UnsupportedError: Spark has none.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return spark_type(kind.value_type, column)
    if pa.types.is_fixed_size_binary(kind):
        return spark.BinaryType()
    if pa.types.is_decimal(kind):
        if kind.precision > MAX_PRECISION or not 0 <= kind.scale <= kind.precision:
            raise _unsupported_error(
                column, kind, f"CAST({quote_name(column)} AS DECIMAL({MAX_PRECISION}, ..)) or AS VARCHAR"
            )
        return spark.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_duration(kind):
        return spark.DayTimeIntervalType()
    if pa.types.is_map(kind):
        key, item = spark_type(kind.key_type, column), spark_type(kind.item_type, column)
        return spark.MapType(key, item, kind.item_field.nullable)
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        _check_names([field.name for field in fields], f"column {column!r}")
        return spark.StructType(
            [
                spark.StructField(field.name, spark_type(field.type, column), field.nullable)
                for field in fields
            ]
        )
    if is_list(kind):
        return spark.ArrayType(spark_type(kind.value_type, column), kind.value_field.nullable)
    if pa.types.is_time(kind):
        raise _unsupported_error(
            column, kind, f"CAST({quote_name(column)} AS VARCHAR), or give .schema(..) with the type time(6)"
        )
    raise _unsupported_error(column, kind, f"CAST({quote_name(column)} AS VARCHAR)")


def check_given(given: spark.StructType, schema: pa.Schema) -> None:
    """Make sure that a schema that a user gives is what the gateway has, or a part of it.

    Args:
        given: by `.schema(..)`, or the one that was found before.
        schema: as the gateway tells it.

    Raises:
        InvalidInputError: a column that is not there, has another type, or may be NULL where it is given as
            NOT NULL.
        UnsupportedError: Spark has no type for one of the columns.
    """
    for one in given.fields:
        index = schema.get_field_index(one.name)
        if index < 0:
            close = difflib.get_close_matches(one.name, schema.names, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(schema.names)}"
            raise InvalidInputError(f"the schema has a column {one.name!r} that is not in the result: {hint}")
        field = schema.field(index)
        if pa.types.is_time(field.type) and isinstance(one.dataType, spark.TimeType):
            continue
        found = spark_type(field.type, field.name)
        if not _fits(one.dataType, found):
            raise InvalidInputError(
                f"the schema gives column {one.name!r} the type {one.dataType.simpleString()}, but it is "
                f"{found.simpleString()}: say so, or CAST it in the option query"
            )
        if field.nullable and not one.nullable:
            raise InvalidInputError(
                f"the schema says that column {one.name!r} is NOT NULL, but NULL may be there"
            )


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Convert a batch to exactly the types that Spark expects."""
    return to_arrow_schema(schema, timezone="UTC")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the types that Spark expects.

    Args:
        batch: has all columns of `schema`, in any order.
        schema: of `arrow_schema`.

    Raises:
        InvalidInputError: a value that has no exact counterpart, such as a part of a microsecond.
    """
    if not len(schema):
        return batch.select([])
    return pa.RecordBatch.from_arrays(
        [cast(batch.column(field.name), field) for field in schema], schema=schema
    )


def cast(values: pa.Array, field: pa.Field) -> pa.Array:
    """Values of a column in another type, exactly.

    Raises:
        InvalidInputError: one of them has no exact counterpart.
    """
    if values.type.equals(field.type):
        return values
    try:
        return values.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        way = f"CAST {field.name} to what you want in the option query, or on Spark's side before writing"
        raise InvalidInputError(
            f"column {field.name!r} has a value of {values.type} that {field.type} can't hold exactly "
            f"({str(error).splitlines()[0]}): {way}"
        ) from None


def _fits(given: spark.DataType, found: spark.DataType) -> bool:
    """Whether values of one type are values of the other: the same, or NULL is allowed where none is."""
    if isinstance(given, spark.ArrayType) and isinstance(found, spark.ArrayType):
        return (given.containsNull or not found.containsNull) and _fits(given.elementType, found.elementType)
    if isinstance(given, spark.MapType) and isinstance(found, spark.MapType):
        null = given.valueContainsNull or not found.valueContainsNull
        return null and _fits(given.keyType, found.keyType) and _fits(given.valueType, found.valueType)
    if isinstance(given, spark.StructType) and isinstance(found, spark.StructType):
        return given.names == found.names and all(
            (one.nullable or not other.nullable) and _fits(one.dataType, other.dataType)
            for one, other in zip(given.fields, found.fields, strict=True)
        )
    return given == found


def _check_names(names: Sequence[str], where: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        seen[name.lower()] = name
        if other is not None:
            raise UnsupportedError(
                f"{where} has the columns {other!r} and {name!r}, which Spark can't tell apart: name one of "
                "them otherwise in the option query, or leave it out with the option columns"
            )


def _unsupported_error(column: str, kind: pa.DataType, way: str) -> UnsupportedError:
    return UnsupportedError(
        f"Spark has no type for column {column!r} of type {kind}: use the option query with {way}, or leave "
        "it out with the option columns"
    )
