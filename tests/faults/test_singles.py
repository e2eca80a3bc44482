"""Attacks on writing, one by one."""

import datetime as dt
import decimal
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.planner.engine import SessionSettings
from tests.support.lake import manifests
from tests.support.lake.tables import key_field
from tests.support.processes.gateways import EAGER, EngineGateway

OpenGateway = Callable[..., EngineGateway]
SCHEMA = pa.schema([key_field("k", pa.int64()), pa.field("v", pa.string())])
TYPES: dict[str, pa.DataType] = {
    "flag": pa.bool_(),
    "tiny": pa.int8(),
    "ularge": pa.uint64(),
    "single": pa.float32(),
    "text": pa.string(),
    "long_text": pa.large_string(),
    "blob": pa.binary(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
    "instant": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(12, 2),
    "vector": pa.list_(pa.float32(), 2),
    "words": pa.list_(pa.string()),
    "pair": pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
}
ODD = ('Größe "x"', "select", "a b", "naïve'é", "日本", "x;--")


@pytest.fixture
def open_gateway(root: Path) -> Iterator[OpenGateway]:
    gateways: list[EngineGateway] = []

    def opened(**more: object) -> EngineGateway:
        gateways.append(EngineGateway(root, **more))
        return gateways[-1]

    yield opened
    for gateway in gateways:
        gateway.close()


def create(root: Path, schema: pa.Schema = SCHEMA, name: str = "t", **spec: object) -> Path:
    path = root / f"{name}.lance"
    lance.write_dataset(schema.empty_table(), path).initialize_mem_wal(**spec)
    return path


def values(gateway: EngineGateway, table: str = "t") -> dict[int, str]:
    rows = gateway.read(f"SELECT k, v FROM {table}")
    assert len(set(rows["k"].to_pylist())) == rows.num_rows
    return dict(zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True))


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Results of calls that begin at the same instant; an error of ours is a result."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        start.wait()
        try:
            return call()
        except LanceGatewayError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_of_a_group_only_the_bad_request_fails(root: Path, open_gateway: OpenGateway):
    create(root)
    gateway = open_gateway()

    def good(key: int) -> int:
        return gateway.write(f"INSERT INTO t VALUES ({key}, 'good')")

    def bad() -> int:
        return gateway.write("INSERT INTO t VALUES (NULL, 'bad')")

    answers = at_once(*(lambda key=key: good(key) for key in range(12)), bad, bad)
    assert answers[:12] == [1] * 12
    assert all(isinstance(one, LanceGatewayError) for one in answers[12:])
    assert values(gateway) == dict.fromkeys(range(12), "good")


@pytest.mark.slow
def test_a_huge_row(root: Path, open_gateway: OpenGateway):
    create(root)
    gateway = open_gateway()
    text = "x" * (20 << 20)
    assert gateway.write("INSERT INTO t VALUES (1, $1)", [text]) == 1
    assert gateway.write("UPDATE t SET v = v || 'y' WHERE k = 1") == 1
    assert open_gateway().read("SELECT length(v) AS n FROM t")["n"].to_pylist() == [len(text) + 1]


def test_null_in_every_type(root: Path, open_gateway: OpenGateway):
    create(root, pa.schema([key_field("k", pa.int64()), *(pa.field(*one) for one in TYPES.items())]))
    gateway = open_gateway()
    assert gateway.write("INSERT INTO t (k) VALUES (1)") == 1
    gateway.write(f"INSERT INTO t VALUES (2, {', '.join(['NULL'] * len(TYPES))})")
    assert gateway.write("UPDATE t SET tiny = 1, text = NULL WHERE price IS NULL") == 2
    nothing = dict.fromkeys(TYPES) | {"tiny": 1}
    expected = [{"k": key, **nothing} for key in (1, 2)]
    for one in (gateway, open_gateway()):
        assert one.read("SELECT * FROM t ORDER BY k").to_pylist() == expected


def test_every_type_comes_back_as_it_was_written(root: Path, open_gateway: OpenGateway):
    create(root, pa.schema([key_field("k", pa.int64()), *(pa.field(*one) for one in TYPES.items())]))
    gateway = open_gateway()
    row = {
        "k": 1,
        "flag": True,
        "tiny": -8,
        "ularge": 2**64 - 1,
        "single": 0.5,
        "text": "grün; 'quoted'",
        "long_text": "",
        "blob": b"\x00\xff'",
        "day": dt.date(1969, 12, 31),
        "moment": dt.datetime(2026, 2, 28, 23, 59, 59, 999_999),
        "instant": dt.datetime(2026, 2, 28, tzinfo=dt.UTC),
        "price": decimal.Decimal("-12.34"),
        "vector": [0.5, -0.5],
        "words": ["a", None, ""],
        "pair": {"a": 1, "b": None},
    }
    marks = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    types = [pa.int64(), *TYPES.values()]
    scalars = [pa.scalar(value, kind) for value, kind in zip(row.values(), types, strict=True)]
    assert gateway.write(f"INSERT INTO t VALUES ({marks})", scalars) == 1
    assert gateway.write("UPDATE t SET tiny = -8") == 1
    for one in (gateway, open_gateway()):
        assert one.read("SELECT * FROM t").to_pylist() == [row]


def test_odd_names(root: Path, open_gateway: OpenGateway):
    fields = [key_field("k", pa.int64()), *(pa.field(name, pa.string()) for name in ODD)]
    create(root, pa.schema(fields), name="Odd Näme")
    gateway = open_gateway()
    quoted = ['"' + name.replace('"', '""') + '"' for name in ODD]
    columns = ", ".join(quoted)
    texts = ", ".join("'" + name.replace("'", "''") + "'" for name in ODD)
    assert gateway.write(f'INSERT INTO "Odd Näme" (k, {columns}) VALUES (1, {texts})') == 1
    sets = ", ".join(f"{name} = {name} || '!'" for name in quoted)
    assert gateway.write(f'UPDATE "Odd Näme" SET {sets} WHERE {quoted[0]} IS NOT NULL') == 1
    expected = {"k": 1} | {name: f"{name}!" for name in ODD}
    assert open_gateway().read('SELECT * FROM "Odd Näme"').to_pylist() == [expected]
    assert gateway.write(f"DELETE FROM \"Odd Näme\" WHERE {quoted[1]} = 'select!'") == 1


@pytest.mark.slow
@pytest.mark.parametrize("spec", [{}, {"bucket_column": "k", "num_buckets": 2}, {"identity_column": "k"}])
def test_gateways_that_create_a_region_at_the_same_instant_create_one(
    root: Path, open_gateway: OpenGateway, spec: dict[str, object]
):
    table = create(root, **spec)
    gateways = [open_gateway() for _ in range(4)]
    at_once(
        *(
            lambda one=one, number=number: one.write(f"INSERT INTO t VALUES (7, '{number}')")
            for number, one in enumerate(gateways)
        )
    )
    (_,) = manifests.list_region_ids(table)
    first, *others = [values(one) for one in gateways]
    assert set(first) == {7}
    assert all(one == first for one in others)


def test_a_column_that_others_add_between_two_writes(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway()
    insert = gateway.engine.prepare_statement("INSERT INTO t (k, v) VALUES (2, 'old')")
    gateway.write("INSERT INTO t VALUES (1, 'first')")
    lance.dataset(table).add_columns(pa.schema([pa.field("more", pa.int32())]))
    try:
        insert.execute()
    except LanceGatewayError:
        assert gateway.write("INSERT INTO t (k, v) VALUES (2, 'old')") == 1
    assert gateway.write("INSERT INTO t VALUES (3, 'new', 3)") == 1
    assert gateway.write("UPDATE t SET more = k WHERE k = 1") == 1
    expected = [
        {"k": 1, "v": "first", "more": 1},
        {"k": 2, "v": "old", "more": None},
        {"k": 3, "v": "new", "more": 3},
    ]
    for one in (gateway, open_gateway()):
        assert one.read("SELECT * FROM t ORDER BY k").to_pylist() == expected


def test_a_table_that_is_made_anew_under_its_writer(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway()
    gateway.write("INSERT INTO t VALUES (1, 'old')")
    shutil.rmtree(table)
    create(root)
    for _ in range(3):
        try:
            gateway.write("INSERT INTO t VALUES (2, 'new')")
            break
        except LanceGatewayError:
            continue
    for one in (gateway, open_gateway()):
        assert values(one) == {2: "new"}


def test_a_table_that_is_dropped_under_its_writer_stays_dropped(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway()
    gateway.write("INSERT INTO t VALUES (1, 'old')")
    shutil.rmtree(table)
    with pytest.raises(LanceGatewayError):
        gateway.write("INSERT INTO t VALUES (2, 'lost')")
    gateway.close()
    assert not list(table.glob("_versions/*"))


def test_own_writes_are_read_whatever_staleness_is_allowed(root: Path, open_gateway: OpenGateway):
    create(root)
    stale = SessionSettings(max_staleness_ms=3_600_000)
    gateway, other = open_gateway(settings=stale), open_gateway(settings=stale)
    for number in range(5):
        gateway.write(f"INSERT INTO t VALUES ({number}, 'x')")
        assert len(values(gateway)) == number + 1
    assert values(other) == dict.fromkeys(range(5), "x")


def test_what_is_not_durable_yet_is_read_on_the_same_gateway(root: Path, open_gateway: OpenGateway):
    create(root)
    gateway = open_gateway(settings=SessionSettings(durable_writes=False))
    for number in range(20):
        gateway.write(f"INSERT INTO t VALUES ({number}, 'a')")
        assert gateway.read(f"SELECT v FROM t WHERE k = {number}").num_rows == 1
    assert gateway.write("UPDATE t SET v = 'b'") == 20
    gateway.close()
    assert values(open_gateway()) == dict.fromkeys(range(20), "b")


def test_a_writer_that_was_closed_for_idleness_opens_again(root: Path, open_gateway: OpenGateway):
    create(root)
    gateway = open_gateway(options=replace(EAGER, idle_close_seconds=0.01))
    for number in range(12):
        gateway.write(f"INSERT INTO t VALUES ({number}, 'x')")
        assert gateway.write(f"UPDATE t SET v = 'y' WHERE k = {number}") == 1
    assert values(gateway) == values(open_gateway()) == dict.fromkeys(range(12), "y")


@pytest.mark.slow
def test_a_change_of_more_rows_than_a_memtable_holds_is_one_entry(root: Path, open_gateway: OpenGateway):
    table = create(root)
    gateway = open_gateway(options=replace(EAGER, max_memtable_rows=5_000))
    rows = 30_000
    query = f"SELECT value AS k, 'a' AS v FROM generate_series(1, {rows})"
    assert gateway.write(f"INSERT INTO t {query}") == rows
    seen: set[tuple[str, ...]] = set()
    reader = open_gateway()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            found = reader.read("SELECT v, count(*) AS n FROM t GROUP BY v ORDER BY v").to_pylist()
            seen.add(tuple(f"{one['v']}{one['n']}" for one in found))

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            assert gateway.write("UPDATE t SET v = v || 'b'") == rows
            assert gateway.write("DELETE FROM t WHERE k % 2 = 0") == rows // 2
        finally:
            over.set()
        watching.result()
    assert seen <= {(f"a{rows}",), (f"ab{rows}",), (f"ab{rows // 2}",)}
    assert reader.read("SELECT count(*) AS n FROM t")["n"].to_pylist() == [rows // 2]
    assert len(manifests.list_region_ids(table)) == 1
