"""Conditions that DataFusion pushes and that can't be applied there, or not together."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, DEFAULT_SETTINGS, SessionSettings, Shortcut
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of

UNPUSHABLE = [
    ("numbers = make_array(1, 2)", [1]),
    ("numbers <> make_array(1, 2) AND id > 1", [2]),
    ("pair = named_struct('a', 1, 'b', 'x')", [1]),
    ("9 BETWEEN NULL AND id", []),
    ("(9 BETWEEN NULL AND id) OR id > 2", [3]),
]


@pytest.fixture
def engine(tmp_path: Path) -> QueryEngine:
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "numbers": [[1, 2], [3], None],
            "pair": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, None],
            "s": ["BooleanScalar", "bit_wise_", "a condition that Arrow can't evaluate"],
        }
    )
    lance.write_dataset(rows, tmp_path / "t.lance")
    return QueryEngine(Catalog.open(str(tmp_path)), partitions=2)


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[QueryEngine]:
    left = {"id": [1, 2, 3], "s": ["a", "b", None], "numbers": [[1, 2], [1, 2], None]}
    right = {"id": [1, 2, 3], "s": ["b", "c", None], "k": [5, 1, 7]}
    lance.write_dataset(pa.table(left), tmp_path / "t.lance")
    lance.write_dataset(pa.table(right), tmp_path / "u.lance")
    engine = QueryEngine(Catalog.open(str(tmp_path)), partitions=2)
    yield engine
    engine.close()


@pytest.mark.parametrize(("condition", "ids"), UNPUSHABLE)
def test_conditions_that_arrow_has_no_kernels_for_are_applied_by_datafusion(
    engine: QueryEngine, condition: str, ids: list[int]
) -> None:
    plan = engine.prepare(f"SELECT id FROM t WHERE {condition}")
    assert sorted(plan.execute().read_all()["id"].to_pylist()) == ids
    counted = engine.execute(f"SELECT count(*) AS n FROM t WHERE {condition}").read_all()
    assert counted["n"].to_pylist() == [len(ids)]
    if "numbers" in condition:
        assert plan.parts(2) is None


@pytest.mark.parametrize("verb", ["EXPLAIN", "EXPLAIN ANALYZE"])
@pytest.mark.parametrize(("condition", "_ids"), UNPUSHABLE)
def test_they_can_be_explained(engine: QueryEngine, verb: str, condition: str, _ids: list[int]) -> None:
    plans = engine.execute(f"{verb} SELECT id FROM t WHERE {condition}").read_all()
    told = "\n".join(plans["plan"].to_pylist())
    assert "DatasetExec" in told
    assert "error" not in told.lower()


@pytest.mark.parametrize("word", ["BooleanScalar", "bit_wise_", "a condition that Arrow can't evaluate"])
def test_errors_are_told_whatever_words_they_quote(engine: QueryEngine, word: str) -> None:
    text = word.replace("'", "''")
    plan = engine.prepare(f"SELECT id FROM t WHERE CAST(s AS INT) = 1 AND s = '{text}'")
    with pytest.raises(InvalidInputError, match="Cannot cast"):
        plan.execute().read_all()


def test_which_regions_an_unpushable_condition_admits_is_not_known(engine: QueryEngine) -> None:
    plan = engine.prepare("SELECT id FROM t WHERE numbers = make_array(1, 2)")
    assert plan.find_matching_regions("t", (), DEFAULT_SETTINGS, RunControl()) == frozenset()


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("extract(YEAR FROM d) > -1", [1, 2]),
        ("extract(YEAR FROM d) < 20000", [1, 2]),
        ("d < arrow_cast(100000000, 'Date32')", [1, 2]),
        ("d = arrow_cast(-100000000, 'Date32')", []),
        ("at > arrow_cast(-9000000000000000000, 'Timestamp(Microsecond, None)')", [1, 2]),
    ],
)
def test_constants_that_python_has_no_dates_for_are_compared(
    tmp_path: Path, condition: str, ids: list[int]
) -> None:
    day = dt.datetime(2024, 2, 29)
    rows = {"id": [1, 2, 3], "d": pa.array([day.date(), day.date(), None]), "at": [day, day, None]}
    lance.write_dataset(pa.table(rows), tmp_path / "t.lance")
    engine = QueryEngine(Catalog.open(str(tmp_path)))
    found = engine.execute(f"SELECT id FROM t WHERE {condition}").read_all()
    assert sorted(found["id"].to_pylist()) == ids
    engine.close()


NAMESAKES = "SELECT b.id FROM t a JOIN u b ON b.k < 9 WHERE (a.s IS NOT DISTINCT FROM b.s)"
NONE_BESIDE_FULL = """
    SELECT c.id FROM t a JOIN u b ON FALSE
    FULL JOIN (SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.k >= 9)) c ON TRUE
    WHERE b.k IS NOT NULL
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (NAMESAKES, [(1,), (3,)]),
        (NAMESAKES.replace("JOIN u b ON", "CROSS JOIN u b WHERE").replace("WHERE (", "AND ("), [(1,), (3,)]),
        (NONE_BESIDE_FULL, []),
        ("SELECT '' FROM (SELECT DISTINCT s FROM t WHERE id > 1 UNION ALL SELECT s FROM u)", [("",)] * 5),
        ("SELECT count(*) FROM t a LEFT JOIN u b ON a.s = b.s WHERE b.k IS NULL AND a.id < 3", [(1,)]),
        ("SELECT min(id) FROM t HAVING count(*) > 0 ORDER BY 1 LIMIT 0", []),
        ("SELECT id FROM t WHERE id > 1 ORDER BY id DESC LIMIT 1", [(3,)]),
        ("SELECT count(*) FROM (SELECT id FROM t OFFSET 1)", [(2,)]),
        ("SELECT count(*) FROM (SELECT id FROM t LIMIT 2 OFFSET 2)", [(1,)]),
        ("SELECT DISTINCT table_name FROM system.tables WHERE table_name > 't'", [("u",)]),
    ],
)
@pytest.mark.parametrize("off", [(), (Shortcut.PUSHDOWN,), tuple(Shortcut)], ids=["none", "pushdown", "all"])
def test_conditions_are_kept_without_pushdown(
    joined: QueryEngine, sql: str, rows: list[tuple[object, ...]], off: tuple[Shortcut, ...]
) -> None:
    settings = SessionSettings(shortcuts=ALL_SHORTCUTS.difference(off))
    assert sorted(rows_of(joined.execute(sql, settings).read_all())) == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("a.numbers = make_array(1, 2)", [(1,)]), ("((9 BETWEEN NULL AND a.id) OR a.id > 2)", [(3,)])],
)
def test_conditions_above_joins_are_kept_beside_unpushable_ones(
    joined: QueryEngine, condition: str, rows: list[tuple[object, ...]]
) -> None:
    assert sorted(rows_of(joined.execute(f"{NAMESAKES} AND {condition}").read_all())) == rows
