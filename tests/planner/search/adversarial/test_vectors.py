"""Nearest neighbours where stale rows, deleted rows and missing indexes do their worst."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from tests.planner.search.sources.replayed import DIMENSION, ReplayedTable, asking, axis
from tests.support.lake.tables import Row
from tests.support.processes.writer_process import WriterProcess

ORIGIN = [0.0] * DIMENSION
EXHAUSTIVE = "nprobes => 1000, refine_factor => 1000, ef => 1000"

Open = Callable[[Path], QueryEngine]
INDEXES = {
    "none": None,
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4, "num_bits": 4},
    "IVF_HNSW_SQ": {"num_partitions": 1},
}
SLOW_INDEXES = ("IVF_FLAT", "IVF_HNSW_SQ")


def spread(ids: range, length: float = 1.0) -> list[Row]:
    """Rows whose vectors grow with their id, so that no two are equally far from the origin."""
    return [{"id": number, "vec": axis(number, length + number / 128)} for number in ids]


def scattered(ids: range, seed: int = 1) -> list[Row]:
    """Rows whose vectors lie anywhere."""
    drawn = np.random.default_rng(seed).normal(size=(len(ids), DIMENSION)).astype("f4").tolist()
    return [{"id": number, "vec": vector} for number, vector in zip(ids, drawn, strict=True)]


@pytest.fixture(
    params=["none", "IVF_PQ", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW_INDEXES)]
)
def indexed(request: pytest.FixtureRequest) -> Callable[[ReplayedTable], None]:
    """Builds the index of a kind, or none."""
    options = INDEXES[request.param]
    return lambda table: None if options is None else table.index_vectors(request.param, **options)


def test_all_true_neighbours_are_superseded(
    root: Path, writers: WriterProcess, open_engine: Open, indexed: Callable[[ReplayedTable], None]
):
    table = ReplayedTable(root, writers, spread(range(200)))
    indexed(table)
    ask = asking(open_engine(root))
    nearest = table.check_nearest(ask, ORIGIN, 10, options=EXHAUSTIVE)
    table.put(*({"id": key[0], "vec": axis(key[0], 100.0 + key[0])} for key in nearest))
    in_the_log = table.check_nearest(ask, ORIGIN, 10, options=EXHAUSTIVE)
    table.flush()
    in_a_generation = table.check_nearest(ask, ORIGIN, 10, options=EXHAUSTIVE)
    assert in_the_log == in_a_generation == [(number,) for number in range(10, 20)]


@pytest.mark.slow
def test_a_hundred_stale_versions_are_nearer_than_any_live_row(
    root: Path, writers: WriterProcess, open_engine: Open, indexed: Callable[[ReplayedTable], None]
):
    """Whatever an over-fetch of 10 or 50 finds is stale."""
    table = ReplayedTable(root, writers, [*spread(range(100)), *spread(range(100, 160), length=50)])
    indexed(table)
    ask = asking(open_engine(root))
    table.put(*({"id": number, "vec": axis(number, 200.0 + number)} for number in range(100)))
    table.flush()
    assert len(table.check_nearest(ask, ORIGIN, 10, options=EXHAUSTIVE)) == 10
    table.delete(*({"id": number} for number in range(100)))
    assert table.check_nearest(ask, ORIGIN, 100) == [(number,) for number in range(100, 160)]
    table.flush()
    assert len(table.check_nearest(ask, ORIGIN, 100)) == 60


@pytest.mark.slow
def test_stale_versions_lie_in_every_generation(root: Path, writers: WriterProcess, open_engine: Open):
    """The version of every generation is nearer than all newer ones."""
    table = ReplayedTable(root, writers, spread(range(40)))
    ask = asking(open_engine(root))
    for number in range(1, 5):
        table.put(*({"id": key, "vec": axis(key, 10.0 * number + key / 8)} for key in range(30)))
        table.flush()
        table.check_nearest(ask, ORIGIN, 10)
        table.check_nearest(ask, ORIGIN, 25, options="use_index => false")
    table.put(*({"id": key, "vec": axis(key, 90.0 + key / 8)} for key in range(20)))
    assert table.check_nearest(ask, ORIGIN, 10) == [(number,) for number in range(30, 40)]
    table.check_nearest(ask, ORIGIN, 1000)


def test_more_is_asked_for_than_lives(
    root: Path, writers: WriterProcess, open_engine: Open, indexed: Callable[[ReplayedTable], None]
):
    table = ReplayedTable(root, writers, spread(range(100)))
    indexed(table)
    ask = asking(open_engine(root))
    table.delete(*({"id": number} for number in range(30)))
    table.flush()
    table.put({"id": 500, "vec": None}, {"id": 31, "vec": None}, {"id": 501, "vec": axis(1, 9.0)})
    assert len(table.check_nearest(ask, ORIGIN, 1_000_000)) == 70
    assert len(table.check_nearest(ask, ORIGIN, 70)) == 70
    assert len(table.check_nearest(ask, ORIGIN, 69)) == 69


def test_every_row_is_superseded_then_every_row_is_deleted(
    root: Path, writers: WriterProcess, open_engine: Open, indexed: Callable[[ReplayedTable], None]
):
    table = ReplayedTable(root, writers, spread(range(64)))
    indexed(table)
    ask = asking(open_engine(root))
    table.put(*scattered(range(64)))
    table.check_nearest(ask, ORIGIN, 64)
    table.flush()
    table.check_nearest(ask, ORIGIN, 64, options=EXHAUSTIVE)
    table.delete(*({"id": number} for number in range(64)))
    assert table.check_nearest(ask, ORIGIN, 10) == []
    table.flush()
    assert table.check_nearest(ask, ORIGIN, 10) == []
    table.merge()
    assert table.check_nearest(ask, ORIGIN, 10) == []


def test_the_base_is_empty_and_everything_is_in_the_log(
    root: Path, writers: WriterProcess, open_engine: Open
):
    table = ReplayedTable(root, writers)
    ask = asking(open_engine(root))
    assert table.check_nearest(ask, ORIGIN, 10) == []
    table.put(*scattered(range(20)))
    for metric in ("l2", "cosine", "dot"):
        assert len(table.check_nearest(ask, axis(2), 5, metric=metric)) == 5
    table.flush()
    assert len(table.check_nearest(ask, axis(2), 30)) == 20


def test_a_row_comes_back_with_another_vector(
    root: Path, writers: WriterProcess, open_engine: Open, indexed: Callable[[ReplayedTable], None]
):
    table = ReplayedTable(root, writers, spread(range(64), length=10))
    indexed(table)
    ask = asking(open_engine(root))
    for flush in (False, True):
        table.delete({"id": 5})
        if flush:
            table.flush()
        assert (5,) not in table.check_nearest(ask, axis(5, 10), 10, options=EXHAUSTIVE)
        table.put({"id": 5, "vec": axis(7, 0.5)})
        if flush:
            table.flush()
        assert table.check_nearest(ask, ORIGIN, 1, options=EXHAUSTIVE) == [(5,)]
        table.put({"id": 5, "vec": axis(5, 10 + 5 / 128)})


@pytest.mark.parametrize(
    "when", ["between", *(pytest.param(one, marks=pytest.mark.slow) for one in ("before", "after"))]
)
@pytest.mark.parametrize("kind", ["IVF_PQ", pytest.param("IVF_FLAT", marks=pytest.mark.slow)])
@pytest.mark.soak
def test_the_index_is_built_around_merges(
    root: Path, writers: WriterProcess, open_engine: Open, when: str, kind: str
):
    table = ReplayedTable(root, writers, scattered(range(100)))
    ask = asking(open_engine(root))

    def build() -> None:
        table.index_vectors(kind, **INDEXES[kind])

    def check() -> None:
        for query in (ORIGIN, axis(3), axis(4, -1)):
            table.check_nearest(ask, query, 15, options=EXHAUSTIVE)
            table.check_nearest(ask, query, 15, options="use_index => false")

    if when == "before":
        build()
    table.put(*scattered(range(50, 150), seed=2))
    table.flush()
    check()
    table.merge()
    check()
    if when == "between":
        build()
    table.put(*scattered(range(120, 170), seed=3))
    table.delete(*({"id": number} for number in range(40, 60)))
    table.flush()
    check()
    table.merge()
    check()
    if when == "after":
        build()
    check()
    table.clean_up()
    check()
    table.catch_up()
    check()
    table.table.dataset().optimize.compact_files()
    check()
    table.put(*scattered(range(10), seed=4))
    check()


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("element", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_distances_of_all_sources_compare(
    root: Path, writers: WriterProcess, open_engine: Open, metric: str, element: pa.DataType
):
    """A query that is itself in the base, a generation and the log; an index on the base only."""
    halves = np.random.default_rng(5).integers(-8, 9, (90, DIMENSION)) / 2
    rows = [{"id": number, "vec": vector} for number, vector in enumerate(halves.tolist())]
    table = ReplayedTable(root, writers, rows[:50], element=element)
    table.index_vectors("IVF_PQ", metric, num_sub_vectors=4, num_bits=4)
    table.put(*rows[50:70])
    table.flush()
    table.put(*rows[70:])
    ask = asking(open_engine(root))
    for number in (3, 55, 75):
        table.check_nearest(ask, rows[number]["vec"], 20, metric=metric, options=EXHAUSTIVE)
        table.check_nearest(ask, rows[number]["vec"], 20, metric=metric, options="use_index => false")


def test_bits_are_compared_wherever_they_lie(root: Path, writers: WriterProcess, open_engine: Open):
    bits = np.random.default_rng(6).integers(0, 256, (60, DIMENSION)).tolist()
    rows = [{"id": number, "vec": vector} for number, vector in enumerate(bits)]
    table = ReplayedTable(root, writers, rows[:30], element=pa.uint8())
    table.put(*rows[30:50])
    table.flush()
    table.put(*rows[50:], {"id": 3, "vec": bits[40]})
    ask = asking(open_engine(root))
    for number in (3, 35, 55):
        table.check_nearest(ask, bits[number], 10, metric="hamming")
    table.delete({"id": 40})
    assert table.check_nearest(ask, bits[40], 1, metric="hamming") == [(3,)]


@pytest.mark.slow
def test_conditions_leave_fewer_rows_than_were_nearest(
    root: Path, writers: WriterProcess, open_engine: Open, indexed: Callable[[ReplayedTable], None]
):
    """The nearest rows do not satisfy the condition, their older versions did."""
    rows = [row | {"n": 1} for row in spread(range(100))]
    table = ReplayedTable(root, writers, rows)
    indexed(table)
    table.put(*(row | {"n": 2} for row in rows[:80]))
    ask = asking(open_engine(root))
    for _ in range(2):
        ones = table.check_nearest(ask, ORIGIN, 10, where="n = 1", keeps=lambda row: row["n"] == 1)
        assert ones == [(number,) for number in range(80, 90)]
        table.check_nearest(ask, ORIGIN, 10, where="n + 1 = 2", keeps=lambda row: row["n"] == 1)
        twos = ask(table.nearest(ORIGIN, 10, where="n = 1", options="prefilter => false"))
        assert twos.num_rows == 0
        table.flush()
