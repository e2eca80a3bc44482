"""Upkeep, merges, writes and questions at the same time: the answer is always the one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from lance_gateway.pipeline.indexing import IndexPolicy, IndexSpec, build, maintain
from lance_gateway.pipeline.merging import merge
from lance_gateway.planner.engine import QueryEngine
from tests.pipeline.indexed_table import IndexedTable, check_lance, rows
from tests.planner.search.sources.replayed import asking, axis
from tests.support.processes.writer_process import WriterProcess

EAGER = IndexPolicy(max_spare_fragments=1, deleted_fraction=0.05, retrain_after=3)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.soak
def test_answers_do_not_change_while_merges_and_upkeep_race(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], stable: bool
):
    table = IndexedTable(root, writers, stable_row_ids=stable)
    for turn in range(1, 5):  # generations that wait
        table.put(*rows(range(30 * turn, 30 * turn + 120), turn))
        table.delete(*({"id": number} for number in range(turn, 30, 7)))
        table.flush()
    ask = asking(open_engine(root))
    questions = (
        "SELECT count(*), sum(n), sum(id) FROM docs",
        "SELECT id, n FROM docs WHERE id = 150",
        "SELECT id FROM docs WHERE n = 7 ORDER BY id",
        table.nearest(axis(3, 1.05), 5, options="nprobes => 10"),
        table.matching("turn2 turn3", 6),
    )
    expected = [ask(one) for one in questions]
    table.check(ask)
    done = Event()

    def keep_asking() -> int:
        count = 0
        while not done.is_set() or count < 5:
            for question, answer in zip(questions, expected, strict=True):
                assert same(ask(question), answer), question
            count += 1
        return count

    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(keep_asking)
        try:
            merged = pool.submit(lambda: [merge(table.lake_table) for _ in range(3)])
            for _ in range(3):
                maintain(table.lake_table, EAGER)
            build(table.lake_table, IndexSpec("n", "BITMAP", "n_bits", segment_rows=50))
            merged.result()
            maintain(table.lake_table, EAGER)
        finally:
            done.set()
        assert asked.result() >= 5
    assert all(one.is_current for one in table.state().indexes)
    table.check(ask)
    check_lance(table.table.path)


@pytest.mark.slow
@pytest.mark.soak
def test_upkeep_by_two_at_once(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    table = IndexedTable(root, writers)
    ask = asking(open_engine(root))
    with ThreadPoolExecutor(2) as pool:
        for turn in range(1, 4):
            table.turn(range(100 + 30 * turn, 160 + 30 * turn), turn, deleted=range(10 * turn, 10 * turn + 8))
            for report in pool.map(lambda _: maintain(table.lake_table, EAGER), range(2)):
                assert report.lagging == ()
            assert all(one.is_current for one in table.state().indexes)
            table.check(ask)
    check_lance(table.table.path)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two answers are the same, but for the last bits of what was computed."""
    return one.num_rows == other.num_rows and all(
        left == pytest.approx(right, rel=1e-4)
        for name in other.column_names
        for left, right in zip(one[name].to_pylist(), other[name].to_pylist(), strict=True)
    )
