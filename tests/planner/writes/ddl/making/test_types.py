"""Types of columns: the names of each, and its values in the log, in a generation and in the base table."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.planner.writes.ddl.statement import Reader
from lance_gateway.planner.writes.ddl.types import read_type
from tests.support.lake.merging import merge_flushed

Sql = Any


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("boolean", pa.bool_()),
        ("TINYINT", pa.int8()),
        ("int2", pa.int16()),
        ("Integer", pa.int32()),
        ("INT8", pa.int64()),
        ("BIGINT UNSIGNED", pa.uint64()),
        ("UINT8", pa.uint8()),
        ("HALF", pa.float16()),
        ("REAL", pa.float32()),
        ("FLOAT(53)", pa.float64()),
        ("DOUBLE PRECISION", pa.float64()),
        ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
        ("NUMERIC(5)", pa.decimal128(5, 0)),
        ("NUMBER(12, 3)", pa.decimal128(12, 3)),
        ("VARCHAR", pa.string()),
        ("CHARACTER VARYING", pa.string()),
        ("CLOB", pa.string()),
        ("BYTEA", pa.binary()),
        ("BINARY(16)", pa.binary(16)),
        ("DATE", pa.date32()),
        ("TIME(3)", pa.time32("ms")),
        ("TIME", pa.time64("us")),
        ("TIMESTAMP", pa.timestamp("us")),
        ("TIMESTAMP(9)", pa.timestamp("ns")),
        ("TIMESTAMP(0) WITHOUT TIME ZONE", pa.timestamp("s")),
        ("TIMESTAMP WITH TIME ZONE", pa.timestamp("us", "UTC")),
        ("TIMESTAMPTZ(3)", pa.timestamp("ms", "UTC")),
        ("FLOAT[128]", pa.list_(pa.float32(), 128)),
        ("VECTOR(3)", pa.list_(pa.float32(), 3)),
        ("HALFVEC(3)", pa.list_(pa.float16(), 3)),
        ("VECTOR(3, DOUBLE)", pa.list_(pa.float64(), 3)),
        ("FIXED_SIZE_LIST(UINT8, 16)", pa.list_(pa.uint8(), 16)),
        ("TEXT[]", pa.list_(pa.string())),
        ("INT[][]", pa.list_(pa.list_(pa.int32()))),
        (
            "LIST<STRUCT<a INT, b TEXT[]>>",
            pa.list_(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
        ),
        ('STRUCT(a: INT, "B" TEXT)', pa.struct([("a", pa.int32()), ("B", pa.string())])),
    ],
)
def test_names_of_types(text: str, kind: pa.DataType) -> None:
    reader = Reader.of(text, "main")
    assert read_type(reader) == kind
    reader.expect_end()


VALUES = {
    "BOOLEAN": "true",
    "TINYINT": "-3",
    "UBIGINT": "18446744073709551615",
    "REAL": "0.5",
    "DOUBLE": "0.25",
    "DECIMAL(20, 3)": "12.345",
    "TEXT": "'é'",
    "LARGE_STRING": "'x'",
    "BYTEA": "X'00ff'",
    "BINARY(2)": "X'00ff'",
    "DATE": "'2024-02-29'",
    "TIME": "'12:34:56'",
    "TIMESTAMP": "'2024-02-29 12:34:56.123456'",
    "TIMESTAMP(9)": "'2024-02-29 12:34:56'",
    "TIMESTAMPTZ": "'2024-02-29T12:34:56Z'",
    "FLOAT[2]": "[0.5, 1.5]",
    "FIXED_SIZE_LIST(UINT8, 2)": "[1, 255]",
    "TEXT[]": "['a', 'b']",
    "STRUCT<a INT, b TEXT>": "named_struct('a', 1, 'b', 'x')",
    "STRUCT<a INT, b TEXT>[]": "[named_struct('a', 1, 'b', 'x')]",
}


def test_values_of_every_type_come_back_from_everywhere(sql: Sql, root: Path) -> None:
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(VALUES))
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
    values = ", ".join(VALUES.values())
    sql(f"INSERT INTO t VALUES (1, {values})")
    sql("INSERT INTO t (id) VALUES (2)")
    (first, second) = sql("SELECT * FROM t ORDER BY id")
    assert None not in first
    assert second == (2, *[None] * len(VALUES))
    sql.engine.catalog.table("t").writer().flush()
    assert sql("SELECT * FROM t ORDER BY id") == [first, second]
    merge_flushed(root / "t.lance")
    assert sql("SELECT * FROM t ORDER BY id") == [first, second]
    sql("CREATE TABLE u (PRIMARY KEY (id)) AS SELECT * FROM t")
    assert sql("SELECT * FROM u ORDER BY id") == [first, second]
    assert sql.dataset("u").schema.field("c15").type == pa.list_(pa.float32(), 2)
