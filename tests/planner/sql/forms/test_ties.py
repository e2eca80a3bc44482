"""FETCH .. WITH TIES keeps the rows that are as good as the last one. DuckDB judges by ranks."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError, UnsupportedError
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

T = pa.table(
    {
        "id": pa.array(range(1, 9), pa.int64()),
        "k": pa.array([1, 1, 2, 2, None, 3, 3, 1], pa.int64()),
        "s": ["a", "b", "a", None, "c", "c", "a", "b"],
    }
)
QUERIES = {
    "SELECT id, k FROM t ORDER BY k NULLS LAST FETCH FIRST 2 ROWS WITH TIES": (
        "SELECT id, k FROM t QUALIFY rank() OVER (ORDER BY k NULLS LAST) <= 2"
    ),
    "SELECT id, k AS g FROM t ORDER BY g DESC NULLS LAST FETCH FIRST ROW WITH TIES": (
        "SELECT id, k AS g FROM t QUALIFY rank() OVER (ORDER BY k DESC NULLS LAST) <= 1"
    ),
    "SELECT id, k AS g FROM t ORDER BY 2 DESC NULLS LAST FETCH NEXT 3 ROWS WITH TIES": (
        "SELECT id, k AS g FROM t QUALIFY rank() OVER (ORDER BY k DESC NULLS LAST) <= 3"
    ),
    "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY n DESC FETCH FIRST 2 ROWS WITH TIES": (
        "SELECT s, count(*) AS n FROM t GROUP BY s QUALIFY rank() OVER (ORDER BY count(*) DESC) <= 2"
    ),
    "SELECT id FROM (SELECT id, k FROM t WHERE k > 0 ORDER BY k FETCH FIRST 4 ROWS WITH TIES) q": (
        "SELECT id FROM t WHERE k > 0 QUALIFY rank() OVER (ORDER BY k) <= 4"
    ),
    "WITH w AS (SELECT * FROM t) SELECT id % 3 AS m FROM w ORDER BY id % 3, s FETCH FIRST 2 ROWS WITH TIES": (
        "SELECT id % 3 AS m FROM t QUALIFY rank() OVER (ORDER BY id % 3, s) <= 2"
    ),
    "SELECT a.id, (SELECT count(*) FROM t AS b WHERE b.id < a.id) AS n FROM t AS a "
    "ORDER BY a.k NULLS LAST FETCH FIRST 2 ROWS WITH TIES": (
        "SELECT id, id - 1 AS n FROM t QUALIFY rank() OVER (ORDER BY k NULLS LAST) <= 2"
    ),
    "SELECT a.id, c.id AS best FROM t AS a, LATERAL (SELECT id FROM t AS b WHERE b.id <= a.id "
    "ORDER BY k NULLS LAST FETCH FIRST ROW WITH TIES) AS c": (
        "SELECT a.id, b.id AS best FROM t AS a JOIN t AS b ON b.id <= a.id "
        "QUALIFY rank() OVER (PARTITION BY a.id ORDER BY b.k NULLS LAST) <= 1"
    ),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("ties"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_of_equal_rank_stay(judged: Judged, sql: str) -> None:
    found = rows_of(judged.engine.execute(sql).read_all())
    assert sorted(found, key=repr) == sorted(judged.judge.execute(QUERIES[sql]).fetchall(), key=repr)


def test_rows_that_are_skipped_count(judged: Judged) -> None:
    sql = "SELECT k FROM t ORDER BY k OFFSET ? ROWS FETCH NEXT ? ROWS WITH TIES"
    values = [pa.scalar(2, pa.int64()), pa.scalar(2, pa.int64())]
    assert judged.engine.execute(sql, parameters=values).read_all().column("k").to_pylist() == [1, 2, 2]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT id FROM t FETCH FIRST 2 ROWS WITH TIES", InvalidInputError, "needs ORDER BY"),
        ("SELECT DISTINCT k FROM t ORDER BY k FETCH FIRST 2 ROWS WITH TIES", UnsupportedError, "DISTINCT"),
        ("SELECT k FROM t UNION SELECT 1 ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES", UnsupportedError, "UNION"),
        (
            "SELECT * FROM t ORDER BY 1 FETCH FIRST 2 ROWS WITH TIES",
            UnsupportedError,
            "rank the rows in a subquery",
        ),
    ],
)
def test_ranks_that_can_not_be_written_are_refused(
    judged: Judged, sql: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        judged.engine.execute(sql)
