"""Counts of distinct constants: right, or refused, wherever the number of rows is known beforehand."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import UnsupportedError
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
]
REFUSED = [
    "SELECT count(DISTINCT x), count(1) FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1)) v (a))",
]


@pytest.fixture(params=[0, 1 << 18], ids=["resident", "leaves"])
def judged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Judged]:
    with open_judged(tmp_path, {"t": ROWS}, resident_rows=request.param) as opened:
        yield opened


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_is_answered_is_right(judged: Judged, sql: str) -> None:
    for _ in range(3):
        judged.check(sql)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_would_be_wrong_is_refused(judged: Judged, sql: str) -> None:
    with pytest.raises(UnsupportedError, match="in a subquery of its own"):
        judged.engine.execute(sql).read_all()


def test_a_table_that_is_left_out_is_no_table(judged: Judged) -> None:
    with pytest.raises(UnsupportedError, match="in a subquery of its own"):
        judged.engine.execute(OUTER, SessionSettings(shortcuts=NO_SHORTCUTS)).read_all()
