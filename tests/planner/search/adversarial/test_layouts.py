"""The same searches over every kind of key, several regions, two gateways, and S3."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine, SessionSettings
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.memwal.written import WrittenTable, keyed_schema
from tests.planner.search.sources.replayed import DIMENSION, Ask, ReplayedTable, asking, axis
from tests.support.lake.tables import (
    Row,
    bucketed,
    by_identity,
    key_field,
    unpartitioned,
)
from tests.support.processes.servers import GatewayProcess, fetch, open_connection
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

Open = Callable[[Path], QueryEngine]

INTEGER = (key_field("id", pa.int64()),)
STRING = (key_field("id", pa.string()),)
COMPOSITE = (key_field("id", pa.int64(), position=2), key_field("tenant", pa.string(), position=1))
LAYOUTS = {
    "two regions without a spec": (INTEGER, unpartitioned(("id",), 2)),
    "three buckets": (INTEGER, bucketed("id", 3, recorded=True)),
    "string keys": (STRING, bucketed("id", 3, recorded=True)),
    "string keys, nothing recorded": (STRING, bucketed("id", 3, recorded=False)),
    "composite, by tenant": (COMPOSITE, by_identity("tenant", recorded=True)),
    "composite, without a spec": (COMPOSITE, unpartitioned(("tenant", "id"), 3)),
}
WORDS = ("common", "rare", "filler", "north", "south")


def drawn(numbers: range, seed: int, key: tuple[pa.Field, ...]) -> list[Row]:
    source = np.random.default_rng(seed)
    return [
        {
            "id": number if key[0].type == pa.int64() else f"key {number}",
            "tenant": ("north", "south", "east")[number % 3],
            "vec": source.normal(size=DIMENSION).astype("f4").tolist(),
            "txt": " ".join(source.choice(WORDS, source.integers(0, 7), p=(0.4, 0.05, 0.4, 0.1, 0.05))),
            "n": number % 4,
        }
        for number in numbers
    ]


def cut(rows: list[Row], key: tuple[pa.Field, ...]) -> list[Row]:
    """Without the columns that the table does not have."""
    return [{name: value for name, value in row.items() if name != "tenant" or len(key) > 1} for row in rows]


def check(table: ReplayedTable, asks: list[Ask]) -> None:
    for number, ask in enumerate(asks):
        table.check_nearest(ask, axis(number), 12)
        table.check_nearest(ask, axis(3, -2.0), 7, where="n < 2", keeps=lambda row: row["n"] < 2)
        table.check_texts(ask, "rare common", 9)
        table.check_texts(ask, "south filler", 200)
        if "tenant" in table.table.key:

            def northern(row: Row) -> bool:
                return row["tenant"] == "north"

            table.check_nearest(ask, axis(2), 12, where="tenant = 'north'", keeps=northern)
            table.check_texts(ask, "common", 9, where="tenant = 'north'", keeps=northern)
        else:
            check_one_key(table, ask, list(table.rows)[7][0])


def check_one_key(table: ReplayedTable, ask: Ask, key: int | str) -> None:
    where = f"id = {key!r}"
    table.check_nearest(ask, axis(2), 12, where=where, keeps=lambda row: row["id"] == key)
    table.check_texts(ask, "common", 9, where=where, keeps=lambda row: row["id"] == key)


def history(root: Path, writers: WriterProcess, layout: str) -> Iterator[ReplayedTable]:
    """A table whose rows move about; given out after every step."""
    key, regions = LAYOUTS[layout]
    table = ReplayedTable(
        root, writers, cut(drawn(range(90), 1, key), key), key=key, layout=regions, max_memtable_rows=40
    )
    table.index_vectors("IVF_PQ", num_sub_vectors=4, num_bits=4)
    table.index_texts()
    yield table
    table.put(*cut(drawn(range(60, 100), 2, key), key))
    yield table
    table.flush()
    table.delete(*cut([{k: row[k] for k in ("id", "tenant")} for row in drawn(range(50, 70), 1, key)], key))
    table.put(*cut(drawn(range(20, 40), 3, key), key))
    yield table
    table.flush()
    table.merge()
    yield table
    table.put(*cut(drawn(range(45, 65), 4, key), key))
    table.clean_up()
    yield table
    table.catch_up()
    yield table


@pytest.mark.slow
@pytest.mark.parametrize("layout", sample(LAYOUTS, 2))
def test_every_layout_finds_what_the_replay_finds(
    root: Path, writers: WriterProcess, open_engine: Open, layout: str
):
    engine = open_engine(root)
    unpruned = SessionSettings(region_pruning=False)
    asks = [asking(engine), lambda sql: engine.prepare(sql, unpruned).execute().read_all()]
    for table in history(root, writers, layout):
        check(table, asks)


@pytest.mark.slow
@pytest.mark.soak
def test_two_gateways_find_what_the_replay_finds(root: Path, writers: WriterProcess):
    """Caches of one know nothing of what the other saw."""
    with ExitStack() as stack:
        asks: list[Ask] = []
        for table in history(root, writers, "composite, by tenant"):
            while len(asks) < 2:
                uri = stack.enter_context(GatewayProcess(root)).uri
                connection = stack.enter_context(open_connection(uri))
                asks.append(lambda sql, connection=connection: fetch(connection, sql))
            check(table, asks)


@pytest.mark.slow
def test_a_table_on_s3_is_searched(s3_location: tuple[str, dict[str, str]]):
    uri, options = s3_location
    values = [pa.field("vec", pa.list_(pa.float32(), DIMENSION)), pa.field("txt", pa.string())]
    schema = keyed_schema(pa.field("id", pa.int64()), values=values)
    written = WrittenTable.create(f"{uri}/docs.lance", schema, options)
    rows = cut(drawn(range(60), 1, INTEGER), INTEGER)

    def columns(chosen: list[Row]) -> dict[str, list[Any]]:
        return {name: [row[name] for row in chosen] for name in schema.names}

    upsert = written.dataset.merge_insert(["id"]).when_not_matched_insert_all()
    upsert.execute(written.rows(**columns(rows)))
    written.dataset.create_index("vec", "IVF_FLAT", num_partitions=2)
    written.dataset.create_scalar_index("txt", "INVERTED", with_position=True)
    newer = [row | {"vec": axis(row["id"], 50.0), "txt": "moved"} for row in rows[:20]]
    written.write(written.rows(**columns(newer)))
    engine = QueryEngine(Catalog.open(uri, options))
    try:
        ask = asking(engine)
        near = ask(f"SELECT id FROM lance_vector_search('docs', 'vec', {[0.0] * DIMENSION}, k => 40)")
        assert sorted(near["id"].to_pylist()) == list(range(20, 60))
        moved = ask("SELECT id FROM lance_fts('docs', 'txt', 'moved', k => 40)")
        assert sorted(moved["id"].to_pylist()) == list(range(20))
    finally:
        engine.close()
