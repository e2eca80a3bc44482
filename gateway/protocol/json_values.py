"""Values of Arrow as values of JSON: exact, and short.

Whole numbers, floats and truth values are those of JSON. Decimals, dates, times and what else JSON lacks are
texts. Instants are in UTC. Long texts, binaries and lists are cut, and say how long they were.
"""

import decimal
import math

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.columns.kinds import is_list

MAX_CHARS = 1000
"""Characters of a text that are shown."""
MAX_BYTES = 32
"""Bytes of a binary value that are shown."""
MAX_NUMBERS = 16
"""A list with more numbers, such as a vector, is shown by its first ones."""
FIRST_NUMBERS = 4
MAX_ITEMS = 100
"""Items of other lists that are shown."""


def to_json_value(scalar: pa.Scalar) -> object:
    """Return the value as `json.dumps` takes it.

    >>> to_json_value(pa.scalar([0.5] * 768, pa.list_(pa.float32())))
    [0.5, 0.5, 0.5, 0.5, '... 764 more']
    """
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if isinstance(scalar, pa.ExtensionScalar | pa.DictionaryScalar):
        return to_json_value(scalar.value)
    if pa.types.is_map(kind):
        return [[to_json_value(part) for part in entry.values()] for entry in scalar.values]
    if pa.types.is_struct(kind):
        return {name: to_json_value(value) for name, value in scalar.items()}
    if is_list(kind):
        return _shorten_list(scalar.values)
    if pa.types.is_floating(kind):
        return _convert_float(scalar)
    if pa.types.is_temporal(kind):
        return _format_time(scalar)
    return _shorten(scalar.as_py())


def _shorten_list(values: pa.Array) -> list[object]:
    shown = len(values)
    if pa.types.is_primitive(values.type) and shown > MAX_NUMBERS:
        shown = FIRST_NUMBERS
    items = [to_json_value(value) for value in values.slice(0, min(shown, MAX_ITEMS))]
    return items if len(items) == len(values) else [*items, f"... {len(values) - len(items):,} more"]


def _convert_float(scalar: pa.Scalar) -> object:
    value = scalar.as_py()
    if not math.isfinite(value):
        # JSON has no such numbers.
        return str(value)
    # As few digits as tell the value from others of its width: 0.1, not 0.10000000149011612.
    return float(str(np.dtype(scalar.type.to_pandas_dtype()).type(value)))


def _format_time(scalar: pa.Scalar) -> str:
    kind = scalar.type
    if pa.types.is_interval(kind):
        months, days, nanoseconds = scalar.as_py()
        return f"{months} months {days} days {nanoseconds} ns"
    if pa.types.is_duration(kind):
        return f"{scalar.value} {kind.unit}"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # The instant, whether or not this machine knows the time zone.
        return f"{pa.scalar(scalar.value, pa.timestamp(kind.unit)).cast(pa.string()).as_py()}Z"
    return str(scalar.cast(pa.string()).as_py())


def _shorten(value: object) -> object:
    if isinstance(value, str):
        if len(value) <= MAX_CHARS:
            return value
        return f"{value[:MAX_CHARS]}... ({len(value):,} characters)"
    if isinstance(value, bytes):
        if len(value) <= MAX_BYTES:
            return f"0x{value.hex()}"
        return f"0x{value[:MAX_BYTES].hex()}... ({len(value):,} bytes)"
    return f"{value:f}" if isinstance(value, decimal.Decimal) else value
