"""NULL equals NULL where a statement says so, and nowhere else."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import DataFrame
from datafusion.plan import LogicalPlan

from lance_gateway.planner.plans.dataframes import Frames
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

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
        "SELECT t.id, u.id AS i FROM t JOIN u ON t.n IS NOT DISTINCT FROM u.n WHERE t.n = u.n",
        "SELECT a.id, b.id AS i FROM t a JOIN t b ON a.n IS NOT DISTINCT FROM b.n JOIN u ON b.id = u.id",
        "SELECT a.id FROM t a JOIN t b ON a.n IS NOT DISTINCT FROM b.n CROSS JOIN u WHERE b.id < u.id",
        "SELECT a.id FROM t a JOIN t b ON a.n IS NOT DISTINCT FROM b.n JOIN u ON b.s = u.s WHERE a.s = u.s",
        (
            "SELECT t.id, l.k FROM t, LATERAL (SELECT v.id AS k FROM t AS v WHERE (v.n IS NOT DISTINCT "
            "FROM t.n) ORDER BY v.id DESC LIMIT 1) AS l, u WHERE l.k = u.id AND t.id < u.id + 4"
        ),
        "SELECT b.id FROM t AS a JOIN t AS b ON a.s = b.s JOIN u ON b.n IS NOT DISTINCT FROM u.n",
        (
            "SELECT a.id FROM t a JOIN t b ON a.n IS NOT DISTINCT FROM b.n JOIN u ON b.id = u.id UNION ALL "
            "SELECT a.id FROM t a JOIN t b ON a.n IS NOT DISTINCT FROM b.n"
        ),
        "SELECT n, s FROM t INTERSECT SELECT n, s FROM u WHERE n IS DISTINCT FROM 1",
    ],
)
def test_keys_of_equality_leave_null_out(judged: Judged, sql: str) -> None:
    for _ in range(4):
        judged.check(sql)


JOINED = "FROM t AS a JOIN t AS b ON a.n IS NOT DISTINCT FROM b.n JOIN u ON b.id = u.id WHERE a.id"


def test_prepared_statements_compare_so_too(judged: Judged) -> None:
    query = judged.engine.prepare(f"SELECT a.id, b.id AS i {JOINED} < ?")
    for limit in (5, 4, 5):
        found = rows_of(query.execute([pa.scalar(limit, pa.int64())]).read_all())
        expected = judged.judge.execute(f"SELECT a.id, b.id AS i {JOINED} < ?", [limit]).fetchall()
        assert sorted(found) == sorted(expected)


def test_only_what_may_be_mixed_up_is_planned_again(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[tuple[str, ...]] = []
    plan_without = Frames._optimize_without

    def count(self: Frames, frame: DataFrame, *rules: str) -> LogicalPlan:
        plans.append(rules)
        return plan_without(self, frame, *rules)

    monkeypatch.setattr(Frames, "_optimize_without", count)
    for sql in (
        "SELECT t.id FROM t JOIN u ON t.n = u.n JOIN t AS v ON u.id = v.id",
        "SELECT id FROM t WHERE n IS DISTINCT FROM 1",
        "SELECT t.id FROM t JOIN u ON t.id = u.id WHERE t.n IS DISTINCT FROM u.n",
    ):
        judged.check(sql)
    assert plans == []
    query = judged.engine.prepare(f"SELECT a.id {JOINED} < 9")
    query.execute().read_all()
    planned = len(plans)
    assert planned > 0
    query.execute().read_all()
    query.execute().read_all()
    assert len(plans) <= 2 * planned, "once over leaves, once over resident tables"
