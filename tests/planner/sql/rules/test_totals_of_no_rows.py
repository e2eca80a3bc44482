"""Totals of correlated subqueries where no row matches: they have one row all the same. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

T = pa.table({"id": [1, 2, 3], "n": [1, 2, None]})
U = pa.table({"id": [1, 3, 3], "m": [1, 2, None]})
WHERE = "FROM u WHERE u.id = t.id"
CONDITIONS = (
    "EXISTS (SELECT 1 {} HAVING count(*) = 0)",
    "EXISTS (SELECT 1 {} HAVING count(*) >= 0)",
    "NOT EXISTS (SELECT 1 {} HAVING count(*) = 0)",
    "EXISTS (SELECT max(m), count(*) AS c {})",
    "NOT EXISTS (SELECT count(*) {}) OR n = 2",
    "EXISTS (SELECT max(m) {} HAVING max(m) > 0)",
    "EXISTS (SELECT max(m) {} HAVING max(m) IS NULL AND min(m) NOT IN (1, 2) IS NULL)",
    "EXISTS (SELECT u.id {} GROUP BY u.id HAVING count(*) > 1)",
    "n IN (SELECT count(*) {})",
    "0 IN (SELECT count(*) {})",
    "0 NOT IN (SELECT count(*) {})",
    "NOT 0 IN (SELECT count(*) * 0 {})",
    "n - 2 IN (SELECT count(*) {}) OR id = 3",
    "0 = ANY (SELECT count(*) {})",
    "0 < ALL (SELECT count(*) {})",
    "1 > ANY (SELECT count(*) {})",
    "0 <> ALL (SELECT count(*) {})",
    "n IN (SELECT coalesce(sum(m), 2) {})",
    "n NOT IN (SELECT coalesce(sum(m), 2) {})",
    "n IN (SELECT max(m) FROM u)",
    "1 IN (SELECT count(*) FROM u GROUP BY id)",
    "n IN (SELECT m FROM u UNION ALL (SELECT count(*) FROM u))",
)
TOTALS = (
    "7 {} HAVING count(*) >= 0",
    "7 {} HAVING count(*) = 0",
    "7 {} HAVING sum(m) IS NULL",
    "sum(m) {} HAVING count(*) = 0",
    "sum(m) AS total {} HAVING count(*) < 2",
    "coalesce(sum(m), 0) {} HAVING count(*) = 0",
    "count(*) {} HAVING sum(m) IS NULL",
    "count(*) * 0 {} HAVING count(m) < 2",
    "max(m) {} HAVING max(m) > 1",
    "max(m) {} GROUP BY u.id HAVING count(*) > 1",
    "max(m) {} HAVING max(m) > (SELECT min(m) FROM u HAVING count(*) > 1)",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("totals"), {"t": T, "u": U}) as opened:
        yield opened


@pytest.mark.parametrize("condition", CONDITIONS)
def test_totals_below_exists_in_and_quantifiers(judged: Judged, condition: str) -> None:
    judged.check(f"SELECT id FROM t WHERE {condition.format(WHERE)}")


@pytest.mark.parametrize("total", TOTALS)
def test_having_of_totals_that_stand_for_a_value(judged: Judged, total: str) -> None:
    subquery = f"(SELECT {total.format(WHERE)})"
    judged.check(f"SELECT id, {subquery} AS v FROM t")
    judged.check(f"SELECT id FROM t WHERE {subquery} IS NULL")
    judged.check(f"SELECT id FROM t WHERE 0 IS DISTINCT FROM {subquery}")


@pytest.mark.parametrize("having", ["count(*) = 0", "count(*) > 1"])
def test_having_below_in_and_quantifiers(judged: Judged, having: str) -> None:
    for question in ("0 IN", "0 NOT IN", "1 >= ALL", "2 = ANY"):
        judged.check(f"SELECT id FROM t WHERE {question} (SELECT count(*) {WHERE} HAVING {having})")
        every = f"(SELECT count(*) FROM u HAVING {having})"
        judged.check(f"SELECT id FROM t WHERE id{question[1:]} {every} OR n = 2")


def test_having_below_in_of_a_constant(judged: Judged) -> None:
    every = "(SELECT count(*) FROM u HAVING count(*) = 3)"
    judged.check(f"SELECT id FROM t WHERE 3 IN {every}")
    judged.check(f"SELECT id FROM t WHERE 2 NOT IN {every} OR n = 2")
