"""Primary keys are of the types for which Lance starts a MemWAL, no more and no less."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.creating.columns import PRIMARY_KEY, declare_key
from lance_gateway.memwal.errors import UnsupportedError

KINDS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(16)),
    *(pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.date32(), pa.date64(), pa.time64("us")),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("us", "UTC"), pa.duration("us")),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_keys_have_the_types_that_lance_takes(tmp_path: Path, kind: pa.DataType) -> None:
    assert _is_declared(kind) == _starts_mem_wal(tmp_path, kind)


def _is_declared(kind: pa.DataType) -> bool:
    try:
        declare_key(pa.schema([("k", kind)]), ["k"])
    except UnsupportedError:
        return False
    return True


def _starts_mem_wal(root: Path, kind: pa.DataType) -> bool:
    key = pa.field("k", kind, nullable=False, metadata={PRIMARY_KEY: b"true"})
    dataset = lance.write_dataset(pa.schema([key]).empty_table(), str(root / "t.lance"))
    try:
        dataset.initialize_mem_wal()
    except OSError as error:
        if "unsupported type" not in str(error):
            raise
        return False
    return True
