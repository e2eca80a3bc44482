"""Arrow types as Spark's: each by one rule, and no value is changed."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.pipeline.source.types import arrow_schema, check_given, conform, spark_schema, spark_type
from tests.adbc.values import VALUES

RULES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
    "uint8": "smallint", "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)",
    "float16": "float", "float32": "float", "float64": "double", "string": "string",
    "large_string": "string", "binary": "binary", "large_binary": "binary", "fixed_binary": "binary",
    "date32": "date", "date64": "date", "timestamp_s": "timestamp_ntz", "timestamp_ms": "timestamp_ntz",
    "timestamp_us": "timestamp_ntz", "timestamp_ns": "timestamp_ntz", "instant_utc": "timestamp",
    "instant_berlin": "timestamp", "instant_offset": "timestamp",
    "duration_s": "interval day to second", "duration_us": "interval day to second",
    "decimal128": "decimal(38,10)", "list": "array<bigint>", "list_of_text": "array<string>",
    "large_list": "array<double>", "fixed_list": "array<float>", "struct": "struct<a:bigint,b:string>",
}  # fmt: skip
REFUSED = ("decimal256", "time32_s", "time32_ms", "time64_us", "time64_ns")


def as_told(value: Any) -> Any:
    """A value as Python has it in both worlds."""
    return (value.tzinfo and value.astimezone(dt.UTC)) or value if isinstance(value, dt.datetime) else value


@pytest.mark.parametrize("name", VALUES)
def test_every_type_has_its_rule(name: str) -> None:
    kind, value = VALUES[name]
    if name.rstrip("_") in REFUSED:
        with pytest.raises(UnsupportedError, match=rf"Spark has no type for column '{name}'.*CAST"):
            spark_type(kind, name)
        return
    schema = spark_schema(pa.schema([pa.field(name, kind)]))
    assert schema.fields[0].dataType.simpleString() == RULES[name.rstrip("_")]
    batch = pa.record_batch({name: pa.array([value, None], kind)})
    expected = arrow_schema(schema)
    made = conform(batch, expected)
    assert made.schema.equals(expected)
    told = made.column(0).to_pylist()
    assert told[1] is None
    assert as_told(told[0]) == (Decimal(value) if name == "uint64_" else as_told(batch.column(0)[0].as_py()))


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (pa.map_(pa.string(), pa.uint8()), "map<string,smallint>"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.list_(pa.struct({"x": pa.list_(pa.uint64(), 2)})), "array<struct<x:array<decimal(20,0)>>>"),
        (pa.decimal256(38, 2), "decimal(38,2)"),
        (pa.decimal32(7, 2), "decimal(7,2)"),
        (pa.null(), "void"),
        (pa.string_view(), "string"),
    ],
)
def test_nested_and_rare_types(kind: pa.DataType, rule: str) -> None:
    assert spark_type(kind, "c").simpleString() == rule


def test_nested_values_arrive() -> None:
    kind = pa.list_(
        pa.struct({"x": pa.list_(pa.uint64(), 2), "m": pa.map_(pa.string(), pa.large_list(pa.int8()))})
    )
    value = [{"x": [1, 2**64 - 1], "m": [("k", [1, None])]}, None]
    batch = pa.record_batch({"c": pa.array([value, None, []], kind)})
    told = conform(batch, arrow_schema(spark_schema(batch.schema))).column(0).to_pylist()
    assert told == [value, None, []]


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.timestamp("ns"), 1), (pa.duration("ns"), 1), (pa.timestamp("s"), 2**60)]
)
def test_what_microseconds_cannot_hold_is_an_error(kind: pa.DataType, value: int) -> None:
    batch = pa.record_batch({"moment": pa.array([value], pa.int64()).cast(kind)})
    with pytest.raises(InvalidInputError, match=r"column 'moment' has a value .* can't hold exactly"):
        conform(batch, arrow_schema(spark_schema(batch.schema)))


def test_names_that_spark_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="the result has the columns 'id' and 'ID'"):
        spark_schema(pa.schema([("id", pa.int8()), ("ID", pa.int8())]))
    with pytest.raises(UnsupportedError, match="column 's' has the columns 'a' and 'a'"):
        spark_type(pa.struct([("a", pa.int8()), ("a", pa.int8())]), "s")


FOUND = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("n", pa.int32()),
        ("at", pa.time64("us")),
        ("l", pa.list_(pa.int8())),
    ]
)


@pytest.mark.parametrize(
    "given", ["n int", "id bigint", "id bigint NOT NULL, n int", "at time(6)", "l array<tinyint>"]
)
def test_a_user_may_give_a_part_of_the_schema(given: str, ddl: Any) -> None:
    check_given(ddl(given), FOUND)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nn int", "a column 'nn' that is not in the result: did you mean n"),
        ("N int", "a column 'N' that is not in the result"),
        ("n bigint", "column 'n' the type bigint, but it is int"),
        ("n int NOT NULL", "column 'n' is NOT NULL"),
        ("l array<int>", "array<int>, but it is array<tinyint>"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(given: str, words: str, ddl: Any) -> None:
    with pytest.raises(InvalidInputError, match=words):
        check_given(ddl(given), FOUND)


@pytest.fixture
def ddl() -> Any:
    """Schemas without a JVM to parse them."""
    kinds = {
        "int": spark.IntegerType(),
        "bigint": spark.LongType(),
        "time(6)": spark.TimeType(6),
        "array<tinyint>": spark.ArrayType(spark.ByteType()),
        "array<int>": spark.ArrayType(spark.IntegerType()),
    }

    def parsed(text: str) -> spark.StructType:
        columns = [(*part.removesuffix(" NOT NULL").split(" "), part) for part in text.split(", ")]
        return spark.StructType(
            [spark.StructField(name, kinds[kind], "NOT NULL" not in part) for name, kind, part in columns]
        )

    return parsed
