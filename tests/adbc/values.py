"""One value of every type that can be bound as a parameter."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

_DAY = dt.date(2026, 2, 28)
_TIME = dt.time(23, 59, 58, 123456)
_MOMENT = dt.datetime(2026, 2, 28, 23, 59, 58, 123456)
_INSTANT = _MOMENT.replace(tzinfo=dt.UTC)
_WHOLE_SECOND = _MOMENT.replace(microsecond=0)

# Column name -> type and value. The table `typed` has a row of them, and a row of NULLs.
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "bool_": (pa.bool_(), True),
    "int8_": (pa.int8(), -128),
    "int16_": (pa.int16(), -16),
    "int32_": (pa.int32(), -32),
    "int64_": (pa.int64(), -(2**63) + 1),
    "uint8_": (pa.uint8(), 255),
    "uint16_": (pa.uint16(), 16),
    "uint32_": (pa.uint32(), 2**32 - 1),
    "uint64_": (pa.uint64(), 2**64 - 1),
    "float16_": (pa.float16(), 0.5),
    "float32_": (pa.float32(), 0.25),
    "float64_": (pa.float64(), 1e300),
    "decimal128_": (pa.decimal128(38, 10), Decimal("1234567890.0123456789")),
    "decimal256_": (pa.decimal256(50, 3), Decimal("12345678901234567890123456789012345.678")),
    "string_": (pa.string(), "grün; 'quoted' \" \\ %_"),
    "large_string_": (pa.large_string(), ""),
    "binary_": (pa.binary(), b"\x00\xff'"),
    "large_binary_": (pa.large_binary(), b""),
    "fixed_binary": (pa.binary(4), b"\x00abc"),
    "date32_": (pa.date32(), _DAY),
    "date64_": (pa.date64(), _DAY),
    "time32_s": (pa.time32("s"), _TIME.replace(microsecond=0)),
    "time32_ms": (pa.time32("ms"), _TIME.replace(microsecond=123000)),
    "time64_us": (pa.time64("us"), _TIME),
    "time64_ns": (pa.time64("ns"), _TIME),
    "timestamp_s": (pa.timestamp("s"), _WHOLE_SECOND),
    "timestamp_ms": (pa.timestamp("ms"), _MOMENT.replace(microsecond=123000)),
    "timestamp_us": (pa.timestamp("us"), _MOMENT),
    "timestamp_ns": (pa.timestamp("ns"), _MOMENT),
    "instant_utc": (pa.timestamp("us", "UTC"), _INSTANT),
    "instant_berlin": (pa.timestamp("us", "Europe/Berlin"), _INSTANT),
    "instant_offset": (pa.timestamp("ms", "-03:30"), _INSTANT.replace(microsecond=0)),
    "duration_s": (pa.duration("s"), dt.timedelta(days=-1)),
    "duration_us": (pa.duration("us"), dt.timedelta(microseconds=1)),
    "list_": (pa.list_(pa.int64()), [1, None, 3]),
    "list_of_text": (pa.list_(pa.string()), ["it's", None]),
    "large_list_": (pa.large_list(pa.float64()), [0.5]),
    "fixed_list": (pa.list_(pa.float32(), 3), [0.0, 0.5, -1.0]),
    "struct_": (pa.struct({"a": pa.int64(), "b": pa.string()}), {"a": 1, "b": "x"}),
}


def typed_table() -> pa.Table:
    columns = {name: pa.array([value, None], kind) for name, (kind, value) in VALUES.items()}
    return pa.table({"id": pa.array([1, 2], pa.int64()), **columns})
