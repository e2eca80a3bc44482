"""Groups by casts are sorted as asked, whatever other outputs are called. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

T = pa.table({"id": [1, 2, 3], "s": ["c", "b", "a"], "n": [9, 7, 8]})
QUERIES = (
    "SELECT s, max(s) AS id, CAST(id AS VARCHAR) AS k FROM t GROUP BY s, CAST(id AS VARCHAR) ORDER BY id",
    "SELECT n AS id, CAST(id AS TEXT) AS k, count(*) AS c FROM t GROUP BY n, CAST(id AS TEXT) ORDER BY id",
    "SELECT n AS id, CAST(id AS VARCHAR) AS k, count(*) AS c FROM t GROUP BY 1, 2 ORDER BY id LIMIT 1",
    "SELECT max(s) AS id, TRY_CAST(id AS TEXT) k FROM t GROUP BY TRY_CAST(id AS TEXT) ORDER BY id LIMIT 2",
    "SELECT max(n) AS s, s::VARCHAR AS k FROM t GROUP BY s::VARCHAR ORDER BY s DESC LIMIT 1",
    "SELECT max(n) AS s, CAST(t.s AS VARCHAR) AS k FROM t GROUP BY CAST(t.s AS VARCHAR) ORDER BY max(n)",
    "SELECT * FROM (SELECT sum(n) AS s, CAST(s AS TEXT) AS k FROM t GROUP BY k ORDER BY s LIMIT 1) AS u",
    "SELECT CAST(id AS VARCHAR) AS id, max(n) AS n FROM t GROUP BY CAST(id AS VARCHAR) ORDER BY id DESC",
    "SELECT CAST(id AS TEXT) AS s, max(s) AS id FROM t GROUP BY 1 HAVING max(n) > 7 ORDER BY id",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("casts"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_groups_by_casts_are_sorted_as_asked(judged: Judged, sql: str) -> None:
    judged.check(sql, is_sorted="ORDER BY" in sql)


def test_the_columns_keep_their_names(judged: Judged) -> None:
    sql = "SELECT max(n) AS s, CAST(s AS VARCHAR) FROM t GROUP BY CAST(s AS VARCHAR)"
    assert judged.engine.execute(sql).read_all().schema.names == ["s", "t.s"]
