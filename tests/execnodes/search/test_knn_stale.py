"""Stale rows are kept out by masks, or by key filters and lookups; or, if so wished, approximately."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.visibility.visibility import Visibility
from tests.planner.search.sources.replayed import DIMENSION, ReplayedTable, asking, axis
from tests.support.lake.tables import Row, bucketed, key_field
from tests.support.processes.writer_process import WriterProcess

ORIGIN = [0.0] * DIMENSION
Open = Callable[[Path], QueryEngine]

BLOOM = "staleness => 'bloom'"
APPROXIMATE = "staleness => 'approximate'"


def at(ids: Iterable[int], start: float) -> list[Row]:
    """Rows whose distances from the origin grow with their ids."""
    return [{"id": number, "vec": axis(number, start + number / 64)} for number in ids]


@pytest.fixture(params=[None, "IVF_FLAT"], ids=["flat", "indexed"])
def index(request: pytest.FixtureRequest) -> Callable[[ReplayedTable], None]:
    """Builds an index, or none."""
    return lambda table: None if request.param is None else table.index_vectors(request.param)


class TestBloom:
    @pytest.mark.slow
    def test_a_hundred_stale_versions_nearer_than_any_live_row_cost_refills_but_no_result(
        self, root: Path, writers: WriterProcess, open_engine: Open, index: Callable[[ReplayedTable], None]
    ):
        table = ReplayedTable(root, writers, [*at(range(100), 1), *at(range(100, 160), 50)])
        index(table)
        engine = open_engine(root)
        table.put(*at(range(100), 200))
        table.flush()
        table.put(*at(range(100, 103), 0.5))
        found = table.check_nearest(asking(engine), ORIGIN, 10, options=BLOOM)
        assert found == [(number,) for number in range(100, 110)]

    @pytest.mark.slow
    def test_all_true_neighbours_are_superseded(
        self, root: Path, writers: WriterProcess, open_engine: Open, index: Callable[[ReplayedTable], None]
    ):
        table = ReplayedTable(root, writers, at(range(200), 1))
        index(table)
        ask = asking(open_engine(root))
        table.put(*at(range(10), 100))
        assert table.check_nearest(ask, ORIGIN, 10, options=BLOOM) == [(n,) for n in range(10, 20)]
        table.flush()
        assert table.check_nearest(ask, ORIGIN, 10, options=BLOOM) == [(n,) for n in range(10, 20)]

    def test_k_is_larger_than_the_live_rows(
        self, root: Path, writers: WriterProcess, open_engine: Open, index: Callable[[ReplayedTable], None]
    ):
        table = ReplayedTable(root, writers, at(range(40), 1))
        index(table)
        ask = asking(open_engine(root))
        table.delete(*({"id": number} for number in range(30)))
        table.flush()
        table.put(*at(range(5), 3))
        assert len(table.check_nearest(ask, ORIGIN, 100, options=BLOOM)) == 15

    def test_versions_in_generations_and_log_supersede_one_another(
        self, root: Path, writers: WriterProcess, open_engine: Open
    ):
        table = ReplayedTable(root, writers, at(range(20), 1))
        ask = asking(open_engine(root))
        for start in (2, 3, 4):
            table.put(*at(range(20), start))
            table.put(*at(range(5), start + 0.5))
            table.flush()
        table.put(*at(range(10), 5))
        table.put(*at(range(3), 9))
        table.delete({"id": 9}, {"id": 19})
        found = table.check_nearest(ask, ORIGIN, 18, options=BLOOM)
        assert found[:9] == [(number,) for number in range(10, 19)]

    def test_a_row_of_one_region_supersedes_none_of_another(
        self, root: Path, writers: WriterProcess, open_engine: Open
    ):
        key = (key_field("id", pa.int64(), 1), key_field("part", pa.string(), 2))
        rows = [{**row, "part": part} for part in "ab" for row in at(range(10), 1)]
        table = ReplayedTable(root, writers, rows, key=key, layout=bucketed("part", 4, recorded=True))
        ask = asking(open_engine(root))
        table.put(*({**row, "part": "a"} for row in at(range(10), 7)))
        table.flush()
        found = table.check_nearest(ask, ORIGIN, 12, options=BLOOM)
        assert {part for _, part in found[:10]} == {"b"}

    def test_no_mask_is_ever_made(
        self, root: Path, writers: WriterProcess, open_engine: Open, monkeypatch: pytest.MonkeyPatch
    ):
        table = ReplayedTable(root, writers, at(range(40), 1))
        ask = asking(open_engine(root))
        table.put(*at(range(10), 9))
        table.flush()
        monkeypatch.delattr(Visibility, "compute_masks")
        assert table.check_nearest(ask, ORIGIN, 5, options=BLOOM) == [(n,) for n in range(10, 15)]

    def test_conditions_and_several_queries(self, root: Path, writers: WriterProcess, open_engine: Open):
        table = ReplayedTable(root, writers, [{**row, "n": row["id"] % 2} for row in at(range(60), 1)])
        ask = asking(open_engine(root))
        table.put(*({**row, "n": 1} for row in at(range(0, 30, 2), 5)))
        table.flush()
        found = ask(
            f"SELECT query_index, id FROM lance_vector_search('docs', 'vec', {[ORIGIN, axis(1, 1.0)]}, "
            f"k => 4, {BLOOM}) WHERE n = 0"
        ).to_pylist()
        assert [row["id"] for row in found if row["query_index"] == 0] == [30, 32, 34, 36]
        assert len(found) == 8


class TestApproximate:
    def test_never_gives_a_stale_row_but_may_fall_short(
        self, root: Path, writers: WriterProcess, open_engine: Open
    ):
        table = ReplayedTable(root, writers, at(range(60), 1))
        ask = asking(open_engine(root))
        table.put(*at(range(15), 100))
        table.flush()
        found = ask(f"SELECT id FROM lance_vector_search('docs', 'vec', {ORIGIN}, k => 10, {APPROXIMATE})")
        ids = found.column("id").to_pylist()
        # Twice k candidates of the base table: fifteen of them are stale. Other rows are farther away.
        assert ids[:5] == [15, 16, 17, 18, 19]
        assert sorted(ids[5:]) == ids[5:] == list(range(5))


class TestPlans:
    def line(self, engine: QueryEngine, options: str) -> str:
        query = f"SELECT id FROM lance_vector_search('docs', 'vec', {ORIGIN}, k => 3, {options})"
        plan = "\n".join(
            value
            for row in engine.prepare(f"EXPLAIN ANALYZE {query}").execute().read_all().to_pylist()
            for value in row.values()
        )
        (line,) = [line.strip() for line in plan.splitlines() if "FilterStaleExec" in line]
        return line

    def test_say_how_stale_rows_are_kept_out(self, root: Path, writers: WriterProcess, open_engine: Open):
        table = ReplayedTable(root, writers, at(range(40), 1))
        engine = open_engine(root)
        table.put(*at(range(10), 9))
        table.flush()
        assert self.line(engine, "staleness => 'exact'").startswith("FilterStaleExec: exact")
        bloom = self.line(engine, BLOOM)
        assert bloom.startswith("FilterStaleExec: bloom, gen 1: ")
        assert "stale_rows=" in bloom
        assert "refills=" in bloom
        assert self.line(engine, APPROXIMATE).startswith("FilterStaleExec: approximate, gen 1: ")
