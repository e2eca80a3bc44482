"""Columns of USING come from the side that has a row, and stand where those of the left do. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.sql.forms import write_forms
from lance_gateway.planner.sql.text.tokens import tokenize
from tests.support.judging.judged import Judged, open_judged

T = pa.table({"id": [1, 2, 3, None], "k": ["a", "b", None, "a"], "Odd": [1, 2, 2, None], "n": [5, 6, 7, 8]})
U = pa.table({"id": [2, 2, 9, None], "k": ["b", "z", "q", "a"], "Odd": [2, 4, None, 9], "m": [1, 2, 3, 4]})
QUERIES = (
    "SELECT id FROM t FULL JOIN u USING (id)",
    "SELECT id, n, m FROM t AS a RIGHT OUTER JOIN u b USING (id)",
    "SELECT * FROM t a FULL JOIN u b USING (id)",
    "SELECT *, a.id, b.id FROM t a RIGHT JOIN u b USING (id, k)",
    "SELECT a.id, id, b.id, id + 1 FROM t a FULL JOIN u b USING (id) WHERE id > 2",
    'SELECT "Odd", a."Odd" FROM t a FULL JOIN u b USING ("Odd", id)',
    "SELECT id, k AS id, count(*) FROM t FULL JOIN u USING (id, k) GROUP BY id, k HAVING id > 1 OR k = 'a'",
    "SELECT sum(m) FILTER (WHERE k > ''), k = 'q' AS x FROM t RIGHT JOIN u USING (k) GROUP BY x",
    "SELECT id, (SELECT max(id) FROM u), (SELECT sum(m) FROM u WHERE m < t.n) FROM t FULL JOIN u USING (id)",
    "WITH c AS (SELECT * FROM t FULL JOIN (SELECT id, m FROM u) q USING (id)) SELECT id FROM c WHERE id = 9",
    "SELECT id FROM t FULL JOIN u USING (id) UNION SELECT id FROM t RIGHT JOIN (SELECT 8) q (id) USING (id)",
    "SELECT n, q.id FROM t, LATERAL (SELECT id FROM t a RIGHT JOIN u USING (id) WHERE id > n LIMIT 1) q",
    "SELECT a.id, b.id FROM t a LEFT JOIN u b USING (id) WHERE b.id IS NULL",
    # DataFusion would take the columns of "a".
    "SELECT * FROM t b LEFT JOIN u a USING (id)",
    "SELECT * FROM t b JOIN u a USING (id, k)",
    "SELECT *, count(*) OVER () FROM u c LEFT JOIN t b USING (id) LEFT JOIN u a USING (id) WHERE id > 2",
    "SELECT * FROM t c JOIN (SELECT m FROM u) b ON c.n = b.m + 4 LEFT JOIN u a USING (id)",
    "SELECT count(id), max(id) FROM t b LEFT JOIN u a USING (id) WHERE id > 2",
    'SELECT * FROM t b LEFT JOIN (SELECT "Odd", m FROM u) a USING ("Odd") UNION ALL SELECT 1, \'\', 2, 3, 4',
    "SELECT q.id FROM (SELECT * FROM t b LEFT JOIN (SELECT id, m FROM u) a USING (id)) q",
)
SORTED = (
    "SELECT DISTINCT id FROM t FULL JOIN u USING (id) ORDER BY id",
    "SELECT DISTINCT ON (id) id FROM t FULL JOIN u USING (id) ORDER BY id NULLS LAST",
    "SELECT n AS id FROM t FULL JOIN u USING (id) ORDER BY id",
    "SELECT n, m FROM t FULL JOIN u USING (id) ORDER BY id, m, n LIMIT 4",
)
REFUSED = (
    "SELECT id FROM t a LEFT JOIN u b USING (id) FULL JOIN u c USING (id)",
    "SELECT id FROM t a FULL JOIN u b USING (id) LEFT JOIN u c USING (id)",
    "SELECT id FROM t a FULL JOIN u b USING (id) JOIN u c ON c.id = id",
    "SELECT * FROM (t FULL JOIN u USING (id))",
    "SELECT id FROM t FULL JOIN (SELECT 9 AS id) USING (id)",
    "SELECT * RENAME (n AS x) FROM t FULL JOIN u USING (id)",
    "SELECT id FROM t NATURAL FULL JOIN u",
    "SELECT * FROM (t b LEFT JOIN u a USING (id))",
    "SELECT * FROM t c JOIN (SELECT m FROM u) b ON c.n = b.m LEFT JOIN (SELECT 9 AS id) USING (id)",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("merged"), {"t": T, "u": U}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_columns_come_from_the_side_that_has_a_row(judged: Judged, sql: str) -> None:
    judged.check(sql)


@pytest.mark.parametrize("sql", SORTED)
def test_rows_are_sorted_by_the_column_of_both_sides(judged: Judged, sql: str) -> None:
    judged.check(sql, is_sorted=True)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_can_not_be_told_is_refused_with_a_way_out(judged: Judged, sql: str) -> None:
    with pytest.raises(UnsupportedError, match=r"(is|are) not (offered|supported): "):
        judged.engine.execute(sql)


def test_parameters_stand_beside_them(judged: Judged) -> None:
    sql = "SELECT id, ? AS x FROM t FULL JOIN u USING (id) WHERE id > ?"
    rows = judged.engine.execute(sql, parameters=[pa.scalar("p"), pa.scalar(3)]).read_all()
    assert rows.to_pylist() == [{"id": 9, "x": "p"}]


@pytest.mark.parametrize(
    ("relation", "name"),
    [
        ("lance_fts('t', 'k', 'x')", "lance_fts"),
        ("lance_fts('t', 'k', 'x') AS f", "f"),
        ("main.t FOR VERSION AS OF 2", "t"),
        ("t TIMESTAMP AS OF now() - INTERVAL '1 hour' p", "p"),
        ("lance.main.t", "t"),
    ],
)
def test_relations_have_names_of_their_own_without_aliases(relation: str, name: str) -> None:
    written = write_forms(tokenize(f"SELECT * FROM {relation} LEFT JOIN u USING (id) WHERE id > 1"))
    assert f'SELECT "{name}".*, "u".* EXCLUDE ("id") FROM' in written.sql
