"""NULL equals NULL where a statement says so, and nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.judged import Judged, open_judged

TABLES = {
    "t": pa.table({"id": [1, 2, 3, 4], "n": [1, 2, None, None], "s": ["a", None, None, "b"]}),
    "u": pa.table({"id": [1, 2, 3, 4], "n": [1, 2, None, None], "s": ["a", None, None, "b"]}),
}


@pytest.fixture(params=[0, 1 << 18], ids=["memory tables", "leaves"])
def judged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Judged]:
    with open_judged(tmp_path, TABLES, resident_rows=request.param) as opened:
        yield opened


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.id, u.id AS i FROM t JOIN u ON t.n IS NOT DISTINCT FROM u.n WHERE t.s = u.s",
        "SELECT t.id, u.id AS i FROM t LEFT JOIN u ON t.n IS NOT DISTINCT FROM u.n WHERE t.s = u.s",
        "SELECT t.id, u.id AS i FROM t, u WHERE (t.n IS NOT DISTINCT FROM u.n) AND t.s = u.s AND t.id = u.id",
        "SELECT t.id FROM t JOIN u ON (t.n IS NOT DISTINCT FROM u.n) AND (t.s IS NOT DISTINCT FROM u.s)",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE (u.n IS NOT DISTINCT FROM t.n) AND u.s = t.s)",
        "SELECT t.id FROM t LEFT JOIN u ON FALSE WHERE (SELECT min('b') FROM t AS v WHERE v.n < u.n) = u.s",
        "SELECT id FROM t WHERE (SELECT max(u.s) FROM u WHERE u.n < t.n OR u.id = t.id) = t.s",
        "SELECT n, s FROM t INTERSECT SELECT n, s FROM u WHERE n IS DISTINCT FROM 1",
    ],
)
def test_keys_of_equality_leave_null_out(judged: Judged, sql: str) -> None:
    for _ in range(4):
        judged.check(sql)
