"""Statements over tables by time read the regions that their conditions admit, and answer as without it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.memwal.writing import WriteOptions
from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.leaves.resident_tables import RESIDENT_ROWS
from lance_gateway.planner.scans.settings import ALL_SHORTCUTS, DEFAULT_SETTINGS, SessionSettings, Shortcut
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.support.judging.principals import create_principal
from tests.support.judging.results import rows_of

WHOLE = SessionSettings(shortcuts=ALL_SHORTCUTS - {Shortcut.REGION_PRUNING})
MONTHS = 6


def write(engine: QueryEngine, sql: str) -> None:
    prepared = engine.prepare_statement(sql)
    assert not isinstance(prepared, PreparedQuery)
    prepared.execute()


@pytest.fixture(scope="module", params=[RESIDENT_ROWS, 0], ids=["leaves", "resident"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryEngine]:
    """Six months of 2026, three rows each, a row of last year and one without a time; and names by letter."""
    root = tmp_path_factory.mktemp("by-time")
    catalog = Catalog.open(str(root), writing=WriteOptions(hold_ms=0))
    opened = QueryEngine(catalog, partitions=2, resident_rows=request.param)
    columns = "id BIGINT, ts TIMESTAMP(6), n INT"
    write(opened, f"CREATE TABLE events ({columns}) WITH (region_by = 'year(ts), month(ts)')")
    rows = [
        f"({month * 10 + day}, TIMESTAMP '2026-0{month}-{day:02} 10:00:00', {day})"
        for month in range(1, MONTHS + 1)
        for day in (1, 15, 28)
    ]
    write(
        opened, f"INSERT INTO events VALUES {', '.join(rows)}, (1, TIMESTAMP '2025-12-31 23:59:59.999999', 0)"
    )
    write(opened, "CREATE TABLE names (name TEXT PRIMARY KEY, n INT) WITH (region_by = 'truncate(name, 1)')")
    write(opened, "INSERT INTO names VALUES ('anna', 1), ('bert', 15), ('clara', 28), ('dora', NULL)")
    yield opened
    opened.close()


def run(
    engine: QueryEngine,
    sql: str,
    settings: SessionSettings = DEFAULT_SETTINGS,
    access: Access = FULL_ACCESS,
    parameters: Sequence[pa.Scalar] = (),
) -> tuple[list[Any], dict[str, list[int]]]:
    """The rows, sorted, and how many regions each scan of a table read."""
    control = RunControl()
    prepared = engine.prepare(sql, settings, access, bound=[one.type for one in parameters])
    rows = rows_of(prepared.execute(list(parameters), settings, control).read_all())
    read: dict[str, list[int]] = {}
    for one in control.reads:
        read.setdefault(one.table, []).append(one.regions_kept)
    return sorted(rows, key=repr), {name: sorted(counts) for name, counts in read.items()}


MARCH = "date_trunc('month', e.ts) = TIMESTAMP '2026-03-01'"
LATE = "extract(month FROM f.ts) IN (5, 12)"
IDES = "CAST(e.ts AS DATE) = DATE '2026-03-15'"
STATEMENTS = {
    f"SELECT id FROM events e WHERE {MARCH}": {"events": [1]},
    "SELECT id FROM events WHERE CAST(ts AS DATE) = DATE '2026-03-15'": {"events": [1]},
    "SELECT id FROM events WHERE CAST(ts AS DATE) BETWEEN DATE '2026-03-15' AND DATE '2026-04-01'": {
        "events": [2]
    },
    "SELECT id FROM events WHERE extract(month FROM ts) IN (2, 12)": {"events": [2]},
    "SELECT id FROM events WHERE extract(year FROM ts) = 2026 AND extract(month FROM ts) >= 5": {
        "events": [2]
    },
    "SELECT count(*) FROM events WHERE NOT (extract(month FROM ts) < 6 OR n = 1)": {"events": [2]},
    "SELECT id FROM events WHERE ts < TIMESTAMP '2026-02-01' OR extract(month FROM ts) = 6": {"events": [3]},
    "SELECT name FROM names WHERE name LIKE 'b%'": {"names": [1]},
    "SELECT name FROM names WHERE left(name, 1) IN ('a', 'c')": {"names": [2]},
    "SELECT name FROM names WHERE name LIKE 'b%' OR name = 'dora'": {"names": [2]},
    # A condition of an outer join's own keeps the rows of the preserved side.
    f"SELECT e.id, m.name FROM events e LEFT JOIN names m ON e.n = m.n AND {MARCH}": {
        "events": [7],
        "names": [4],
    },
    f"SELECT m.name, e.id FROM names m LEFT JOIN events e ON e.n = m.n AND {MARCH}": {
        "events": [1],
        "names": [4],
    },
    f"SELECT m.name, e.id FROM names m LEFT JOIN events e ON e.n = m.n WHERE {IDES}": {
        "events": [1],
        "names": [4],
    },
    f"SELECT m.name, e.id FROM names m FULL JOIN events e ON e.n = m.n AND {MARCH}": {
        "events": [7],
        "names": [4],
    },
    f"SELECT e.id, m.name FROM events e RIGHT JOIN names m ON e.n = m.n AND m.name LIKE 'b%' AND {MARCH}": {
        "events": [1],
        "names": [4],
    },
    # Each reference has its own.
    f"SELECT e.id, f.id FROM events e JOIN events f ON e.n = f.n WHERE {MARCH} AND {LATE}": {
        "events": [1, 2]
    },
    f"SELECT id FROM events e WHERE {MARCH} UNION ALL SELECT f.id FROM events f WHERE {LATE}": {
        "events": [1, 2]
    },
    # One reference that stands in two places has what either needs.
    f"WITH e AS (SELECT * FROM events) SELECT e.id FROM e JOIN e f ON e.n = f.n WHERE {MARCH} AND {LATE}": {
        "events": [3, 3]
    },
    f"SELECT name FROM names WHERE n IN (SELECT n FROM events e WHERE {MARCH})": {
        "events": [1],
        "names": [4],
    },
    f"SELECT name FROM names m WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.n = m.n AND {MARCH})": {
        "events": [1],
        "names": [4],
    },
    # The rows of a LIMIT are found before the condition.
    f"SELECT id FROM (SELECT * FROM events ORDER BY id LIMIT 4) e WHERE {MARCH}": {"events": [7]},
    f"SELECT name FROM names WHERE n > (SELECT min(n) FROM events e WHERE {MARCH})": {
        "events": [1],
        "names": [4],
    },
}


@pytest.mark.parametrize("sql", STATEMENTS)
def test_regions_are_excluded_and_answers_stay(engine: QueryEngine, sql: str):
    expected, whole = run(engine, sql, WHOLE)
    for _ in range(3):  # what is kept of the first run serves the others
        rows, read = run(engine, sql)
        assert rows == expected
        assert set(read) == set(whole)
        is_resident = any(
            read[name] != counts and len(read[name]) < len(counts) for name, counts in STATEMENTS[sql].items()
        )
        assert is_resident or read == STATEMENTS[sql]


def test_parameters_decide_in_each_run(engine: QueryEngine):
    query = engine.prepare("SELECT id FROM events WHERE extract(month FROM ts) = ?", bound=[pa.int64()])
    for month in (1, 6, 12, 7):
        control = RunControl()
        rows = query.execute([pa.scalar(month)], control=control).read_all()
        assert rows.num_rows == {12: 1, 7: 0}.get(month, 3)
        assert [one.regions_kept for one in control.reads] == [0 if month == 7 else 1]


def test_the_time_of_the_run_counts(engine: QueryEngine):
    sql = (
        "SELECT id FROM events WHERE CAST(ts AS DATE) > CAST(now() - INTERVAL '100 years' AS DATE) AND n < 99"
    )
    assert run(engine, sql)[0] == run(engine, sql, WHOLE)[0]
    rows, read = run(
        engine, "SELECT id FROM events WHERE CAST(ts AS DATE) > CAST(now() + INTERVAL '9 years' AS DATE)"
    )
    assert (rows, read) == ([], {"events": [0]})


def test_new_regions_are_decided_anew(engine: QueryEngine):
    sql = "SELECT id FROM events WHERE extract(month FROM ts) = 9"
    assert run(engine, sql) == ([], {"events": [0]})
    write(engine, "INSERT INTO events VALUES (90, TIMESTAMP '2026-09-01 00:00:00', 9)")
    assert run(engine, sql) == ([(90,)], {"events": [1]})


def test_a_policy_leaves_regions_as_they_are(engine: QueryEngine):
    """What is behind a mask must not show in what is read."""
    somebody = create_principal(events=TableAccess(masks={"n": "n + 1"}))
    sql = f"SELECT id FROM events e WHERE {MARCH}"
    rows, read = run(engine, sql, access=somebody)
    assert rows == run(engine, sql, WHOLE)[0]
    assert read["events"][0] >= MONTHS + 1


def test_explain_says_which_predicate_excludes_a_region(engine: QueryEngine):
    rewritten = explain(engine, f"SELECT id FROM events e WHERE {MARCH} AND n > 1")
    assert re.search(
        r"pruned 1 by year\(ts\) = 202\d, month\(ts\) = \d+ excludes .*make_date.* = .*2026-03-01.* \[",
        rewritten,
    )
    pushed = explain(engine, "SELECT id FROM events -- all\n  WHERE n > 0 AND ts < TIMESTAMP '2026-01-01'")
    assert "excludes \"ts\" < CAST('2026-01-01' AS TIMESTAMP) (line 2, column 19) [" in pushed


def test_explain_names_the_place_of_a_view(engine: QueryEngine):
    write(engine, "CREATE OR REPLACE VIEW late AS SELECT * FROM names WHERE name > 'c'")
    plan = explain(engine, "SELECT n\nFROM late WHERE n = $1 AND name < 'd'")
    assert "excludes \"name\" > 'c' (line 2, column 6) [" in plan
    assert "excludes \"name\" < 'd' (line 2, column 28) [" in plan


def explain(engine: QueryEngine, sql: str) -> str:
    parameters = [pa.scalar(1)] * sql.count("$")
    return str(engine.execute(f"EXPLAIN {sql}", parameters=parameters).read_all()["plan"].to_pylist()[-1])
