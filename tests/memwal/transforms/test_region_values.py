"""Region values as manifests record them: raw bytes of the field's result type."""

import datetime as dt
import struct

import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import RegionField
from lance_gateway.memwal.errors import CorruptDataError, InvalidInputError, UnsupportedError
from lance_gateway.memwal.transforms.raw_values import decode_raw, encode_raw, parse_result_type
from lance_gateway.memwal.transforms.transforms import decode_region_value, encode_region_value

LEAP_DAY = dt.datetime(2024, 2, 29, 5, 6)


def identity(result_type: str = "int32") -> RegionField:
    return RegionField("f", (0,), "identity", None, result_type)


@pytest.mark.parametrize(
    ("result_type", "value", "raw"),
    [
        ("int32", 258, b"\x02\x01\0\0"),
        ("int32", -1, b"\xff\xff\xff\xff"),
        ("int64", 1, b"\1" + b"\0" * 7),
        ("uint8", 255, b"\xff"),
        ("utf8", "é", "é".encode()),
        ("string", "", b""),
        ("large_utf8", "x", b"x"),
        ("binary", b"\0\1", b"\0\1"),
        ("bool", True, b"\1"),
        ("boolean", False, b"\0"),
        ("float", 1.25, struct.pack("<f", 1.25)),
        ("double", 1.25, struct.pack("<d", 1.25)),
        ("date32", dt.date(1970, 1, 3), b"\2\0\0\0"),
        ("date32:day", dt.date(1969, 12, 31), b"\xff" * 4),
        ("timestamp[us]", LEAP_DAY, struct.pack("<q", 1709183160000000)),
        ("timestamp:us:-", LEAP_DAY, struct.pack("<q", 1709183160000000)),
        ("timestamp[s, tz=UTC]", LEAP_DAY.replace(tzinfo=dt.UTC), struct.pack("<q", 1709183160)),
        ("int32", None, b""),
    ],
)
def test_values_are_raw_little_endian_bytes(result_type: str, value: object, raw: bytes):
    field = identity(result_type)
    assert encode_region_value(field, value) == raw
    assert decode_region_value(field, raw) == value


@pytest.mark.parametrize(
    ("name", "data_type", "raw"),
    [
        ("large_utf8", pa.large_string(), b"x"),
        ("utf8", pa.string(), b"x"),
        ("binary", pa.binary(), b"\xff"),
        ("large_binary", pa.large_binary(), b"\xff"),
        ("bool", pa.bool_(), b"\1"),
        ("int8", pa.int8(), b"\1"),
        ("date64:ms", pa.date64(), b"\0" * 8),
        ("timestamp:us:", pa.timestamp("us"), b"\1" + b"\0" * 7),
        ("timestamp:ms:UTC", pa.timestamp("ms", "UTC"), b"\1" + b"\0" * 7),
    ],
)
def test_values_have_the_type_that_is_named(name: str, data_type: pa.DataType, raw: bytes):
    value = decode_raw(parse_result_type(name), raw, source="it")
    assert (value.type, value.is_valid) == (data_type, True)
    assert encode_raw(data_type, value, source="it") == raw
    if name.startswith(("bool", "int", "date", "timestamp")):
        assert decode_raw(data_type, b"", source="it") == pa.scalar(None, data_type)


def test_arrow_scalars_are_encoded_as_the_result_type():
    assert encode_region_value(identity(), pa.scalar(1, pa.int64())) == b"\1\0\0\0"


@pytest.mark.parametrize(
    ("result_type", "raw", "message"),
    [
        ("int32", b"\1", "has 1 bytes, but a value of type int32 has 4"),
        ("int64", b"\1\0\0\0", "has 4 bytes, but a value of type int64 has 8"),
        ("utf8", b"\xff", "is not UTF-8"),
    ],
)
def test_bytes_of_another_type_are_named(result_type: str, raw: bytes, message: str):
    with pytest.raises(CorruptDataError, match=f"Region field 'f': .* {message}"):
        decode_region_value(identity(result_type), raw)


def test_values_of_another_type_are_named():
    for value in (2**40, "x", 1.5):
        with pytest.raises(InvalidInputError, match="is not of type int32"):
            encode_region_value(identity(), value)
    with pytest.raises(UnsupportedError, match="NULL of type string has no raw form"):
        encode_region_value(identity("utf8"), None)


def test_an_unknown_result_type_is_named():
    with pytest.raises(UnsupportedError, match=r"'list<int32>' are not supported; known are bool"):
        decode_region_value(identity("list<int32>"), b"")
