"""Windows that begin with the name of another one have all that it has. DuckDB judges."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lance_gateway.memwal.errors import InvalidInputError
from tests.support.judging.judged import Judged, open_judged

T = pa.table(
    {
        "id": pa.array(range(1, 9), pa.int64()),
        "k": pa.array([1, 1, 2, 2, None, 3, 3, 1], pa.int64()),
        "s": ["a", "b", "a", None, "c", "c", "a", "b"],
    }
)
RUNNING = "SELECT sum(id) OVER (w ORDER BY id) AS x FROM t WINDOW w AS"
QUERIES = (
    "SELECT id, sum(id) OVER (w ORDER BY id) AS x FROM t WINDOW w AS (PARTITION BY k)",
    "SELECT id, sum(id) OVER (w) AS x FROM t WINDOW w AS (PARTITION BY k)",
    "SELECT id, sum(id) OVER (w ROWS 1 PRECEDING) AS x FROM t WINDOW w AS (PARTITION BY k ORDER BY id)",
    "SELECT id, sum(id) OVER b AS x FROM t WINDOW a AS (PARTITION BY k), b AS (a ORDER BY id)",
    "SELECT sum(id) OVER (b ROWS 1 PRECEDING) AS x FROM t WINDOW a AS (PARTITION BY k), b AS (a ORDER BY id)",
    'SELECT id, count(*) OVER ("W" ORDER BY id) AS x FROM t WINDOW "W" AS (PARTITION BY s)',
    "SELECT id, sum(id) OVER (w ORDER BY id) AS x FROM t WINDOW w AS ()",
    # Each SELECT has windows of its own.
    f"SELECT x, (SELECT max(x) FROM ({RUNNING} (PARTITION BY s)) q) AS m FROM ({RUNNING} (PARTITION BY k)) p",
    f"{RUNNING} (PARTITION BY k) UNION ALL {RUNNING} (PARTITION BY s)",
    "SELECT id, rank() OVER w AS x, sum(id) OVER w AS y FROM t WINDOW w AS (PARTITION BY k ORDER BY s, id)",
)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judged]:
    with open_judged(tmp_path_factory.mktemp("windows"), {"t": T}) as opened:
        yield opened


@pytest.mark.parametrize("sql", QUERIES)
def test_a_window_adds_to_the_one_that_it_names(judged: Judged, sql: str) -> None:
    judged.check(sql)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("OVER (q ORDER BY id)", "There is no window 'q'"),
        ("OVER (w PARTITION BY s)", "can't have its own PARTITION BY"),
        ("OVER (w ORDER BY s)", "can't have a second ORDER BY"),
        ("OVER (f ORDER BY s)", "since it has a frame"),
    ],
)
def test_what_must_not_be_added_is_refused(judged: Judged, over: str, message: str) -> None:
    sql = f"SELECT sum(id) {over} FROM t WINDOW w AS (PARTITION BY k ORDER BY id), f AS (ROWS 1 PRECEDING)"
    with pytest.raises(InvalidInputError, match=message):
        judged.engine.execute(sql)
