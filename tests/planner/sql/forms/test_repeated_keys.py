"""GROUP BY may name a key twice. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from tests.support.judging.judged import Judged, open_judged

T = pa.table({"k": ["a", "b", None, "a"], "A": ["x", "x", "y", "x"], "n": [1, 2, 3, 4]})
QUERIES = (
    "SELECT k, k AS other, sum(n) FROM t GROUP BY 1, 2",
    'SELECT k, sum(n) FROM t GROUP BY k, "A", k, "A" HAVING count(*) > 1',
    'SELECT "A", upper(k) AS u, upper(k) AS v, sum(n) FROM t GROUP BY "A", 2, upper(k), 3 ORDER BY 1, 2',
    "SELECT a.k, b.k, count(*) FROM t a JOIN t b ON a.n <= b.n GROUP BY a.k, b.k, 1",
    "SELECT q.m FROM (SELECT k, max(n) AS m FROM t GROUP BY k, k) q",
    'SELECT k, "A", sum(n) FROM t GROUP BY ROLLUP (k, "A")',
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("keys"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_a_key_counts_once(judged: Judged, sql: str) -> None:
    judged.check(sql)


def test_parameters_keep_their_numbers(judged: Judged) -> None:
    values = [pa.scalar(1), pa.scalar(2)]
    sql = "SELECT k, n % ?, n % ? AS other, count(*) AS c FROM t GROUP BY 1, 2, 3, k"
    found = judged.engine.execute(sql, parameters=values).read_all()
    assert sorted(found["other"].to_pylist()) == [0, 0, 1, 1]
