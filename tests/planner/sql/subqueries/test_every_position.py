"""Subqueries of every kind, in every position, correlated in every way, as DuckDB judges them."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged
from tests.support.sampling import sample

T = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "a": pa.array([1, 1, 2, None, 3, 2, None, 5], pa.int64()),
        "v": pa.array([10, 20, None, 40, 5, 20, 7, 0], pa.int64()),
    }
)
U = pa.table(
    {
        "k": pa.array(range(10, 20), pa.int64()),
        "a": pa.array([1, 1, 2, 2, None, 3, 4, None, 1, 2], pa.int64()),
        "b": pa.array([5, 15, 25, None, 1, 8, 9, 30, 30, 10], pa.int64()),
        "x": pa.array([3, 1, None, 4, 1, 5, 9, 2, 6, 5], pa.int64()),
        "s": ["a", "b", "a", None, "c", "z", "b", "a", "d", "b"],
    }
)
W = pa.table({"a": pa.array([1, 2, None, 7], pa.int64()), "y": pa.array([100, 200, 300, None], pa.int64())})

CONDITIONS = (
    "TRUE",
    "u.a = t.a",
    "u.b < t.v",
    "u.a = t.a AND u.b > t.v",
    "(u.a = t.a OR u.b = t.v)",
    "u.x + t.id > 6",
    "(u.a IS NOT DISTINCT FROM t.a)",
    "u.a = t.a AND u.x > 2",
    "t.v > 10",
)
VALUES = (
    "SELECT count(*) FROM u WHERE {p}",
    "SELECT max(u.x) FROM u WHERE {p}",
    "SELECT sum(u.x) + count(*) FROM u WHERE {p}",
    "SELECT count(DISTINCT u.s) FROM u WHERE {p}",
    "SELECT coalesce(sum(u.x), t.id) FROM u WHERE {p}",
    "SELECT u.x FROM u WHERE {p} ORDER BY u.k DESC LIMIT 1",
    "SELECT u.x FROM u WHERE {p} ORDER BY u.k LIMIT 1 OFFSET 1",
    "SELECT max(u.x) FROM u WHERE {p} HAVING count(*) > 1",
    "SELECT count(*) FROM u WHERE {p} GROUP BY u.a ORDER BY 1 DESC, u.a LIMIT 1",
    "SELECT min(c) FROM (SELECT u.x AS c FROM u WHERE {p} UNION ALL SELECT w.y FROM w WHERE w.a = t.a) q",
    "SELECT count(*) FROM (SELECT DISTINCT u.a FROM u WHERE {p}) q",
    "SELECT count(*) FROM u JOIN w ON u.a = w.a WHERE {p}",
    "SELECT sum(w.y) FROM u LEFT JOIN w ON u.a = w.a AND w.y > t.v WHERE {p}",
    "SELECT count(*) FROM u WHERE {p} AND EXISTS (SELECT 1 FROM w WHERE w.a = u.a)",
    "SELECT count(*) FROM u WHERE {p} AND u.x > (SELECT count(*) FROM w WHERE w.y > u.b AND w.a <> t.id)",
    "SELECT max(u.x + t.id) FROM u WHERE {p}",
    "SELECT u.x FROM u WHERE {p} AND u.k = 12",
    "SELECT count(*) FILTER (WHERE u.x > t.id) FROM u WHERE {p}",
)
PLACES_OF_VALUES = (
    "SELECT id, ({q}) AS c FROM t",
    "SELECT id FROM t WHERE ({q}) IS NOT NULL",
    "SELECT id FROM t WHERE ({q}) > 1 OR id = 2",
    "SELECT id FROM t WHERE v > ({q})",
    "SELECT id FROM t ORDER BY ({q}), id",
    "SELECT sum(({q})) AS c FROM t",
    "SELECT ({q}) AS g, count(*) AS c FROM t GROUP BY 1",
    "SELECT id, coalesce(({q}), -1) + 1 AS c FROM t WHERE id > 1",
    "SELECT id, CASE WHEN id > 3 THEN ({q}) ELSE 0 END AS c FROM t",
    "SELECT t.id, w.y FROM t JOIN w ON t.a = w.a AND w.y > ({q})",
    "SELECT t.id, w.y FROM t LEFT JOIN w ON t.a = w.a AND ({q}) > 1",
    "SELECT t.id, row_number() OVER (ORDER BY ({q}), t.id) AS r FROM t",
)
ROWS = (
    "SELECT u.a FROM u WHERE {p}",
    "SELECT u.x FROM u WHERE {p} AND u.x IS NOT NULL",
    "SELECT u.a FROM u WHERE {p} ORDER BY u.k LIMIT 2",
    "SELECT u.a FROM u WHERE {p} ORDER BY u.k OFFSET 1",
    "SELECT max(u.a) FROM u WHERE {p}",
    "SELECT u.a FROM u WHERE {p} GROUP BY u.a HAVING count(*) > 1",
    "SELECT DISTINCT u.a FROM u WHERE {p}",
    "SELECT u.a FROM u WHERE {p} UNION SELECT w.a FROM w WHERE w.a <> t.id",
    "SELECT u.a FROM u WHERE {p} EXCEPT SELECT w.a FROM w",
    "SELECT u.a FROM u WHERE {p} AND EXISTS (SELECT 1 FROM w WHERE w.a = t.a)",
    "SELECT u.a FROM u JOIN w ON u.a = w.a WHERE {p}",
)
QUESTIONS = (
    "EXISTS ({q})",
    "NOT EXISTS ({q})",
    "t.a IN ({q})",
    "t.a NOT IN ({q})",
    "t.id + 1 IN ({q})",
    "t.a > ALL ({q})",
    "t.a <= ANY ({q})",
    "t.a = ALL ({q})",
    "t.a <> ANY ({q})",
)
PLACES_OF_CONDITIONS = (
    "SELECT id FROM t WHERE {c}",
    "SELECT id, {c} AS c FROM t",
    "SELECT id FROM t WHERE {c} OR id = 1",
    "SELECT id, CASE WHEN {c} THEN 1 ELSE 2 END AS c FROM t",
    "SELECT id FROM t WHERE ({c}) IS NULL",
    "SELECT id FROM t ORDER BY {c}, id",
    "SELECT t.id, w.y FROM t JOIN w ON t.a = w.a AND {c}",
    "SELECT t.id, w.y FROM t LEFT JOIN w ON t.a = w.a AND {c}",
    "SELECT count(*) FILTER (WHERE {c}) AS c FROM t",
    "SELECT {c} AS g, count(*) AS c FROM t GROUP BY 1",
)
RELATIONS = (
    "SELECT u.k AS c FROM u WHERE {p}",
    "SELECT u.k AS c, u.x FROM u WHERE {p} ORDER BY u.k LIMIT 2",
    "SELECT count(*) AS c, max(u.x) AS m FROM u WHERE {p}",
    "SELECT u.a AS c, count(*) AS n FROM u WHERE {p} GROUP BY u.a",
    "SELECT t.id + u.x AS c FROM u WHERE {p}",
    "SELECT t.v AS c",
    "SELECT u.x AS c FROM u WHERE {p} UNION ALL SELECT t.v",
    "SELECT u.k AS c, row_number() OVER (ORDER BY u.k) AS r FROM u WHERE {p}",
    "SELECT DISTINCT u.x AS c FROM u WHERE {p}",
)
JOINS = (
    "SELECT t.id, l.* FROM t, LATERAL ({q}) l",
    "SELECT t.id, l.* FROM t CROSS JOIN LATERAL ({q}) AS l",
    "SELECT t.id, l.* FROM t LEFT JOIN LATERAL ({q}) l ON TRUE",
    "SELECT t.id, l.* FROM t JOIN LATERAL ({q}) l ON l.c > t.id",
    "SELECT t.id, l.* FROM t LEFT JOIN LATERAL ({q}) l ON l.c > t.id",
    "SELECT t.id, w.y, l.* FROM t JOIN w ON t.a = w.a, LATERAL ({q}) l",
)


def every_statement() -> Iterator[str]:
    for condition in CONDITIONS:
        for query in VALUES:
            for place in PLACES_OF_VALUES:
                yield place.format(q=query.format(p=condition))
        for query in ROWS:
            for question in QUESTIONS:
                for place in PLACES_OF_CONDITIONS:
                    yield place.format(c=question.format(q=query.format(p=condition)))
        for query in RELATIONS:
            for join in JOINS:
                yield join.format(q=query.format(p=condition))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("positions"), {"t": T, "u": U, "w": W}) as both:
        yield both


@pytest.mark.slow
@pytest.mark.parametrize("part", sample(range(2), 1))
def test_some_of_all_statements(judged: Judged, part: int) -> None:
    """Of some twelve thousand, all of which `make soak` asks, each part asks a hundred others."""
    statements = sorted(set(every_statement()))
    for sql in random.Random(part).sample(statements, 100):
        judged.check(sql)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_all_statements(judged: Judged) -> None:
    for sql in sorted(set(every_statement())):
        judged.check(sql)


STATEMENTS = Path(__file__).with_name("data") / "statements.sql"


def read_statements() -> list[str]:
    text = "\n".join(line for line in STATEMENTS.read_text().splitlines() if not line.startswith("--"))
    return [statement.strip() for statement in text.split(";") if statement.strip()]


@pytest.mark.parametrize("sql", read_statements())
def test_what_else_stands_around(judged: Judged, sql: str) -> None:
    judged.check(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, (SELECT max(x) FROM u WHERE b < v) AS c FROM t ORDER BY 2 DESC NULLS LAST, 1 LIMIT 3",
        "SELECT id FROM t ORDER BY (SELECT max(u.x) FROM u WHERE u.b < t.v) DESC NULLS LAST, id DESC",
        "SELECT id FROM t ORDER BY EXISTS (SELECT 1 FROM u WHERE u.b < t.v) DESC, id OFFSET 2",
        "SELECT DISTINCT (SELECT count(*) FROM u WHERE u.b < t.v) AS c FROM t ORDER BY 1 DESC",
    ],
)
def test_orders_stay(judged: Judged, sql: str) -> None:
    judged.check(sql, is_sorted=True)
