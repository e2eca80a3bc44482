"""Upkeep comes to rest: what a policy asks for once is not asked for again."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.pipeline.indexing import IndexPolicy, maintain, needs
from lance_gateway.pipeline.jobs.lake import LakeTable
from tests.pipeline.indexed_table import IndexedTable, rows
from tests.planner.search.sources.replayed import Ask
from tests.support.processes.writer_process import WriterProcess


@pytest.mark.slow
@pytest.mark.parametrize("deleted_fraction", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (6, 6, 6), (25, 3, 9, 3, 25, 1), (10, 9, 10, 9), (3, 25, 3, 25, 3)], ids=str
)
def test_fragments_of_any_sizes(tmp_path: Path, sizes: tuple[int, ...], deleted_fraction: float):
    path = tmp_path / "t.lance"
    table = LakeTable.at(str(path))
    policy = IndexPolicy(target_rows=10, max_spare_fragments=0, deleted_fraction=deleted_fraction)
    first = 0
    for place, size in enumerate(sizes):
        rows = pa.table({"a": range(first, first + size)})
        lance.write_dataset(rows, path, mode="append" if place else "create")
        first += size
        if not place:
            lance.dataset(path).create_scalar_index("a", "BTREE")
        elif place == 2:
            maintain(table, IndexPolicy(compact=False))
    lance.dataset(path).delete("a % 3 = 0")
    for _ in range(2):
        maintain(table, policy)
    assert needs(table, policy) == ()
    # Lance puts what it has written behind what it left alone.
    assert sorted(table.dataset().to_table()["a"].to_pylist()) == [one for one in range(first) if one % 3]


@pytest.mark.slow
def test_a_table_that_has_lost_all_rows(root: Path, writers: WriterProcess, ask: Ask):
    """Lance records no progress where there is nothing to index, and nothing is lacking."""
    table = IndexedTable(root, writers, rows(range(20)))
    table.turn(range(15, 25), 1, deleted=range(25))
    assert table.lake_table.dataset().get_fragments() == []
    report = maintain(table.lake_table)
    assert (report.optimised, report.lagging) == ((), ())
    assert needs(table.lake_table) == ()
    table.check(ask)
    table.turn(range(30), 2)
    maintain(table.lake_table)
    assert needs(table.lake_table) == ()
    table.check(ask)
