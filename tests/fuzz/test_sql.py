"""Random SQL over random lakes: the gateway answers as a replay of the rows does, however it is asked.

`python -m tests.fuzz.sql` does the same by hand; what a failure prints says how to get it again.
"""

import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.fuzz.sql.grammar.kinds import INT64, TEXT
from tests.fuzz.sql.grammar.queries import Queries
from tests.fuzz.sql.grammar.sources import Shape
from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.tree import AbstainError, Node, Reader, render
from tests.fuzz.sql.judges.engines import GatewayEngine, References, Refused
from tests.fuzz.sql.judges.shrinking import shrink
from tests.fuzz.sql.judges.verdicts import Court, Outcome, Verdict
from tests.fuzz.sql.running import Fuzzer, Report
from tests.support.processes.writer_process import WriterProcess
from tests.support.sampling import sample

SHAPE = Shape("t", (("id", INT64), ("s", TEXT)), ("id",))
ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "s": [None, "a", "b", "ab"] * 5})


MOST_REFUSED = 0.03
"""The part of the statements that may be refused for fear of a wrong answer: they are not compared."""
LEAST_ALIKE = 0.97
"""The part of the statements that DuckDB answers which must be answered alike; the others are refused."""


def run(
    writers: WriterProcess, seed: int, statements: int, per_lake: int, *, is_thorough: bool = False
) -> Report:
    """A run that must not find the gateway wrong."""
    report = Fuzzer(seed, per_lake, is_thorough=is_thorough).run(writers, statements=statements)
    assert not report.ours, str(report)
    if statements >= 250:
        # Changes of tables, which thorough runs read often, are not joined with subqueries.
        most = 2 if is_thorough else 1
        assert report.tally.refused_share < most * MOST_REFUSED, str(report)
        assert report.tally.share(Outcome.ALIKE) > 1 - most * (1 - LEAST_ALIKE), str(report)
    return report


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (12, 13))])
def test_known_seeds(writers: WriterProcess, seed: int) -> None:
    """The same statements in every run: what fails here is due to what was changed."""
    report = run(writers, seed, statements=250, per_lake=125)
    assert report.tally.counts["duckdb"] > 100, str(report)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(10))
def test_fresh_seeds(writers: WriterProcess, part: int) -> None:
    """Other statements in every run. They may find what was wrong all along, so `make test` asks none."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"part {part} of the statements has seed {seed}")  # noqa: T201 - shown where the test fails
    run(writers, seed, statements=5000, per_lake=500, is_thorough=part % 2 == 0)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(1000, 1050))
def test_a_million_statements(writers: WriterProcess, seed: int) -> None:
    """In fifty parts."""
    run(writers, seed, statements=20_000, per_lake=1000)


def test_statements_follow_from_their_seed() -> None:
    texts = [
        [render(queries.statement().node, Reader.DATAFUSION)[0] for _ in range(200)]
        for queries in (Queries(random.Random(5), [SHAPE]) for _ in range(2))
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 150


@dataclass
class Lying:
    """An engine that is wrong about statements that have a word in them."""

    truthful: GatewayEngine
    word: str
    name: str = "gateway"

    def answer(self, node: Node) -> pa.Table:
        answer = self.truthful.answer(node)
        return answer.slice(1) if self.word in render(node, Reader.GATEWAY)[0] else answer


@pytest.mark.slow
@pytest.mark.parametrize("word", sample(["max(", "LEFT JOIN", "DISTINCT", "EXISTS", "UNION ALL"], 1))
def test_a_wrong_answer_is_noticed_and_made_small(root: Path, word: str) -> None:
    lance.write_dataset(ROWS, str(root / "t.lance"))
    references = References.over({"t": ROWS}, {})
    engine = QueryEngine(Catalog.open(str(root)))
    court = Court(Lying(GatewayEngine(engine), word), references.datafusion, references.duckdb)
    queries = Queries(random.Random(3), [SHAPE])
    try:
        small, verdict = _first_failure(court, queries)
    finally:
        references.close()
        engine.close()
    assert verdict.ours
    text = render(small.node, Reader.GATEWAY)[0]
    assert word in text
    assert len(text) < 200, text


def _first_failure(court: Court, queries: Queries) -> tuple[Statement, Verdict]:
    for _ in range(3000):
        statement = queries.statement()
        verdict = court.judge(statement)
        if verdict is not None and verdict.ours:
            break
    else:
        pytest.fail("no statement had the word, or nobody noticed")

    def fails(smaller: Statement) -> bool:
        found = court.judge(smaller)
        return found is not None and found.judge == verdict.judge

    return shrink(statement, fails), verdict


@pytest.mark.slow
def test_most_statements_are_answered_by_everybody() -> None:
    """A generator whose statements are refused would find nothing."""
    references = References.over({"t": ROWS}, {})
    queries = Queries(random.Random(7), [SHAPE])
    answered = agreed = 0
    for _ in range(300):
        node = queries.statement().node
        answers = 0
        for reference in (references.datafusion, references.duckdb):
            with suppress(AbstainError, Refused):
                reference.answer(node)
                answers += 1
        answered += answers > 0
        agreed += answers == 2
    references.close()
    assert answered > 280
    assert agreed > 200
