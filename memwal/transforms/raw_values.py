"""Region values in manifests: the raw little-endian bytes of a field's result type."""

import re
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from lance_gateway.memwal.errors import CorruptDataError, UnsupportedError

# Arrow's names and those of Lance's schemas, which region specs mix.
_TYPES: Final = {
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "float32": pa.float32(),
    "double": pa.float64(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date32:day": pa.date32(),
    "date64": pa.date64(),
    "date64:ms": pa.date64(),
    "utf8": pa.string(),
    "string": pa.string(),
    "large_utf8": pa.large_string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
}
_TIMESTAMP: Final = re.compile(r"timestamp(?:\[|:)(s|ms|us|ns)(?:(?:, ?tz=|:)([^\]]*))?\]?", re.IGNORECASE)


@lru_cache(maxsize=256)
def parse_result_type(name: str) -> pa.DataType:
    """Return the Arrow type that a region field's `result_type` names.

    Raises:
        UnsupportedError: no type of that name can be a region value; the message lists those that can.
    """
    known = _TYPES.get(name.lower())
    if known is not None:
        return known
    timestamp = _TIMESTAMP.fullmatch(name)
    if timestamp is not None:
        unit, zone = timestamp.groups()
        return pa.timestamp(unit.lower(), None if zone in (None, "", "-") else zone)
    msg = (
        f"Region values of type {name!r} are not supported; known are {', '.join(_TYPES)} and timestamp[unit]"
    )
    raise UnsupportedError(msg)


def decode_raw(data_type: pa.DataType, raw: bytes, *, source: str) -> pa.Scalar:
    """Decode the raw bytes of a value; no bytes are NULL, except for text and binary.

    Raises:
        CorruptDataError: the number of bytes does not fit the type, or text is not UTF-8.
    """
    if _is_variable(data_type):
        if not pa.types.is_large_string(data_type) and not pa.types.is_string(data_type):
            return pa.scalar(raw, data_type)
        try:
            return pa.scalar(raw.decode(), data_type)
        except UnicodeDecodeError as error:
            msg = f"{source}: {raw!r} is not UTF-8; the manifest that records it is damaged"
            raise CorruptDataError(msg) from error
    if not raw:
        return pa.scalar(None, data_type)
    width = _byte_width(data_type)
    if len(raw) != width:
        msg = f"{source}: {raw!r} has {len(raw)} bytes, but a value of type {data_type} has {width}"
        raise CorruptDataError(msg)
    if pa.types.is_boolean(data_type):
        return pa.scalar(raw != b"\x00", data_type)
    return pa.Array.from_buffers(data_type, 1, [None, pa.py_buffer(raw)])[0]


def encode_raw(data_type: pa.DataType, value: object, *, source: str) -> bytes:
    """Encode a value, a Python object or an Arrow scalar, as raw bytes.

    Raises:
        UnsupportedError: the value is NULL and the type has no bytes for it.
        pyarrow.ArrowInvalid: the value does not fit the type.
    """
    if isinstance(value, float) and pa.types.is_integer(data_type):
        value = pa.scalar(value)  # Arrow rounds Python's floats silently, but not its own.
    scalar = value.cast(data_type) if isinstance(value, pa.Scalar) else pa.scalar(value, data_type)
    if not scalar.is_valid:
        if _is_variable(data_type):
            msg = f"{source}: NULL of type {data_type} has no raw form; record no value for the region"
            raise UnsupportedError(msg)
        return b""
    if _is_variable(data_type):
        return bytes(scalar.as_buffer())
    if pa.types.is_boolean(data_type):
        return b"\x01" if scalar.as_py() else b"\x00"
    array = pa.array([scalar], data_type)
    raw = np.frombuffer(array.buffers()[1], np.uint8, _byte_width(data_type))
    return raw.tobytes()


def _is_variable(data_type: pa.DataType) -> bool:
    return any(
        of_kind(data_type)
        for of_kind in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _byte_width(data_type: pa.DataType) -> int:
    return 1 if pa.types.is_boolean(data_type) else int(data_type.bit_width // 8)
