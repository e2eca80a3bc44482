"""Plans are looked at for what DataFusion does wrong once, as long as their tables have the same columns."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.plans import dataframes
from lance_gateway.planner.plans.checks.mistaken_plans import check_plan
from tests.support.judging.judged import Judged, open_judged
from tests.support.judging.results import rows_of

AT = datetime(2024, 2, 29, 12)
"""Plans over tables with timestamps are looked at for fractions of seconds that are lost."""
TABLES = {
    "t": pa.table({"id": [1, 2, 3], "n": [1, 2, None], "at": [AT, AT, AT]}),
    "u": pa.table({"id": [1, 2], "v": ["x", "y"]}),
}
JOIN = "SELECT t.id, u.v FROM t LEFT JOIN u ON t.n = u.id WHERE t.id > 1 ORDER BY t.id"


@pytest.fixture(params=[0, 1 << 18], ids=["memory tables", "leaves"])
def judged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Judged]:
    with open_judged(tmp_path, TABLES, resident_rows=request.param) as opened:
        yield opened


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts whose plans are looked at."""
    found: list[str] = []

    def note(frame: object, sql: str, *arguments: object, **options: object) -> bool:
        found.append(sql)
        check: Callable[..., bool] = check_plan
        return check(frame, sql, *arguments, **options)

    monkeypatch.setattr(dataframes, "check_plan", note)
    return found


def prepare(judged: Judged, sql: str) -> PreparedQuery:
    prepared = judged.engine.prepare_statement(sql)
    assert isinstance(prepared, PreparedQuery)
    return prepared


def test_a_repeated_statement_is_checked_once(judged: Judged, checks: list[str]) -> None:
    for _ in range(4):
        judged.check(JOIN)
    before = len(checks)
    assert before
    for _ in range(4):
        judged.check(JOIN)
    assert len(checks) == before


def test_it_is_checked_again_when_columns_were_added(judged: Judged, checks: list[str]) -> None:
    for _ in range(4):
        judged.check(JOIN)
    before, prepared = len(checks), prepare(judged, JOIN)
    judged.engine.prepare_statement("ALTER TABLE u ADD COLUMN w BIGINT").execute()
    assert rows_of(prepared.execute().read_all()) == [(2, "y"), (3, None)]
    assert len(checks) > before


@pytest.mark.parametrize("sql", ["SELECT id FROM t LEFT JOIN u USING (id) WHERE t.id > ?"])
def test_parameters_may_change_a_plan(judged: Judged, checks: list[str], sql: str) -> None:
    prepared = prepare(judged, sql)
    for bound, expected in ((0, [(1,), (2,), (3,)]), (2, [(3,)]), (0, [(1,), (2,), (3,)])):
        before = len(checks)
        assert sorted(rows_of(prepared.execute([pa.scalar(bound)]).read_all())) == expected
        assert len(checks) > before
