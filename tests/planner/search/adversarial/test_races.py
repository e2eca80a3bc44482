"""Searches while another process writes, and generations are merged, indexed and cleaned up beneath them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lance_gateway.planner.engine import QueryEngine
from tests.planner.search.sources.replayed import DIMENSION, Ask, ReplayedTable, asking, axis
from tests.support.judging.results import rows_of
from tests.support.lake.tables import Row
from tests.support.processes.racing import Maintenance, Reader, run_race
from tests.support.processes.writer_process import WriterProcess

KEYS = 24
IDF = math.log(1 + 0.5 / (KEYS + 0.5))
"""Of a word that every live row has."""
ORIGIN = [0.0] * DIMENSION


def version(number: int) -> list[Row]:
    """All rows, equally far from the origin, with equally many words."""
    return [
        {"id": key, "vec": axis(key, number), "txt": f"common r{number} row", "n": number}
        for key in range(KEYS)
    ]


class Upkeep(Maintenance):
    """Writes every row again and again, one atomic write each, and looks after what that leaves behind."""

    def __init__(self, table: ReplayedTable, rounds: int) -> None:
        super().__init__()
        self._table = table
        self._rounds = rounds
        self.acknowledged = 1

    def work(self) -> None:
        for number in range(2, self._rounds + 2):
            self._table.put(*version(number))
            self.acknowledged = number
            if number % 4 == 0:
                self._table.flush()
            if number % 8 == 0:
                self._table.merge()
            if number % 16 == 0:
                self._table.clean_up()
                self._table.catch_up()
            if number % 24 == 0:
                self._table.table.dataset().optimize.compact_files()
                self._table.index_vectors()


@dataclass(frozen=True)
class Searches:
    """By vector, by word and by both; each gives the number of all rows."""

    ask: Ask

    def by_vector(self) -> int:
        columns = "count(*), count(DISTINCT id), min(n), max(n), min(_distance), max(_distance)"
        call = f"lance_vector_search('docs', 'vec', {ORIGIN}, k => 100, catch_up => 'always')"
        ((rows, keys, oldest, newest, nearest, farthest),) = rows_of(
            self.ask(f"SELECT {columns} FROM {call}")
        )
        assert (rows, keys, oldest) == (KEYS, KEYS, newest), "a torn write"
        assert nearest == pytest.approx(newest**2)
        assert farthest == pytest.approx(newest**2)
        return int(newest)

    def by_word(self) -> int:
        columns = "count(*), count(DISTINCT id), min(n), max(n), min(_score), max(_score)"
        call = "lance_fts('docs', 'txt', 'common', k => 100, catch_up => 'always')"
        ((rows, keys, oldest, newest, worst, best),) = rows_of(self.ask(f"SELECT {columns} FROM {call}"))
        assert (rows, keys, oldest) == (KEYS, KEYS, newest), "a torn write"
        assert worst == pytest.approx(IDF, rel=1e-3)
        assert best == pytest.approx(IDF, rel=1e-3)
        return int(newest)

    def by_both(self) -> int:
        """A scan and two searches of one statement see the same rows."""
        vectors = f"lance_vector_search('docs', 'vec', {ORIGIN}, k => 100, catch_up => 'always') v"
        words = "lance_fts('docs', 'txt', 'common row', k => 100, catch_up => 'always') w"
        joined = (
            f"docs d JOIN {vectors} ON d.id = v.id AND d.n = v.n JOIN {words} ON d.id = w.id AND d.n = w.n"
        )
        ((rows, oldest, newest),) = rows_of(self.ask(f"SELECT count(*), min(d.n), max(d.n) FROM {joined}"))
        assert (rows, oldest) == (KEYS, newest), "not one snapshot"
        return int(newest)


@pytest.mark.slow
@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.soak
def test_every_search_sees_one_whole_write_and_never_an_older_one(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine], readers: int
):
    table = ReplayedTable(root, writers, version(1), max_memtable_rows=3 * KEYS)
    table.index_vectors()
    table.index_texts()
    engine = open_engine(root)
    upkeep = Upkeep(table, rounds=40)
    searches = Searches(asking(engine))
    looks = {"by vector": searches.by_vector, "by word": searches.by_word, "by both": searches.by_both}
    run_race(upkeep, *(Reader(upkeep, looks) for _ in range(readers)))


@pytest.mark.slow
def test_generations_are_cleaned_while_a_search_is_under_way(
    root: Path, writers: WriterProcess, open_engine: Callable[[Path], QueryEngine]
):
    """Prepared before, run after: what is gone from disk is in the base table by then."""
    table = ReplayedTable(root, writers, version(1))
    table.index_vectors()
    table.index_texts()
    engine = open_engine(root)
    always = "catch_up => 'always'"
    nearest, matching = (
        table.nearest(ORIGIN, 100, options=always),
        table.matching("common", 100, options=always),
    )
    for number in range(2, 6):
        table.put(*version(number))
        table.flush()
        prepared = [engine.prepare(sql) for sql in (nearest, matching)]
        readers = [query.execute() for query in prepared]
        table.merge()
        table.clean_up()
        for late in (*readers, *(query.execute() for query in prepared)):
            assert late.read_all().num_rows == KEYS
        table.check_nearest(asking(engine), ORIGIN, 100)
        table.check_texts(asking(engine), "common row", 100)
