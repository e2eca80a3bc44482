"""What searches keep is bounded, however often rows change under them, and answers don't depend on it."""

from pathlib import Path

import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.planner.search.sources.replayed import ReplayedTable, asking, axis
from tests.support.lake.tables import Row
from tests.support.processes.writer_process import WriterProcess

BUDGET = 128 * 1024
SEARCHES = (
    "SELECT id FROM lance_vector_search('docs', 'vec', [1, 1, 1, 1, 1, 1, 1, 1], k => 5)",
    "SELECT id FROM lance_fts('docs', 'txt', 'common word7', k => 5)",
    "SELECT id FROM lance_hybrid_search('docs', 'vec', [1, 1, 1, 1, 1, 1, 1, 1], 'txt', 'common', k => 5)",
)


def rows(start: int, version: int) -> list[Row]:
    return [
        {"id": one, "vec": axis(one, 1 + one + version), "txt": f"common word{one} in version{version}"}
        for one in range(start, start + 150)
    ]


@pytest.fixture
def table(root: Path, writers: WriterProcess) -> ReplayedTable:
    table = ReplayedTable(root, writers, rows(0, 0), max_memtable_rows=400)
    table.index_texts()
    return table


@pytest.mark.slow
def test_caches_stay_within_their_budget_while_rows_change(root: Path, table: ReplayedTable) -> None:
    small, ample = (
        QueryEngine(Catalog.open(str(root), cache_bytes=BUDGET)),
        QueryEngine(Catalog.open(str(root))),
    )
    try:
        held = []
        for version in range(1, 9):
            table.put(*rows(version * 50, version))
            for sql in SEARCHES:
                assert asking(small)(sql) == asking(ample)(sql)
                held.append(sum(cache.nbytes for cache in small.catalog.caches.values()))
        assert max(held) <= BUDGET
        assert sum(cache.nbytes for cache in ample.catalog.caches.values()) > BUDGET
    finally:
        small.close()
        ample.close()
