"""Runs of the fuzzer: lake after lake, statement after statement, until a number or a time is reached."""

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from planner.catalog import Catalog
from planner.engine import QueryEngine
from tests.fuzz.sql.grammar.queries import Queries, Statement
from tests.fuzz.sql.grammar.tree import Reader, render
from tests.fuzz.sql.judges.engines import UNPRUNED, GatewayEngine, References
from tests.fuzz.sql.judges.shrinking import shrink
from tests.fuzz.sql.judges.verdicts import Court, Tally, Verdict
from tests.fuzz.sql.lake.lakes import Lake
from tests.support.writer_process import WriterProcess

STATEMENTS_PER_LAKE = 800
STATEMENTS_PER_EVENT = 100


@dataclass(frozen=True)
class Mismatch:
    """A wrong answer, and how to get it again."""

    seed: int
    lake: int
    number: int
    verdict: Verdict
    sql: str
    shrunk: str
    parameters: tuple[object, ...]
    tables: str

    def __str__(self) -> str:
        return (
            f"{self.verdict.judge}\n  {self.verdict.detail}\n  statement: {self.sql}\n  shrunk: {self.shrunk}"
            f"{f' with {self.parameters}' if self.parameters else ''}\n  {self.tables}\n"
            f"  again: python -m tests.fuzz.sql --seed {self.seed} --lake {self.lake} --statements {self.number + 1}"
        )


@dataclass
class Report:
    """What a run came to."""

    seed: int
    tally: Tally = field(default_factory=Tally)
    mismatches: list[Mismatch] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def statements(self) -> int:
        """Judged."""
        return self.tally.counts["statements"]

    @property
    def ours(self) -> list[Mismatch]:
        """Mismatches in which the gateway is wrong."""
        return [one for one in self.mismatches if one.verdict.ours]


@dataclass
class Fuzzer:
    """Judges random statements over random lakes.

    Attributes:
        seed: All lakes and statements follow from it.
        per_lake: How many statements are asked of one lake.
        most: Mismatches after which a run ends.
    """

    seed: int
    per_lake: int = STATEMENTS_PER_LAKE
    most: int = 5
    report: Report = field(init=False)

    def __post_init__(self) -> None:
        self.report = Report(self.seed)

    def run(
        self, process: WriterProcess, *, statements: int, seconds: float = float("inf"), first_lake: int = 0
    ) -> Report:
        """Ask until so many statements are judged, or so many seconds have passed."""
        begin = time.monotonic()
        lake = first_lake
        while self.report.statements < statements and time.monotonic() - begin < seconds:
            left = statements - self.report.statements
            self._ask_lake(process, lake, min(left, self.per_lake), begin + seconds)
            if len(self.report.mismatches) >= self.most:
                break
            lake += 1
        self.report.seconds = time.monotonic() - begin
        return self.report

    def _ask_lake(self, process: WriterProcess, number: int, statements: int, deadline: float) -> None:
        rng = random.Random(f"{self.seed}/{number}")
        with _directory() as root:
            lake = Lake.draw(rng, root, process)
            engine = QueryEngine(Catalog.open(str(root)), partitions=rng.choice((None, 1, 3)))
            references = References.over({name: one.table() for name, one in lake.tables.items()}, lake.views)
            gateway = GatewayEngine(engine)
            unpruned = gateway.with_settings("region_pruning = false", UNPRUNED)
            court = Court(gateway, references.datafusion, references.duckdb, (unpruned,), self.report.tally)
            queries = Queries(rng, lake.shapes)
            try:
                for count in range(statements):
                    if count % STATEMENTS_PER_EVENT == STATEMENTS_PER_EVENT - 1:
                        held = lake.live(rng)
                        references.set_table(held.spec.name, held.table())
                    statement = queries.statement()
                    twins = court.twins if rng.random() < 0.2 else ()
                    verdict = court.judge(statement, twins)
                    if verdict is not None:
                        self._note(court, statement, twins, verdict, number, count, lake)
                        if len(self.report.mismatches) >= self.most:
                            return
                    if time.monotonic() > deadline:
                        return
            finally:
                lake.close()
                references.close()
                engine.close()

    def _note(
        self, court, statement: Statement, twins, verdict: Verdict, lake_number: int, number: int, lake: Lake
    ) -> None:
        counts = court.tally.counts.copy()

        def fails(smaller: Statement) -> bool:
            try:
                found = court.judge(smaller, twins)
            except Exception:  # noqa: BLE001 - the statement is no more one that can be judged
                return False
            return found is not None and found.judge == verdict.judge

        small = shrink(statement, fails)
        again = court.judge(small, twins) or verdict
        court.tally.counts = counts
        text, parameters = render(small.node, Reader.GATEWAY)
        names = [str(one) for one in lake.shapes if one.name in text.split()]
        names += [f"{name}: {sql}" for name, (sql, _) in lake.views.items() if name in text.split()]
        self.report.mismatches.append(
            Mismatch(
                self.seed, lake_number, number, again, render(statement.node, Reader.GATEWAY)[0], text,
                parameters, "\n  ".join(names),
            )
        )  # fmt: skip


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="fuzzed-"))
    try:
        yield path
    finally:
        # A writer that was abandoned may still finish a file of its own.
        shutil.rmtree(path, ignore_errors=True)
