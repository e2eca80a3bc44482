"""Typed statements: a known sample of them, fresh ones in the soak, and machines that notice what is wrong.

`LANCE_GATEWAY_TYPED_STATEMENTS` scales the soak test.
"""

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.fuzz.typed import running
from tests.fuzz.typed.coverage import describe, expected_cells
from tests.fuzz.typed.functions import functions
from tests.fuzz.typed.judges import Postgres
from tests.fuzz.typed.known import MEANT
from tests.fuzz.typed.operators import OPERATORS
from tests.fuzz.typed.running import Machine
from tests.fuzz.typed.types import spell
from tests.support.processes.writer_process import WriterProcess

SAMPLE, SAMPLE_BY_POSTGRES = 300, 500
ALL = (*OPERATORS, *functions())


@pytest.mark.slow
def test_typed_statements_mean_the_same_everywhere(writers: WriterProcess) -> None:
    report = Machine(7, operators=ALL).run(writers, statements=SAMPLE)
    assert not report.mismatches, report.figures()
    assert report.share("of people") >= 0.2, report.figures()
    assert report.share("with rows") >= 0.6, report.figures()


@pytest.mark.slow
def test_postgres_answers_typed_statements_alike(writers: WriterProcess, postgres: Postgres) -> None:
    report = Machine(8, postgres, operators=ALL).run(writers, statements=SAMPLE_BY_POSTGRES)
    assert not report.mismatches, report.figures()
    assert report.counts["judged by postgres"] > SAMPLE_BY_POSTGRES / 50, report.figures()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_fresh_typed_statements_mean_the_same_everywhere(writers: WriterProcess, postgres: Postgres) -> None:
    statements = int(os.environ.get("LANCE_GATEWAY_TYPED_STATEMENTS", "1000000"))
    report = Machine(random.SystemRandom().randrange(1 << 32), postgres, operators=ALL).run(
        writers, statements=statements
    )
    assert not report.mismatches, report.figures()
    if statements >= 1_000_000:
        assert not expected_cells() - set(report.cells), describe(report.cells)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "judge"),
    [
        (lambda sql, _, rows: rows.slice(1) if "WHERE t." in sql else rows, "place"),
        (lambda sql, state, rows: rows.slice(1) if state == "log" and "c0" in sql else rows, "state"),
        (
            lambda sql, _, rows: (
                pa.table({"v": [None]}) if sql.endswith(" AS v") and "FROM" not in sql else rows
            ),
            "constant",
        ),
    ],
    ids=["in a place", "in a state", "of a constant"],
)
def test_a_wrong_answer_is_noticed(
    writers: WriterProcess, monkeypatch: pytest.MonkeyPatch, changed: Any, judge: str
) -> None:
    asks = running._Judging._run

    def run(self: Any, statement: Any) -> pa.Table:
        return changed(statement.sql, self._state, asks(self, statement))

    monkeypatch.setattr(running._Judging, "_run", run)
    report = Machine(9, most=3).run(writers, statements=SAMPLE)
    assert any(one.judge.startswith(judge) for one in report.mismatches.values()), report.figures()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["postgres", "duckdb"])
@pytest.mark.soak
def test_other_engines_notice_a_wrong_operator(
    writers: WriterProcess, postgres: Postgres, engine: str
) -> None:
    upper = next(one for one in OPERATORS if one.name == "upper")
    wrong = [replace(upper, spelling=replace(spell("upper({0})"), **{engine: "lower({0})"}))]
    report = Machine(9, postgres, operators=wrong, types=("text",)).run(writers, statements=50)
    assert [one.judge for one in report.mismatches.values()] == [engine], report.figures()


@pytest.mark.soak
def test_reproductions_begin_with_the_same_lake(writers: WriterProcess) -> None:
    first, again = (_texts(writers) for _ in range(2))
    assert first == again


def _texts(writers: WriterProcess) -> Sequence[str]:
    asked: list[str] = []
    asks = running._Judging._run

    def run(self: Any, statement: Any) -> pa.Table:
        asked.append(statement.sql)
        return asks(self, statement)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running._Judging, "_run", run)
        Machine(11).run(writers, statements=40)
    return asked


def test_what_differs_on_purpose_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs/sql.md").read_text()
    section = text.split("## Other databases\n")[1].split("\n## ")[0]
    assert [one.reason for one in MEANT if f"| {one.reason} |" not in section] == []
