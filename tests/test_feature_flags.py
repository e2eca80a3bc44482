"""Tables with features that Lance does not know are refused, and the flag is named."""

import shutil
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.base.index_details import KNOWN_FLAGS
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog

UNKNOWN = 1 << 40


def set_flags(table: Path, *, reader: int = 0, writer: int = 0) -> None:
    """Add feature flags to the newest manifest of a table."""
    path = min((table / "_versions").glob("*.manifest"))  # names count down
    data = path.read_bytes()
    (position,) = struct.unpack("<Q", data[-16:-8])
    (length,) = struct.unpack_from("<I", data, position)
    message = data[position + 4 : position + 4 + length]
    message += b"".join(
        bytes([field << 3]) + encode_varint(flags) for field, flags in ((9, reader), (10, writer)) if flags
    )
    rest = data[position + 4 + length :]
    path.write_bytes(data[:position] + struct.pack("<I", len(message)) + message + rest)


def encode_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    with closing(QueryEngine(Catalog.open(str(tmp_path)))) as engine:
        engine.prepare_statement("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)").execute()
        engine.prepare_statement("INSERT INTO t VALUES (1, 1)").execute()
    return tmp_path / "t.lance"


def execute(engine: QueryEngine, *statements: str) -> None:
    for sql in statements:
        engine.prepare_statement(sql).execute()


WRITES = ("INSERT INTO t VALUES (2, 2)", "UPDATE t SET v = 3", "DELETE FROM t", "CREATE TAG x ON t")


@pytest.mark.parametrize("sql", WRITES)
def test_what_can_not_be_written_is_only_read(
    table: Path, open_engine: Callable[[Path], QueryEngine], sql: str
) -> None:
    set_flags(table, writer=UNKNOWN)
    engine = open_engine(table.parent)
    execute(engine, "SELECT * FROM t")
    with pytest.raises(
        UnsupportedError, match=r"'t': .* writer feature flag 1099511627776 \(bit 40\), which"
    ):
        execute(engine, sql)


def test_a_flag_that_comes_later_ends_writes(table: Path) -> None:
    with closing(QueryEngine(Catalog.open(str(table.parent), writing=WriteOptions(hold_ms=0)))) as engine:
        execute(engine, "INSERT INTO t VALUES (2, 2)")
        lance.dataset(str(table)).update_config({"a": "b"})
        set_flags(table, writer=UNKNOWN)
        with pytest.raises(UnsupportedError, match="writer feature flag"):
            execute(engine, "INSERT INTO t VALUES (3, 3)")


@pytest.mark.parametrize("sql", ["SELECT * FROM t", *WRITES])
def test_what_can_not_be_read_is_refused(
    table: Path, open_engine: Callable[[Path], QueryEngine], sql: str
) -> None:
    set_flags(table, reader=UNKNOWN)
    with pytest.raises(
        UnsupportedError, match=r"'t': .* reader feature flag 1099511627776 \(bit 40\), which"
    ):
        execute(open_engine(table.parent), sql)


@pytest.mark.slow
def test_the_flags_are_those_that_lance_knows(tmp_path: Path) -> None:
    source = tmp_path / "source.lance"
    lance.write_dataset(pa.table({"id": [1]}), str(source))
    refused = set()
    for bit in range(63):
        path = tmp_path / f"{bit}.lance"
        shutil.copytree(source, path)
        set_flags(path, reader=1 << bit, writer=1 << bit)
        try:
            lance.dataset(str(path))
        except (OSError, ValueError) as error:
            if "cannot be read by this version of Lance" in str(error):
                refused.add(bit)
    assert refused == set(range(63)) - KNOWN_FLAGS
