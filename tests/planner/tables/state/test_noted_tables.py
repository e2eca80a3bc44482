"""States that tokens name: what is kept of many of them."""

import random
import weakref
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.past.noted_tables import NotedTable, read_token
from tests.support.lake.tables import LsmTable, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("v", pa.int64())])
STATES = 12


@pytest.fixture
def tokens(root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]) -> list[str]:
    """One for each of many writes to a region, none of which is flushed: state n has the values 0 to n."""
    made = LsmTable.create(root, "t", SCHEMA.empty_table(), bucketed("id", 1, recorded=True), writers)
    engine, found = open_engine(root), []
    for number in range(STATES):
        made.put([{"id": number % 5, "v": number}])
        (row,) = engine.execute("SELECT _position FROM lance_position('t')").read_all().to_pylist()
        found.append(row["_position"])
    return found


def test_states_of_one_log_share_its_rows(root: Path, tokens: list[str]) -> None:
    table = Catalog.open(str(root)).table("t")
    for seed in range(3):
        order = random.Random(seed).sample(range(STATES), STATES)
        tails = {number: table.reopen(read_token(tokens[number], "t")).tails for number in order}
        assert len({tail.log for found in tails.values() for tail in found}) == 1
        for number, (tail,) in tails.items():
            assert tail.rows.column("v").to_pylist() == list(range(number + 1))
            assert tail.positions == tails[STATES - 1][0].positions[: number + 1]


def test_a_state_that_nobody_needs_any_more_is_let_go_of_at_once(root: Path, tokens: list[str]) -> None:
    table = Catalog.open(str(root)).table("t")
    noted = NotedTable(table, table.reopen(read_token(tokens[-1], "t")), DecodedColumns(1 << 20))
    regions = noted.assignments(noted.base(), "strong").regions
    snapshot = noted.take_snapshot([one.region_id for one in regions])
    assert len(snapshot.tails) == 1
    found = weakref.ref(noted)
    del noted
    assert found() is None
