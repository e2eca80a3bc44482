"""How the partitions of a scan divide a large fragment of the base table, and when Lance filters it."""

from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.execnodes import ExecNode, LanceScanExec, RowRange
from lance_gateway.execnodes.rows.row_mask import CHUNK_ROWS
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.lake.tables import key_field

ROWS = 4 * CHUNK_ROWS + 1_000
FIRST, LAST = RowRange(0, 0, 2 * CHUNK_ROWS), RowRange(0, 2 * CHUNK_ROWS, 2 * CHUNK_ROWS + 1_000)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tables of one fragment: of narrow rows, of wide ones, and with an index."""
    root = tmp_path_factory.mktemp("divided")
    numbers = pa.array(np.arange(ROWS))
    kinds = pa.array(np.arange(ROWS) % 5, pa.int32())
    schema = pa.schema([key_field("id", pa.int64()), pa.field("k", pa.int32()), pa.field("s", pa.string())])
    for name, text in (("narrow", "x"), ("wide", "x" * 200), ("indexed", "x")):
        rows = pa.table([numbers, kinds, pa.array([text]).take(pa.array(np.zeros(ROWS, np.int32)))], schema)
        dataset = lance.write_dataset(rows, root / f"{name}.lance")
        dataset.delete("id % 1000 = 7")
        if name == "indexed":
            dataset.create_scalar_index("k", "BTREE")
    return root


@pytest.fixture(scope="module")
def engine(root: Path) -> QueryEngine:
    return QueryEngine(Catalog.open(str(root)), partitions=2)


@pytest.fixture
def read(engine: QueryEngine) -> Callable[[str], tuple[pa.Table, LanceScanExec]]:
    """Run a statement over one table; return its rows, and the scan of the base table."""

    def read(sql: str) -> tuple[pa.Table, LanceScanExec]:
        control = RunControl()
        rows = engine.prepare(sql).execute(control=control).read_all()
        tree = control.runs[0].scans[0].planned_tree
        assert tree is not None
        return rows, next(node for node in list_nodes(tree) if isinstance(node, LanceScanExec))

    return read


def list_nodes(node: ExecNode) -> list[ExecNode]:
    return [node, *(below for child in node.children() for below in list_nodes(child))]


@pytest.mark.parametrize("condition", ["", "WHERE k = 3", "WHERE k >= 0 AND s = 'x'"])
def test_partitions_divide_a_fragment_of_narrow_rows(
    read: Callable[[str], tuple[pa.Table, LanceScanExec]], condition: str
) -> None:
    for _ in range(2):  # from files, and from what is kept
        rows, scan = read(f"SELECT id, upper(s) AS s FROM narrow {condition}")
        assert {part for group in scan.row_ranges for part in group} == {FIRST, LAST}
        assert all(scan.row_ranges)
        wanted = [one for one in range(ROWS) if one % 1000 != 7 and ("= 3" not in condition or one % 5 == 3)]
        assert sorted(rows["id"].to_pylist()) == wanted


@pytest.mark.parametrize(
    ("title", "sql"),
    [
        ("wide rows, of which few match", "SELECT id, upper(s) FROM wide WHERE k = 3"),
        ("an index finds the rows", "SELECT id, upper(s) FROM indexed WHERE k = 3"),
    ],
)
def test_lance_filters(read: Callable[[str], tuple[pa.Table, LanceScanExec]], title: str, sql: str) -> None:
    rows, scan = read(sql)
    assert not scan.row_ranges, title
    assert not scan.keep_columns
    assert rows.num_rows == sum(1 for one in range(ROWS) if one % 1000 != 7 and one % 5 == 3)


def test_rows_are_counted_by_their_fragments(
    read: Callable[[str], tuple[pa.Table, LanceScanExec]],
) -> None:
    rows, scan = read("SELECT count(*), now() IS NOT NULL FROM narrow GROUP BY 2")
    assert not scan.row_ranges
    assert rows.column(0).to_pylist() == [ROWS - ROWS // 1000 - 1]
