"""The tables that JDBC reads: `orders`, an LSM table, and `types`, a column of every type."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

_DAY = dt.date(2026, 2, 28)
_CLOCK = dt.time(1, 2, 3)
_SECOND = dt.datetime(2026, 2, 28, 23, 59, 59)
_PAUSE = dt.timedelta(days=1, seconds=2)

# Column -> its type and the value of row 1; row 2 has NULL everywhere.
TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "flag": (pa.bool_(), True),
    "i8": (pa.int8(), -8),
    "i16": (pa.int16(), -16),
    "i32": (pa.int32(), -32),
    "i64": (pa.int64(), -64),
    "u8": (pa.uint8(), 200),
    "u16": (pa.uint16(), 60_000),
    "u32": (pa.uint32(), 4_000_000_000),
    "u64": (pa.uint64(), 18_000_000_000_000_000_000),
    "f16": (pa.float16(), 0.5),
    "f32": (pa.float32(), 0.5),
    "f64": (pa.float64(), 0.25),
    "dec": (pa.decimal128(12, 2), Decimal("12.34")),
    "dec256": (pa.decimal256(50, 3), Decimal("12345678901234567890123456789012345678901.345")),
    "text": (pa.string(), "grün; 'quoted'"),
    "ltext": (pa.large_string(), "large"),
    "code": (pa.dictionary(pa.int8(), pa.string()), "d"),
    "blob": (pa.binary(), b"\x00\xff'"),
    "lblob": (pa.large_binary(), b"\x01\x02"),
    "uuid": (pa.binary(16), bytes(range(16))),
    "d32": (pa.date32(), _DAY),
    "d64": (pa.date64(), _DAY),
    "t32s": (pa.time32("s"), _CLOCK),
    "t32ms": (pa.time32("ms"), _CLOCK),
    "t64us": (pa.time64("us"), _CLOCK),
    "t64ns": (pa.time64("ns"), _CLOCK),
    "ts_s": (pa.timestamp("s"), _SECOND),
    "ts_ms": (pa.timestamp("ms"), _SECOND.replace(microsecond=123_000)),
    "ts_us": (pa.timestamp("us"), _SECOND.replace(microsecond=123_000)),
    "ts_ns": (pa.timestamp("ns"), _SECOND.replace(microsecond=123_000)),
    "tz_s": (pa.timestamp("s", "UTC"), _SECOND.replace(tzinfo=dt.UTC)),
    "tz_ms": (pa.timestamp("ms", "UTC"), _SECOND.replace(microsecond=123_000, tzinfo=dt.UTC)),
    "tz_us": (pa.timestamp("us", "UTC"), _SECOND.replace(microsecond=123_000, tzinfo=dt.UTC)),
    "tz_ns": (pa.timestamp("ns", "UTC"), _SECOND.replace(microsecond=123_000, tzinfo=dt.UTC)),
    "tz_berlin": (pa.timestamp("us", "Europe/Berlin"), _SECOND.replace(tzinfo=dt.UTC)),
    "dur_s": (pa.duration("s"), _PAUSE),
    "dur_ms": (pa.duration("ms"), _PAUSE),
    "dur_us": (pa.duration("us"), _PAUSE),
    "dur_ns": (pa.duration("ns"), _PAUSE),
    "numbers": (pa.list_(pa.int32()), [1, None, 3]),
    "lnumbers": (pa.large_list(pa.int32()), [1, None, 3]),
    "words": (pa.list_(pa.string()), ["a", "b"]),
    "vec": (pa.list_(pa.float32(), 4), [0.5, 1.0, 2.0, 3.0]),
    "vec16": (pa.list_(pa.float16(), 4), [0.5, 1.0, 2.0, 3.0]),
    "pair": (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": "x"}),
    "pairs": (pa.list_(pa.struct([("a", pa.uint8())])), [{"a": 200}]),
    "tags": (pa.map_(pa.string(), pa.int32()), [("k", 1)]),
}

BASE_ROWS = 1000
CUSTOMERS = 7


def write(root: Path, process: WriterProcess) -> None:
    """Writes the tables and the view `big_orders` into `root`.

    Of `orders`, row 1 was updated, row 2 deleted and row 1000 inserted since the base was written.
    """
    orders = LsmTable.create(root, "orders", _orders(), unpartitioned(("id",), regions=2), process)
    orders.put(
        [
            {"id": 1, "customer": "customer 1", "amount": 100.5},
            {"id": BASE_ROWS, "customer": "new", "amount": None},
        ]
    )
    orders.delete([{"id": 2}])
    orders.close_writers()
    (root / "big_orders.view.sql").write_text("SELECT id, amount FROM orders WHERE amount >= 400")
    lance.write_dataset(_types(), root / "types.lance")


def _orders() -> pa.Table:
    numbers = range(BASE_ROWS)
    return pa.table(
        [
            pa.array(numbers, pa.int64()),
            pa.array([f"customer {number % CUSTOMERS}" for number in numbers]),
            pa.array([None if number % 10 == 9 else number * 0.5 for number in numbers]),
        ],
        schema=pa.schema(
            [key_field("id", pa.int64()), pa.field("customer", pa.string()), pa.field("amount", pa.float64())]
        ),
    )


def _types() -> pa.Table:
    columns = [pa.array([1, 2], pa.int64())]
    columns += [pa.array([value, None], data_type) for data_type, value in TYPES.values()]
    fields = [key_field("id", pa.int64())]
    fields += [pa.field(name, data_type) for name, (data_type, _) in TYPES.items()]
    return pa.table(columns, schema=pa.schema(fields))
