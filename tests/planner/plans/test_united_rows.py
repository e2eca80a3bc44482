"""A UNION of a column that may be NULL and one that may not, sorted: reports with a total row."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

RUNS = 8
"""Of one statement: which part of a UNION is read first differs from run to run."""
STATEMENTS = (
    "SELECT id, s FROM t UNION ALL SELECT 9, 'total' ORDER BY id LIMIT 10",
    "SELECT 9 AS id, 'total' AS s UNION ALL SELECT id, s FROM t ORDER BY id LIMIT 10",
    "SELECT * FROM (VALUES (1, NULL), (2, 'x')) AS v(id, s) UNION ALL SELECT 9, 'total' ORDER BY id LIMIT 10",
    "WITH a AS (SELECT id, s FROM t UNION ALL SELECT 9, 'total') SELECT * FROM a ORDER BY id LIMIT 10",
    "SELECT s, count(*) AS n FROM t GROUP BY s UNION ALL SELECT 'all', count(*) FROM t ORDER BY n, s LIMIT 5",
    "SELECT TRY_CAST(s AS BIGINT) AS n FROM t UNION ALL SELECT 9 ORDER BY n LIMIT 5",
    "SELECT TRY_CAST('x' AS BIGINT) AS n FROM t UNION ALL SELECT 0 FROM t ORDER BY n",
    "SELECT id, s FROM t UNION ALL SELECT 9, (SELECT max(s) FROM t WHERE id > 5) ORDER BY id LIMIT 10",
    "SELECT 0 AS id, 'x' AS s UNION ALL SELECT id, lag(s) OVER (ORDER BY id) FROM t ORDER BY id LIMIT 10",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "s": pa.array([None, "x"])})
    with open_judged(tmp_path_factory.mktemp("united"), {"t": rows}) as opened:
        yield opened


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_total_row_is_added(sql: str, judged: Judged) -> None:
    for _ in range(RUNS):
        judged.check(sql)
