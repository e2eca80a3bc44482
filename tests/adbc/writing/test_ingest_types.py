"""`adbc_ingest`: values and nulls of every type come back as they were sent."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.adbc.writing.ingesting import read, refusal
from tests.support.null_structs import READS, null_structs

_DAY = dt.date(2026, 2, 28)
_MOMENT = dt.datetime(2026, 2, 28, 23, 59, 59, 123456)
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), True),
    "int8": (pa.int8(), -8),
    "int16": (pa.int16(), -16),
    "int32": (pa.int32(), -32),
    "int64": (pa.int64(), -64),
    "uint8": (pa.uint8(), 8),
    "uint16": (pa.uint16(), 16),
    "uint32": (pa.uint32(), 32),
    "uint64": (pa.uint64(), 2**64 - 1),
    "halffloat": (pa.float16(), 0.5),
    "float": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.25),
    "decimal128": (pa.decimal128(12, 2), Decimal("12.34")),
    "decimal256": (pa.decimal256(50, 3), Decimal("12345678901234567890123456789012345678901.345")),
    "string": (pa.string(), "grün"),
    "large_string": (pa.large_string(), "large"),
    "string_view": (pa.string_view(), "a view that is longer than twelve bytes"),
    "binary": (pa.binary(), b"\x00\xff"),
    "large_binary": (pa.large_binary(), b"\x01"),
    "binary_view": (pa.binary_view(), b"\x01" * 20),
    "fixed_size_binary": (pa.binary(3), b"abc"),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "one"),
    "date32": (pa.date32(), _DAY),
    "date64": (pa.date64(), _DAY),
    "time32": (pa.time32("ms"), dt.time(1, 2, 3, 4000)),
    "time64": (pa.time64("us"), dt.time(1, 2, 3, 4)),
    "timestamp": (pa.timestamp("us"), _MOMENT),
    "timestamptz": (pa.timestamp("us", "UTC"), _MOMENT.replace(tzinfo=dt.UTC)),
    "duration": (pa.duration("us"), dt.timedelta(days=1, microseconds=5)),
    "list": (pa.list_(pa.int32()), [1, None, 3]),
    "large_list": (pa.large_list(pa.string()), ["a"]),
    "vector": (pa.list_(pa.float32(), 3), [1.0, 2.0, 3.0]),
    "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1, "b": "x"}),
    "list of dictionaries": (pa.list_(pa.dictionary(pa.int8(), pa.string())), ["p", "q"]),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["create", pytest.param("append", marks=pytest.mark.slow)])
def test_values_and_nulls_of_every_type(cursor: Any, table: str, kind: str, mode: str) -> None:
    data_type, value = TYPES[kind]
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": pa.array([value, None, value], data_type)})
    if mode == "append":
        cursor.adbc_ingest(table, rows.slice(0, 1), mode="create")
        rows = rows.slice(1)
    assert cursor.adbc_ingest(table, rows, mode=mode) == rows.num_rows
    assert read(cursor, table, "id")["v"].to_pylist() == [value, None, value]


@pytest.mark.parametrize(
    "data_type",
    [pa.null(), pa.month_day_nano_interval()],
    ids=str,
)
def test_types_that_cannot_be_stored_are_refused_by_the_name_of_their_column(
    cursor: Any, table: str, data_type: pa.DataType
) -> None:
    schema = pa.schema([("id", pa.int32()), ("odd", data_type)])
    (batch,) = schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
    assert "odd" in refusal(cursor, table, batch, mode="create")


def test_fields_of_null_structs_are_null(cursor: Any, table: str) -> None:
    rows = null_structs()
    read_fields = f"SELECT {', '.join(READS)} FROM {table} ORDER BY id"
    expected = list(zip(*READS.values(), strict=True))

    cursor.adbc_ingest(table, rows, mode="create")
    cursor.execute(read_fields)
    assert cursor.fetchall() == expected

    cursor.execute(f"DELETE FROM {table}")
    cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT given CHECK (st['a'] <> 0)")
    cursor.adbc_ingest(table, rows, mode="append")
    cursor.execute(read_fields)
    assert cursor.fetchall() == expected

    cursor.adbc_ingest(f"{table}_own", rows, mode="create", temporary=True)
    cursor.execute(read_fields.replace(table, f"{table}_own"))
    assert cursor.fetchall() == expected
