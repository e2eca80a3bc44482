"""A machine notices each mend that is left out."""

from pathlib import Path

import pytest

from lance_gateway.planner.sql.forms import FORMS
from lance_gateway.planner.sql.rules import RULES
from tests.fuzz.typed.judges import Postgres
from tests.fuzz.typed.undone import MOST, NOT_ASKED, find, list_mends
from tests.planner.workarounds import FILES
from tests.support.processes.writer_process import WriterProcess

DATA = Path(__file__).parents[2] / "planner/data"
WITHIN_OTHERS = {
    # Kinds of `late_instants`.
    "late_bins", "late_comparisons", "late_truncations", "late_years",
    # Forms of clauses, and what `join_subqueries` does.
    "clauses", "correlated_outer_joins",
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", list_mends())
def test_a_mend_that_is_left_out_is_noticed(writers: WriterProcess, postgres: Postgres, name: str) -> None:
    assert find(list_mends()[name], writers, postgres, statements=MOST) is not None


@pytest.mark.slow
@pytest.mark.soak
def test_a_rule_that_is_left_out_is_noticed(writers: WriterProcess) -> None:
    found = find(list_mends()["scalar_subqueries"], writers, None, statements=400)
    assert found is not None
    assert found.mismatch.judge.startswith("place ")


@pytest.mark.slow
@pytest.mark.soak
def test_nothing_is_noticed_where_all_is_as_it_was(writers: WriterProcess) -> None:
    mend = list_mends()["scalar_subqueries"]
    assert find(type(mend)(mend.name, (), mend.patterns), writers, None, statements=100) is None


def test_each_mend_is_left_out() -> None:
    known = {*list_mends(), *NOT_ASKED}
    names = {one.__name__ for one in (*RULES, *FORMS)}
    assert names | {one.stem for one in FILES} <= known | WITHIN_OTHERS


def test_what_is_not_asked_has_cases() -> None:
    for name in NOT_ASKED:
        assert any((DATA / folder / f"{name}.sql").exists() for folder in ("forms", "workarounds")), name
