"""Statements with parameters over tables in memory are planned once for each execution."""

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.dataframes import Frames
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, SessionSettings, Shortcut
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.results import rows_of
from tests.support.processes.gateways import EAGER

LEAVES = SessionSettings(shortcuts=ALL_SHORTCUTS - {Shortcut.RESIDENT_TABLES})
ROWS = 3000
KINDS = {int: pa.int64(), str: pa.string(), bool: pa.bool_()}
Values = tuple[object, ...]


def write(engine: QueryEngine, sql: str) -> None:
    prepared = engine.prepare_statement(sql)
    assert not isinstance(prepared, PreparedQuery)
    prepared.execute()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[QueryEngine]:
    """One table with stale, fresh and deleted rows, in regions of `place`, and one that is all base."""
    numbers = np.arange(ROWS)
    key = {"lance-schema:unenforced-primary-key": "true"}
    fields = [
        pa.field("id", pa.int64(), nullable=False, metadata=key),
        pa.field("place", pa.string()),
        pa.field("k", pa.int64()),
        pa.field("s", pa.string()),
    ]
    places, texts = [f"p{one % 3}" for one in numbers], [f"s{one % 7}" for one in numbers]
    rows = pa.table([numbers, places, numbers % 50, texts], schema=pa.schema(fields))
    lance.write_dataset(rows, tmp_path / "t.lance")
    lance.write_dataset(pa.table({"k": np.arange(60), "n": np.arange(60) % 4}), tmp_path / "u.lance")
    opened = QueryEngine(Catalog.open(str(tmp_path), writing=EAGER), partitions=2, resident_rows=0)
    write(opened, "ALTER TABLE t SET (memwal = true, region_by = 'identity(place)', keys_never_move = true)")
    write(opened, "UPDATE t SET s = 'new', k = k + 1 WHERE id % 10 = 3")
    opened.catalog.table("t").writer().flush()
    write(opened, "DELETE FROM t WHERE id % 100 = 7")
    yield opened
    opened.close()


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The statements that are planned."""
    found: list[object] = []
    plan = Frames.plan

    def note(frames: Frames, bound: object, *arguments: object, **options: object) -> object:
        found.append(bound)
        return plan(frames, bound, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Frames, "plan", note)
    return found


def to_scalars(values: Values, kinds: tuple[type, ...]) -> list[pa.Scalar]:
    return [pa.scalar(value, KINDS[kind]) for value, kind in zip(values, kinds, strict=True)]


def run(
    engine: QueryEngine,
    sql: str,
    kinds: tuple[type, ...],
    values: Values,
    settings: SessionSettings | None = None,
    control: RunControl | None = None,
) -> list[tuple[object, ...]]:
    bound = to_scalars(values, kinds)
    prepared = engine.prepare(sql, settings or SessionSettings(), bound=[value.type for value in bound])
    return rows_of(prepared.execute(bound, control=control).read_all())


GROUPS = "SELECT s, count(*) AS n, sum(k) AS k FROM t WHERE k > $1 AND s <> $2 GROUP BY s ORDER BY s"
ONCE = {
    "groups": (GROUPS, (int, str), [(7, "s1"), (7, "new"), (48, "s3"), (None, "s1"), (99, "s1"), (3, None)]),
    "an optional condition": (
        "SELECT s, sum(k) AS k FROM t WHERE $1 OR k = $2 GROUP BY s ORDER BY s",
        (bool, int),
        [(True, 5), (False, 5), (None, 6), (False, None), (True, 7)],
    ),
    "a value in the result": (
        "SELECT s || $1 AS s, max(k) + $2 AS k FROM t GROUP BY s || $1 ORDER BY 1",
        (str, int),
        [("a", 1), ("b", 2), ("c", 7)],
    ),
}


@pytest.mark.parametrize(("sql", "kinds", "runs"), ONCE.values(), ids=ONCE)
def test_each_value_is_planned_once(
    engine: QueryEngine, plans: list[object], sql: str, kinds: tuple[type, ...], runs: list[Values]
) -> None:
    expected = [run(engine, sql, kinds, values, LEAVES) for values in runs]
    assert len({tuple(rows) for rows in expected}) > 1
    for _ in range(3):
        run(engine, sql, kinds, runs[0])
    for values, rows in zip(runs, expected, strict=True):
        plans.clear()
        assert run(engine, sql, kinds, values) == rows
        assert len(plans) == 1, values


def test_columns_that_only_other_values_need_are_read(engine: QueryEngine, plans: list[object]) -> None:
    sql = "SELECT count(*) AS n FROM t WHERE id >= 0 AND ($1 OR k = $2)"
    for _ in range(3):
        assert run(engine, sql, (bool, int), (True, 5)) == [(ROWS - ROWS // 100,)]
    expected = run(engine, sql, (bool, int), (False, 5), LEAVES)
    assert 0 < expected[0][0] < ROWS  # type: ignore[operator]
    for _ in range(3):
        assert run(engine, sql, (bool, int), (False, 5)) == expected
    plans.clear()
    assert run(engine, sql, (bool, int), (False, 3)) != expected
    assert len(plans) == 1


TWICE = {
    "two queries": (
        (
            "SELECT s AS x, count(*) AS n FROM t WHERE k < $1 GROUP BY s "
            "UNION ALL SELECT CAST(n AS TEXT), count(*) FROM u WHERE k < $1 GROUP BY n ORDER BY x"
        ),
        (int,),
        [(9,), (0,), (30,), (None,), (60,)],
    ),
    "keys of a join select rows": (
        "SELECT count(*) AS n FROM t JOIN u ON t.k = u.k WHERE u.n = $1",
        (int,),
        [(1,), (2,), (None,), (9,)],
    ),
    "a subquery that other values remove": (
        "SELECT count(*) FILTER (WHERE $1 AND k IN (SELECT n FROM u)) AS n, count(*) AS m FROM t WHERE k > 1",
        (bool,),
        [(False,), (True,), (None,), (True,)],
    ),
}


@pytest.mark.parametrize(("sql", "kinds", "runs"), TWICE.values(), ids=TWICE)
def test_values_that_decide_what_is_read_are_minded(
    engine: QueryEngine, sql: str, kinds: tuple[type, ...], runs: list[Values]
) -> None:
    for _ in range(3):
        run(engine, sql, kinds, runs[0])
    for values in runs:
        assert run(engine, sql, kinds, values) == run(engine, sql, kinds, values, LEAVES)


def test_regions_are_still_excluded(engine: QueryEngine) -> None:
    sql = "SELECT count(*) AS n, max(k) AS k FROM t WHERE place = $1"
    for place in ("p0", "p0", "p0", "p1", "p2", None, "p9"):
        control = RunControl()
        found = run(engine, sql, (str,), (place,), control=control)
        assert found == run(engine, sql, (str,), (place,), LEAVES)
        assert all(read.regions_kept <= 1 for read in control.reads)


def test_a_condition_that_counts_for_other_values_excludes_regions(engine: QueryEngine) -> None:
    sql = "SELECT place, count(*) AS n FROM t WHERE $1 OR place = $2 GROUP BY place ORDER BY place"
    kinds = (bool, str)
    for _ in range(3):
        assert len(run(engine, sql, kinds, (True, "p1"))) == 3
    for values, regions in (((False, "p1"), {1}), ((False, "p2"), {1}), ((True, "p1"), {3})):
        control = RunControl()
        assert run(engine, sql, kinds, values, control=control) == run(engine, sql, kinds, values, LEAVES)
        assert {read.regions_kept for read in control.reads} == regions


def test_rows_and_columns_that_are_written_in_between_are_seen(
    engine: QueryEngine, plans: list[object]
) -> None:
    kinds = (int, str)
    bound = to_scalars((7, "s1"), kinds)
    prepared = engine.prepare(GROUPS, bound=[value.type for value in bound])
    for number in range(3):
        for threshold in (7, 48, 20):
            values = to_scalars((threshold, "s1"), kinds)
            assert rows_of(prepared.execute(values).read_all()) == run(
                engine, GROUPS, kinds, (threshold, "s1"), LEAVES
            )
        write(engine, f"INSERT INTO t (id, place, k, s) VALUES ({9000 + number}, 'p1', 49, 'late')")
        if number == 1:
            write(engine, "ALTER TABLE t ADD COLUMN extra BIGINT")
    plans.clear()
    prepared.execute(to_scalars((8, "s2"), kinds)).read_all()
    assert len(plans) == 1
