"""Conditions without columns, of a statement or of an access policy, hold for all rows or for none."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from tests.support.judging.principals import create_principal
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.writer_process import WriterProcess

SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("s", pa.string())])


@pytest.fixture
def engine(root: Path, open_engine: Callable[[Path], QueryEngine], writers: WriterProcess) -> QueryEngine:
    """Rows in the base table, in a generation, and in a log, in a region whose values nobody recorded."""
    base = pa.Table.from_pylist([{"id": 1, "s": "base"}], SCHEMA)
    table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers)
    table.put([{"id": 2, "s": "generation"}])
    table.close_writers()
    table.put([{"id": 3, "s": "log"}])
    return open_engine(root)


@pytest.mark.parametrize(
    "condition", ["FALSE", "1 = 2", "coalesce(DATE '2024-02-29', NULL) < DATE '1970-01-01'"]
)
def test_a_row_filter_that_never_holds_shows_no_row(engine: QueryEngine, condition: str) -> None:
    access = create_principal(t=TableAccess(row_filter=condition))
    for _ in range(4):  # as often as it takes until columns are kept in memory
        for sql in (
            "SELECT count(*) AS n FROM t",
            "SELECT sum(1) AS n FROM t",
            "SELECT count(id) AS n FROM t",
        ):
            assert not any(
                engine.prepare(sql, DEFAULT_SETTINGS, access).execute().read_all()["n"].to_pylist()
            )
        assert (
            not engine.prepare("SELECT 1 AS n FROM t", DEFAULT_SETTINGS, access).execute().read_all().num_rows
        )


@pytest.mark.parametrize("condition", ["x.zero = 7", "x.zero > 0.5", "x.zero IN (1, 2)"])
def test_a_condition_on_a_constant_column_passes_no_row(engine: QueryEngine, condition: str) -> None:
    relation = "(SELECT CAST(0 AS DECIMAL(10, 2)) AS zero FROM t) AS x"
    for _ in range(4):
        assert not engine.execute(f"SELECT x.zero FROM {relation} WHERE {condition}").read_all().num_rows
        rows = engine.execute(f"SELECT count(*) AS n FROM {relation} WHERE NOT ({condition})").read_all()
        assert rows["n"].to_pylist() == [3]
