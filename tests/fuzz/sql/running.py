"""Runs of the fuzzer: lake after lake, statement after statement, until a number or a time is reached."""

import random
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lance_gateway.planner.engine import PreparedQuery, QueryEngine
from lance_gateway.planner.plans.leaves.resident_tables import RESIDENT_ROWS
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.fuzz.sql.grammar.blocks import Relation, Select
from tests.fuzz.sql.grammar.kinds import draw_value
from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.tree import AbstainError, Reader, Spelled, render
from tests.fuzz.sql.judges.answers import rows_of
from tests.fuzz.sql.judges.engines import Engine, Refused
from tests.fuzz.sql.judges.known import CAUTIOUS, known_refusal
from tests.fuzz.sql.judges.shrinking import shrink
from tests.fuzz.sql.judges.verdicts import Outcome, Tally, Verdict
from tests.fuzz.sql.judges.worlds import World
from tests.fuzz.sql.lake.access import Rights
from tests.fuzz.sql.lake.changes import Change, Changes
from tests.fuzz.sql.lake.lakes import HeldTable, Lake
from tests.fuzz.sql.lake.past import Past
from tests.support.processes.gateways import EAGER
from tests.support.processes.writer_process import WriterProcess

_ASKED, _AGAIN_SHARE = 40, 0.1
"""So many of the last statements of a lake are asked again, at random."""
STATEMENTS_PER_LAKE = 1000
STATEMENTS_PER_EVENT = 60


@dataclass(frozen=True)
class Shares:
    """How often answers are checked by one another.

    Attributes:
        laws: Of the statements, those that are laws.
        forms: Of the statements, those that are asked in another form.
        past: Of the lakes, those with a table whose past is read.
    """

    laws: float = 0.08
    forms: float = 0.08
    past: float = 0.15


THOROUGH = Shares(laws=0.3, forms=0.4, past=0.6)


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
    is_thorough: bool

    def __str__(self) -> str:
        bound = f" with {self.parameters}" if self.parameters else ""
        return (
            f"{self.verdict.judge}\n  {self.verdict.detail}\n  statement: {self.sql}\n  shrunk: {self.shrunk}"
            f"{bound}\n  {self.tables}\n  again: python -m tests.fuzz.sql --seed {self.seed} "
            f"--lake {self.lake} --statements {self.number + 1}{' --thorough' if self.is_thorough else ''}"
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
        """Mismatches in which the gateway is wrong, as far as is known."""
        return [one for one in self.mismatches if one.verdict.ours]

    def __str__(self) -> str:
        return "\n".join([*(f"\n{one}" for one in self.mismatches), self.figures()])

    def figures(self) -> str:
        """Return how many statements each judge has heard."""
        lines = [f"\nseed {self.seed}: {self.statements / max(self.seconds, 1e-9):.0f} statements/s"]
        tally = self.tally
        lines += [f"{count:10} {judge}" for judge, count in tally.counts.most_common()]
        lines.append(
            f"of {tally.outcomes.total()} statements that DuckDB answers: "
            + ", ".join(f"{tally.outcomes[one]} ({tally.share(one):.2%}) {one.value}" for one in Outcome)
        )
        lines.append(f"refused out of caution: {tally.refused_share:.1%} of the statements")
        lines += [
            f"{count:10} {words} (DataFusion alone is right in {tally.needless[words]}, "
            f"not so in {tally.disputed[words]})"
            for words, count in tally.refusals.most_common()
        ]
        lines += [f"right all the same: {one}" for one in tally.examples.values()]
        return "\n".join(lines)


@dataclass
class Fuzzer:
    """Judges random statements over random lakes.

    Attributes:
        seed: All lakes and statements follow from it.
        per_lake: How many statements are asked of one lake.
        most: Mismatches after which a run ends.
        tell: What is done with a mismatch as soon as it is found.
        is_thorough: Whether answers are checked by one another more often.
    """

    seed: int
    per_lake: int = STATEMENTS_PER_LAKE
    most: int = 5
    tell: Callable[[Mismatch], None] = lambda _: None
    is_thorough: bool = False

    @property
    def shares(self) -> Shares:
        """How often answers are checked by one another."""
        return THOROUGH if self.is_thorough else Shares()

    def run(
        self, process: WriterProcess, *, statements: int, seconds: float = float("inf"), first_lake: int = 0
    ) -> Report:
        """Ask until so many statements are judged, or so many seconds have passed."""
        report = Report(self.seed)
        begin = time.monotonic()
        number = first_lake
        while report.statements < statements and time.monotonic() - begin < seconds:
            left = statements - report.statements
            with _directory() as root, ExitStack() as stack:
                try:
                    asking = _Asking(self, report, process, number, root, stack)
                    asking.ask(min(left, self.per_lake), begin + seconds)
                except Refused as refused:
                    # Rights that can't be computed for the values of a table, or a view that can't be read.
                    if known_refusal(str(refused)) is None:
                        raise
                    report.tally.add("lakes given up")
            if len(report.mismatches) >= self.most:
                break
            number += 1
        report.seconds = time.monotonic() - begin
        return report


class _Asking:
    """The statements that are asked of one lake."""

    def __init__(
        self,
        fuzzer: Fuzzer,
        report: Report,
        process: WriterProcess,
        number: int,
        root: Path,
        stack: ExitStack,
    ) -> None:
        self._fuzzer, self._report, self._number = fuzzer, report, number
        self._shares = fuzzer.shares
        self._rng = rng = random.Random(f"{fuzzer.seed}/{number}")
        self._lake = lake = Lake.draw(rng, root, process)
        stack.callback(lake.close)
        # Not as many as there are cores: a seed is to mean the same on every machine.
        partitions = rng.choice((2, 1, 3))
        # One of them has resident tables, though all tables are small.
        self._engines = tuple(
            QueryEngine(
                Catalog.open(str(root), writing=EAGER), partitions=partitions, resident_rows=least_rows
            )
            for least_rows in rng.sample((0, RESIDENT_ROWS), 2)
        )
        for engine in self._engines:
            stack.callback(engine.close)
        tables = {name: one.spec.shape for name, one in lake.tables.items()}
        views = tuple(one for one in lake.shapes if one.name in lake.views)
        past = Past.remember(rng, lake, self._engines[0]) if rng.random() < self._shares.past else None
        rights = Rights.draw(rng, tables, views)
        self._worlds = [
            World.open(rng, lake, self._engines, report.tally, None, past),
            World.open(rng, lake, self._engines, report.tally, rights),
        ]
        for world in self._worlds:
            stack.callback(world.close)
        self._asked: deque[tuple[World, Statement]] = deque(maxlen=_ASKED)
        self._count = 0

    def ask(self, statements: int, deadline: float) -> None:
        """Judge so many statements, among writes."""
        for self._count in range(statements):
            if self._count % STATEMENTS_PER_EVENT == STATEMENTS_PER_EVENT - 1:
                self._live()
            world = self._worlds[self._rng.random() < 0.25]
            statement = self._statement(world)
            self._judge(world, statement)
            self._asked.append((world, statement))
            if self._rng.random() < _AGAIN_SHARE:
                # What is kept of a statement must hold after writes.
                self._judge(*self._rng.choice(self._asked))
            if statement.has_parameters:
                # The plan is made by now.
                self._judge(world, statement.with_values(lambda kind: draw_value(self._rng, kind)))
            if len(self._report.mismatches) >= self._fuzzer.most or time.monotonic() > deadline:
                return

    def _statement(self, world: World) -> Statement:
        return world.queries.trial() if self._rng.random() < self._shares.laws else world.queries.statement()

    def _judge(self, world: World, statement: Statement) -> None:
        twins = world.twins(self._rng, self._shares.forms)
        verdict = world.court.judge(statement, twins)
        if verdict is not None:
            self._note(world, statement, twins, verdict)

    def _note(self, world: World, statement: Statement, twins: tuple[Engine, ...], verdict: Verdict) -> None:
        """Make the statement small, and report it."""
        court = world.court
        counted = court.tally.copy()

        def fails(smaller: Statement) -> bool:
            try:
                found = court.judge(smaller, twins)
            except Exception:  # noqa: BLE001 - the statement is no more one that can be judged
                return False
            return found is not None and found.judge == verdict.judge

        small = shrink(statement, fails)
        again = court.judge(small, twins) or verdict
        court.tally.restore(counted)
        text, parameters = render(small.node, Reader.GATEWAY)
        words = text.replace('"', " ").replace(")", " ").split()
        names = [str(one) for one in self._lake.shapes if one.name in words]
        names += [f"{name}: {sql}" for name, (sql, _) in self._lake.views.items() if name in words]
        names += [f"rights: {world.rights}"] if world.rights is not None else []
        names += [f"{engine.name}: {_told(engine, small)}" for engine in world.everybody()]
        self._add(again, render(statement.node, Reader.GATEWAY)[0], text, parameters, "\n  ".join(names))

    def _add(
        self, verdict: Verdict, sql: str, shrunk: str, parameters: tuple[object, ...] = (), tables: str = ""
    ) -> None:
        fuzzer = self._fuzzer
        mismatch = Mismatch(
            fuzzer.seed, self._number, self._count, verdict, sql, shrunk, parameters, tables,
            fuzzer.is_thorough,
        )  # fmt: skip
        self._report.mismatches.append(mismatch)
        self._fuzzer.tell(mismatch)

    # Writes

    def _live(self) -> None:
        """Something happens to the rows, by Lance's writers, by SQL, or by a merge."""
        written = [one for one in self._lake.tables.values() if one.spec.is_written]
        if written and self._rng.random() < 0.7:
            held = self._rng.choice(written)
            self._change(held)
        else:
            held = self._lake.live(self._rng)
        self._report.tally.add("events")
        for world in self._worlds:
            world.refresh(held.spec.name)
        everything = Select(source=Relation(held.spec.name, held.spec.name), star=Spelled("*", None))
        self._judge(self._worlds[0], Statement(everything))

    def _change(self, held: HeldTable) -> None:
        """A statement through one of the gateways, to which Lance's writers lose their regions."""
        held.let_go(flush=self._rng.random() < 0.5)
        datafusion = self._worlds[0].references.datafusion
        change = Changes(self._rng, held, datafusion).draw()
        self._report.tally.add("changes")
        engine = self._rng.choice(self._engines)
        try:
            prepared = engine.prepare_statement(change.sql)
            assert not isinstance(prepared, PreparedQuery)
            affected = prepared.execute(change.parameters).affected
        except Exception as error:  # noqa: BLE001 - whatever it is, it is reported
            if known_refusal(str(error)) in CAUTIOUS:
                self._report.tally.add("known refusals")
                return
            self._add(Verdict("change: refused", f"{type(error).__name__}: {error}"), change.sql, change.sql)
            return
        if affected != change.affected:
            detail = f"{affected} rows were affected instead of {change.affected}"
            self._add(Verdict("change: affected", detail), change.sql, change.sql, change.parameters)
        self._take(held, change)
        if self._rng.random() < 0.2:
            engine.catalog.table(held.spec.name).writer().flush()

    def _take(self, held: HeldTable, change: Change) -> None:
        for key, row in change.rows.items():
            if row is None:
                held.rows.pop(key, None)
            else:
                held.rows[key] = row


def _told(engine: Engine, statement: Statement) -> str:
    """An answer in few words."""
    try:
        answers = [engine.answer(one) for one in statement.nodes]
    except (Refused, AbstainError) as error:
        return f"{type(error).__name__} {str(error)[:100]}"
    return "; ".join(f"{one.num_rows} rows {rows_of(one)[:4]}" for one in answers)


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="fuzzed-"))
    try:
        yield path
    finally:
        # A writer that was abandoned may still finish a file of its own.
        shutil.rmtree(path, ignore_errors=True)
