"""Subqueries over views with aggregates, beside conditions on parameters alone; DuckDB is the judge.

With NULL for a parameter, a condition on it leaves no subquery in the plan, and with a value it does.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_gateway.planner.plans.prepared_query import PreparedQuery
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

T = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["x", "y", None]})
VIEWS = (
    "CREATE VIEW grouped AS SELECT s AS o, count(*) AS c FROM t GROUP BY s",
    "CREATE VIEW constant AS SELECT min('?') AS o, id AS c FROM t GROUP BY id",
)
DAY = "2020-01-01"
STATEMENTS: list[tuple[str, list[Any]]] = [
    (
        "SELECT a.s IN (SELECT min('x') FROM {} q WHERE q.o <> b.s) FROM t a, t b WHERE year($1::DATE) > 0",
        [DAY],
    ),
    ("SELECT a.id, (SELECT max('x') FROM {} q WHERE q.o <> a.s) FROM t a WHERE CAST($1 AS INT) = 1", [1]),
    ("SELECT a.id, (SELECT count(5) FROM {} q WHERE q.o <> a.s) FROM t a WHERE CAST($1 AS INT) = 1", [1]),
    ("SELECT a.id, a.id IN (SELECT sum(5) FROM {} q WHERE q.o <> a.s) FROM t a WHERE a.id > $1", [1]),
    ("SELECT a.id FROM t a WHERE 'y' = (SELECT max(q.o) FROM {} q WHERE q.o <> a.s AND 1 = $1)", [1]),
    ("SELECT a.id, EXISTS (SELECT 1 FROM {} q WHERE q.o <> a.s AND q.c >= $1) FROM t a", [1]),
    ("SELECT a.id, (SELECT max($1) FROM {} q WHERE q.o <> a.s) FROM t a WHERE $2 = 1", ["z", 1]),
    ("SELECT a.id, (SELECT count(*) FROM {} q WHERE q.o <> a.s AND q.c > 0) FROM t a WHERE $1 = 1", [2]),
]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    root: Path = tmp_path_factory.mktemp("root")
    with open_judged(root, {"t": T}) as both:
        for view in VIEWS:
            prepared = both.engine.prepare_statement(view, DEFAULT_SETTINGS)
            assert not isinstance(prepared, PreparedQuery)
            prepared.execute([])
            both.judge.execute(view)
        yield both


@pytest.mark.parametrize("view", ["grouped", "constant"])
@pytest.mark.parametrize(("statement", "values"), STATEMENTS)
def test_answers_are_those_of_duckdb(judged: Judged, statement: str, values: list[Any], view: str) -> None:
    sql = statement.format(view)
    answer = judged.engine.execute(sql, parameters=[pa.scalar(one) for one in values])
    expected = judged.judge.execute(sql, values).fetchall()
    assert sorted(rows_of(answer.read_all()), key=repr) == sorted(expected, key=repr)
