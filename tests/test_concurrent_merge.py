"""Queries while another process writes and generations are merged, cleaned up and compacted beneath them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from tests.support.judging.results import rows_of
from tests.support.lake import manifests
from tests.support.lake.merging import clean_up_merged, merge_generations
from tests.support.lake.tables import LsmTable, key_field, unpartitioned
from tests.support.processes.racing import Maintenance, Reader, run_race
from tests.support.processes.writer_process import WriterProcess

KEYS = 10
SCHEMA = pa.schema([key_field("id", pa.int64()), pa.field("n", pa.int32())])
SHAPES = {
    "scan": ("SELECT min(n), max(n), count(*) FROM t", lambda n: (n, n, KEYS)),
    "filter": ("SELECT min(n), max(n), count(*) FROM t WHERE n >= 0", lambda n: (n, n, KEYS)),
    "count": ("SELECT max(n), count(*) FROM t a WHERE id < 1000", lambda n: (n, KEYS)),
    "lookup": ("SELECT n FROM t WHERE id = 3", lambda n: (n,)),
    "self join": (
        "SELECT max(a.n), count(*) FROM t a JOIN t b ON a.id = b.id AND a.n = b.n",
        lambda n: (n, KEYS),
    ),
}


class Merging(Maintenance):
    """Writes every key again and again, one atomic write each, and merges behind the writer."""

    def __init__(self, table: LsmTable, rounds: int) -> None:
        super().__init__()
        self._table = table
        self._rounds = rounds

    def work(self) -> None:
        for number in range(1, self._rounds + 1):
            self._table.put([{"id": key, "n": number} for key in range(KEYS)])
            self.acknowledged = number
            if number % 5 == 0:
                self._maintain(compact=number % 20 == 0)

    def _maintain(self, *, compact: bool) -> None:
        (region,) = self._table.regions.values()
        flushed = manifests.read_manifest(self._table.path, region).flushed_generations
        merge_generations(self._table.path, region, max(entry.generation for entry in flushed))
        clean_up_merged(self._table.path, region)
        if compact:
            self._table.dataset().optimize.compact_files()


def look(engine: QueryEngine, name: str) -> int:
    """The number of all rows as one shape finds them."""
    sql, expected = SHAPES[name]
    (row,) = rows_of(engine.execute(sql).read_all())
    newest = row[0]
    assert row == expected(newest), f"{name}: a torn write"
    return newest


@pytest.mark.slow
@pytest.mark.parametrize("readers", [1, 4])
def test_every_query_sees_one_whole_write_and_never_an_older_one(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], readers: int
):
    base = pa.Table.from_pylist([{"id": key, "n": 0} for key in range(KEYS)], schema=SCHEMA)
    table = LsmTable.create(root, "t", base, unpartitioned(("id",), 1), writers, max_memtable_rows=2 * KEYS)
    engine = open_engine(root)
    merging = Merging(table, rounds=60)
    looks = {name: partial(look, engine, name) for name in SHAPES}
    run_race(merging, *(Reader(merging, looks) for _ in range(readers)))
    assert rows_of(engine.execute("SELECT max(n) FROM t").read_all()) == [(60,)]
