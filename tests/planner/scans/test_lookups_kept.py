"""What lookups of keys leave in the cache while their table is written to."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import Changes, WriteOptions
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.log_tail import Tail
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.memwal.written import WrittenTable, keyed_schema

TABLE = "t"
ROUNDS = 20


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[QueryEngine]:
    schema = keyed_schema(pa.field("id", pa.int64()), values=(pa.field("qty", pa.int32()),))
    WrittenTable.create(str(tmp_path / f"{TABLE}.lance"), schema, unsharded=True)
    found = QueryEngine(Catalog.open(str(tmp_path), writing=WriteOptions(hold_ms=0)))
    yield found
    found.close()


def write_and_look_up(engine: QueryEngine, key: int) -> None:
    writer = engine.catalog.table(TABLE).writer()
    writer.write(Changes(pa.table({"id": [key], "qty": [key]}, schema=writer.schema)))
    found = engine.execute(f"SELECT qty FROM {TABLE} WHERE id = {key}").read_all()
    assert found.column("qty").to_pylist() == [key]


def count_tails() -> int:
    gc.collect()
    return sum(isinstance(one, Tail) for one in gc.get_objects())


def test_lookups_keep_the_log_tail_of_the_last_snapshot_alone(engine: QueryEngine):
    for key in range(3):
        write_and_look_up(engine, key)
    tails, kept = count_tails(), engine.catalog.cache.nbytes

    for key in range(3, 3 + ROUNDS):
        write_and_look_up(engine, key)

    assert count_tails() <= tails
    assert engine.catalog.cache.nbytes < kept + ROUNDS * 1024
