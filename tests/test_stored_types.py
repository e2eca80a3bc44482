"""Columns of types that few tables have: every statement takes them, wherever their rows are."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.pipeline.jobs.lake import LakeTable
from lance_gateway.pipeline.merging.job import merge
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.writes.dml.ingest import prepare_ingest
from tests.planner.writes.dml.lake import Lake
from tests.support.lake.tables import key_field
from tests.support.sampling import sample

REGION = "aa48498d-ac91-59e2-8452-69f46010ace2"
"""Of a table that is not sharded."""
NUMBER = uuid.UUID("12345678-1234-5678-1234-567812345678")
PAIRS = pa.map_(pa.string(), pa.int64())


def extended(kind: pa.BaseExtensionType, stored: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(stored, kind.storage_type))


TENSOR = pa.fixed_shape_tensor(pa.float32(), [2, 2])
KINDS: dict[str, tuple[pa.Array, str]] = {
    "uuid": (extended(pa.uuid(), [NUMBER.bytes, None, bytes(16)]), "uuid"),
    "bool8": (extended(pa.bool8(), [1, None, 0]), "boolean"),
    "tensor": (extended(TENSOR, [[1, 2, 3, 4], None, [0, 0, 0, 1]]), "ARRAY"),
    "json": (extended(pa.json_(), ['{"a":1}', None, "[1,2]"]), "json"),
    "map": (pa.array([[("a", 1), ("b", None)], None, []], PAIRS), "json"),
    "map of structs": (
        pa.array([[("a", {"b": 1})], None, []], pa.map_(pa.string(), pa.struct({"b": pa.int8()}))),
        "json",
    ),
    "list of maps": (pa.array([[[("a", 1)]], None, []], pa.list_(PAIRS)), "ARRAY"),
    "decimals": (pa.array([[Decimal("1.50"), None], None, []], pa.list_(pa.decimal128(10, 2))), "ARRAY"),
    "null": (pa.nulls(3), "text"),
    "struct of json": (
        pa.StructArray.from_arrays([extended(pa.json_(), ['{"a":1}', None, "3"])], names=["j"]),
        "json",
    ),
}


def open_lake(root: Path) -> Lake:
    return Lake(QueryEngine(Catalog.open(str(root))))


@pytest.mark.slow
@pytest.mark.parametrize(("values", "name"), sample(KINDS.values(), 5), ids=KINDS.keys())
def test_values_are_the_same_in_every_state(root: Path, values: pa.Array, name: str) -> None:
    schema = pa.schema([key_field("id", pa.int64()), pa.field("v", values.type)])
    uri = str(root / "t.lance")
    dataset = lance.write_dataset(pa.table([[1, 2, 3], values], schema=schema), uri)
    dataset.initialize_mem_wal(unsharded=True)
    known = values.to_pylist()
    lake = open_lake(root)
    described = lake.read("SELECT data_type FROM information_schema.columns WHERE column_name = 'v'")
    assert described == [{"data_type": name}]
    lake.write("INSERT INTO t SELECT id + 3, v FROM t")
    lake.engine.close()
    lake = open_lake(root)
    lake.write("INSERT INTO t SELECT id + 6, v FROM t WHERE id < 4")
    lake.write("UPDATE t SET v = s.v FROM (SELECT v FROM t WHERE id = 1) s WHERE id = 9")
    expected = [*known, *known, known[0], known[1], known[0]]

    def check(lake: Lake) -> None:
        assert [row["v"] for row in lake.read("SELECT v FROM t ORDER BY id")] == expected
        assert lake.read("SELECT v FROM t WHERE id = 7") == [{"v": known[0]}]
        groups = lake.read("SELECT v, count(*) n FROM t GROUP BY v")
        assert {str(row["v"]): row["n"] for row in groups} == {
            str(one): expected.count(one) for one in expected
        }
        assert len(lake.read("SELECT DISTINCT v FROM t ORDER BY v")) == len(groups)
        sorted_ids = [row["id"] for row in lake.read("SELECT id FROM t ORDER BY v NULLS FIRST, id")]
        assert sorted_ids[: expected.count(None)] == [
            at + 1 for at, one in enumerate(expected) if one is None
        ]

    check(lake)
    other = open_lake(root)  # has to read the log from storage
    check(other)
    other.engine.close()
    lake.engine.close()
    assert merge(LakeTable.at(uri)).left == 0
    lake = open_lake(root)
    check(lake)
    lake.write("CREATE TABLE clone CLONE t")
    assert [row["v"] for row in lake.read("SELECT v FROM clone ORDER BY id")] == expected
    if not pa.types.is_null(values.type):
        lake.write("CREATE TABLE copy AS SELECT * FROM t")
        assert [row["v"] for row in lake.read("SELECT v FROM copy ORDER BY id")] == expected
    lake.engine.close()


@pytest.mark.slow
def test_maps_are_declared_and_written(root: Path, open_engine: Callable[[Path], QueryEngine]) -> None:
    lake = Lake(open_engine(root))
    lake.write("CREATE TABLE t (id INT PRIMARY KEY, m MAP<TEXT, INT>, n MAP(INT, STRUCT<a TEXT>[]))")
    (defined,) = lake.read("SHOW CREATE TABLE t")
    assert '"m" MAP<TEXT, INT>' in defined["create_statement"]
    assert '"n" MAP<INT, STRUCT<"a" TEXT>[]>' in defined["create_statement"]
    lake.write("INSERT INTO t VALUES (1, MAP {'a': 1, 'b': NULL}, NULL), (2, MAP {'c': 3}, NULL)")
    lake.write("UPDATE t SET m = MAP {'d': 4} WHERE m['a'] = 1")
    assert lake.read("SELECT id, m FROM t ORDER BY id") == [
        {"id": 1, "m": [("d", 4)]},
        {"id": 2, "m": [("c", 3)]},
    ]


@pytest.mark.slow
def test_json_is_checked_and_means_the_same_before_and_after_a_flush(root: Path) -> None:
    schema = pa.schema([key_field("id", pa.int64()), pa.field("j", pa.json_())])
    uri = str(root / "t.lance")
    lance.write_dataset(schema.empty_table(), uri).initialize_mem_wal(unsharded=True)
    lake = open_lake(root)
    lake.write(
        """INSERT INTO t VALUES (1, '{"b": 2,  "a": [1, 2.50]}'), (2, 'null'), (3, NULL), (4, '"x"')"""
    )
    lake.write("""UPDATE t SET j = '{ "c" : 3 }' WHERE id = 4""")
    expected = [
        {"id": 1, "j": '{"a":[1,2.5],"b":2}'},
        {"id": 2, "j": "null"},
        {"id": 3, "j": None},
        {"id": 4, "j": '{"c":3}'},
    ]
    assert lake.read("SELECT * FROM t ORDER BY id") == expected
    with pytest.raises(InvalidInputError, match="column 'j' takes JSON, and the row with id = 9 has 'bad'"):
        lake.write("INSERT INTO t VALUES (9, 'bad')")
    other = open_lake(root)
    assert other.read("SELECT * FROM t ORDER BY id") == expected
    other.engine.close()
    lake.engine.close()
    assert merge(LakeTable.at(uri)).left == 0
    lake = open_lake(root)
    assert lake.read("SELECT * FROM t ORDER BY id") == expected
    lake.engine.close()


def unaligned(rows: pa.Table) -> list[pa.RecordBatch]:
    """Rows whose buffers begin at odd addresses, as they may behind a message's header."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    message = pa.py_buffer(b"\0" * 8 + sink.getvalue().to_pybytes())
    return list(pa.ipc.open_stream(message.slice(8)))


@pytest.mark.slow
def test_lists_of_decimals_from_the_wire_are_copied(
    root: Path, open_engine: Callable[[Path], QueryEngine]
) -> None:
    lake = Lake(open_engine(root))
    lake.write("CREATE TABLE t (id BIGINT PRIMARY KEY, v DECIMAL(10, 2)[])")
    values = pa.array([[Decimal(i), Decimal("4.44")] for i in range(100)], pa.list_(pa.decimal128(10, 2)))
    rows = pa.table({"id": range(100), "v": values})
    ingest = prepare_ingest(lake.engine, TableName("t"), rows.schema, lake.settings, lake.access)
    ingest.execute(iter(unaligned(rows)), RunControl())
    for text in ("CREATE TABLE copy AS SELECT * FROM t", "CREATE TABLE clone CLONE t"):
        lake.write(text)
    for name in ("t", "copy", "clone"):
        assert lake.read(f"SELECT id, v FROM {name} ORDER BY id") == rows.to_pylist()


@pytest.mark.parametrize(
    "statement",
    [
        'CREATE TABLE u ("a`b" INT)',
        'CREATE TABLE u AS SELECT id AS "a`b" FROM t',
        'ALTER TABLE t ADD COLUMN "a`b" INT',
        'ALTER TABLE t RENAME COLUMN v TO "a`b"',
    ],
)
def test_a_column_with_a_backtick_is_refused_when_it_is_made(
    root: Path, open_engine: Callable[[Path], QueryEngine], statement: str
) -> None:
    lance.write_dataset(pa.table({"id": [1], "v": [2]}), str(root / "t.lance"))
    lake = Lake(open_engine(root))
    with pytest.raises(InvalidInputError, match="'a`b' can't be the name of a column: Lance can't read"):
        lake.write(statement)
    assert lake.read("SELECT * FROM t") == [{"id": 1, "v": 2}]


@pytest.mark.parametrize("is_written_to_log", [False, True])
def test_a_list_of_fixed_size_of_structs_is_named(
    root: Path, open_engine: Callable[[Path], QueryEngine], is_written_to_log: bool
) -> None:
    pairs = pa.array([[{"a": 1}, {"a": 2}]], pa.list_(pa.struct({"a": pa.int64()}), 2))
    schema = pa.schema(
        [key_field("id", pa.int64()), pa.field("v", pa.int64()), pa.field("pairs", pairs.type)]
    )
    uri = str(root / "t.lance")
    rows = pa.table([[1], [2], pairs], schema=schema)
    lance.write_dataset(rows, uri).initialize_mem_wal(unsharded=True)
    lake = Lake(open_engine(root))
    with pytest.raises(UnsupportedError, match="leave that column out, or read it alone"):
        lake.read("SELECT * FROM t")
    assert lake.read("SELECT id, v FROM t") == [{"id": 1, "v": 2}]
    assert lake.read("SELECT pairs FROM t") == [{"pairs": [{"a": 1}, {"a": 2}]}]
    with pytest.raises(UnsupportedError, match="takes no writes: column 'pairs' is a list of fixed size"):
        lake.write("INSERT INTO t SELECT id, v + 1, NULL FROM t")
    if is_written_to_log:
        with lance.dataset(uri).mem_wal_writer(REGION) as writer:
            writer.put(rows)
        with pytest.raises(UnsupportedError, match="can't be merged: Lance can't read a list of fixed size"):
            merge(LakeTable.at(uri))
