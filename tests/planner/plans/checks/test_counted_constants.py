"""Counts of distinct constants: right wherever the number of rows is known beforehand."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.scans.settings import NO_SHORTCUTS, SessionSettings
from tests.support.judging.judged import Judged, open_judged

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", None, "b"]})
OUTER = "SELECT count(DISTINCT t.s) AS d, count(1) AS n FROM t RIGHT JOIN (VALUES (1)) v (a) ON FALSE"
ANSWERED = [
    "SELECT count(DISTINCT x) AS d, count(1) AS n FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM t)",
    "SELECT count(DISTINCT x) AS d, count(s) AS n FROM (SELECT 5 AS x, s FROM t WHERE id > 7)",
    "SELECT count(DISTINCT x) AS d, min(s) AS n FROM (SELECT 5 AS x, s FROM t)",
    "SELECT count(DISTINCT x) AS d FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1), (2)) v (a))",
    (
        "SELECT (SELECT count(DISTINCT x) FROM (SELECT CAST(NULL AS BIGINT) AS x FROM t)) AS d, count(1) "
        "AS n FROM t"
    ),
    OUTER,
    "SELECT count(DISTINCT x), count(1) FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1)) v (a))",
    "SELECT count(DISTINCT CAST(NULL AS VARCHAR)), count(DISTINCT 5), count(1) FROM t",
    "SELECT count(DISTINCT x), 7 FROM (SELECT CAST(NULL AS BIGINT) AS x FROM t) HAVING count(DISTINCT x) = 0",
]


@pytest.fixture(params=[0, 1 << 18], ids=["resident", "leaves"])
def judged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Judged]:
    with open_judged(tmp_path, {"t": ROWS}, resident_rows=request.param) as opened:
        yield opened


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_is_answered_is_right(judged: Judged, sql: str) -> None:
    for _ in range(3):
        judged.check(sql)


def test_without_shortcuts(judged: Judged) -> None:
    found = judged.engine.execute(OUTER, SessionSettings(shortcuts=NO_SHORTCUTS)).read_all()
    assert found.to_pylist() == [{"d": 0, "n": 1}]
