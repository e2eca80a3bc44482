"""Asks typed statements of one lake, and notes what was asked and what was answered."""

import random
import re
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.fuzz.typed.aims import Aims
from tests.fuzz.typed.answers import values_of
from tests.fuzz.typed.expressions import Call, Drawer, Leaf, Node, Rendering, leaves_of
from tests.fuzz.typed.judges import Duck, Postgres, RefusedError
from tests.fuzz.typed.known import known
from tests.fuzz.typed.lake import KEY, OTHER, TABLE, Lake
from tests.fuzz.typed.operators import CLASS_OF, OPERATORS, Operator
from tests.fuzz.typed.places import PLACES, Place
from tests.fuzz.typed.report import Mismatch, Report
from tests.fuzz.typed.statements import Asked, Placed, Statement, cells_of
from tests.fuzz.typed.types import TYPES
from tests.support.processes.writer_process import WriterProcess

PER_LAKE = 2000
"""Statements of a lake, about."""
PLACES_OF_EXPRESSION = 4
_TYPES_OF_LAKE = 12
_MOST_DRAWN = 500
_PEOPLE = (
    "decimal",
    "float",
    "double",
    "timestamp_us_",
    "timestamp_ms_b",
    "timestamp_s_k",
    "timestamp_ns_n",
    "struct",
    "map",
)
_NAMES = r"\d+|'[^']*'|\"[^\"]*\""
_FAULTS = re.compile(
    r"internal|panic|physical plan|schema error|non-nullable|sanity|optimizer|\bbug\b", re.IGNORECASE
)


@dataclass
class Questions:
    """What is asked, and what is done with the answers.

    Attributes:
        seed: All lakes and statements follow from it.
        postgres: A session; None where it is not installed.
        report_mismatch: Called with each mismatch of a new kind.
        most: Kinds of mismatches after which a run ends.
        operators, types: What is asked about.
        fills: Whether the fields of structs that are NULL have values.
        is_patient: Whether differences that are being mended are known.
        places: Where expressions are written.
        ignored: Kinds of mismatches that are not reported.
        aimed: Which part of the expressions is drawn for cells of the coverage, in turn.
        concerns: Whether a statement is asked, by its text behind the types that it reads, in small letters.
    """

    seed: int
    postgres: Postgres | None = None
    report_mismatch: Callable[[Mismatch], None] = lambda _: None
    most: int = 10_000
    operators: Sequence[Operator] = OPERATORS
    types: Sequence[str] = tuple(one.name for one in TYPES)
    fills: bool = True
    is_patient: bool = True
    places: Sequence[Place] = PLACES
    ignored: Collection[str] = ()
    aimed: float = 0.9
    concerns: Callable[[str], bool] = lambda _: True


class Asking:
    """Statements that are asked of one lake.

    Args:
        questions: What is asked.
        report: Takes what comes of it.
        number: Of the lake.
        root: Of its files.
        process: Writes what only another process may write.
        stack: Closes what is opened.
        duck: Has the same rows.
    """

    def __init__(
        self,
        questions: Questions,
        report: Report,
        number: int,
        root: Path,
        process: WriterProcess,
        stack: ExitStack,
        duck: Duck,
    ) -> None:
        self._questions, self._report, self._number, self._duck = questions, report, number, duck
        self._rng = rng = random.Random(f"{questions.seed}/{number}")
        # All types come in turn.
        order = list(questions.types)
        random.Random(questions.seed).shuffle(order)
        begin = number * _TYPES_OF_LAKE % len(order)
        chosen = dict.fromkeys((order + order)[begin : begin + _TYPES_OF_LAKE])
        self._types = [one for one in TYPES if one.name in chosen]
        self._lake = Lake.draw(rng, root, self._types, process, stack, fills=questions.fills)
        self._drawer = Drawer(rng, self._lake.columns, questions.operators)
        self._aims = Aims(
            questions.seed, number * _TYPES_OF_LAKE // len(order), self._types, self._drawer.pairs()
        )
        self._templates = "; ".join(("SELECT {e}", *(one.sql for one in questions.places)))
        self._pairs: list[tuple[Leaf, Operator]] = []
        self._selected: list[tuple[Statement, list[Asked]]] = []
        self._refused: list[tuple[Statement, Call]] = []
        self._placed: list[Placed] = []
        self._planned = PER_LAKE
        duck.set_rows(self._lake.columns, self._lake.rows)
        if questions.postgres is not None:
            questions.postgres.set_rows(self._lake.columns, self._lake.rows)
        cells = [cells_of(self._lake.rows, one) for one in self._lake.columns]
        names = [one.name for one in self._lake.columns]
        keys = self._lake.rows.column(KEY).to_pylist()
        self._rows = {key: dict(zip(names, row, strict=True)) for key, *row in zip(keys, *cells, strict=True)}

    @property
    def _state(self) -> str:
        return self._lake.tables[TABLE].state

    def _is_at_end(self, until: int, end: float) -> bool:
        report = self._report
        is_enough = report.statements >= until or len(report.mismatches) >= self._questions.most
        return is_enough or time.monotonic() >= end

    def _advance(self, later: random.Random) -> None:
        """Bring the table to its next state, and the other one to any that is not beyond it."""
        table, other = self._lake.tables[TABLE], self._lake.tables[OTHER]
        table.advance()
        while other.state != table.state and later.random() < 0.7:
            other.advance()

    def _draw(self) -> tuple[Call, Sequence[Place]] | None:
        """Return an expression that is asked, and where; None if it seems that this lake has none."""
        rng = self._rng
        for _ in range(_MOST_DRAWN):
            self._report.counts["drawn"] += 1
            aimed = self._aims.draw(rng) if rng.random() < self._questions.aimed else None
            if aimed is not None:
                leaf, operator = aimed
            else:
                self._pairs = self._pairs or self._drawer.pairs()
                leaf, operator = self._pairs.pop()
            node = self._drawer.call(leaf, operator)
            if any(one.column for one in leaves_of(node)) and self._concerns(node, self._templates):
                return node, [] if aimed is None else self._aims.take(node, PLACES_OF_EXPRESSION)
        return None

    def _concerns(self, node: Call, template: str) -> bool:
        """Return whether an expression is asked in a place, or in one of many."""
        text = Rendering().text(node)
        read = [leaf.of for leaf in leaves_of(node) if leaf.of is not None]
        kinds = {"arrow.uuid" if one.rule == b"uuid" else str(one.arrow) for one in read}
        sql = template.replace("{e}", f"{text}", 2).replace("{l}", f"{text}").replace("{r}", f"{text}")
        return self._questions.concerns(f"{' '.join(sorted(kinds))} {sql}".lower())

    def _run(self, statement: Statement) -> pa.Table:
        """Return the rows of a statement, or how many it affects, in a transaction that does not commit."""
        self._report.counts["statements"] += 1
        engine, parameters = self._lake.engine, statement.parameters
        try:
            if statement.prepared is None:
                bound = [one.type for one in parameters]
                settings = replace(DEFAULT_SETTINGS, dialect=statement.dialect)
                statement.prepared = engine.prepare_statement(
                    statement.sql, settings, statement.access, bound=bound
                )
            prepared = statement.prepared
            if isinstance(prepared, PreparedQuery):
                answer = prepared.execute(parameters).read_all()
            else:
                control = RunControl()
                control.transaction = transaction = Transaction(engine, 1 << 30)
                with transaction.statement():
                    answer = pa.table({"n": [prepared.execute(parameters, control).affected]})
        except Exception as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise RefusedError(f"panic: {error}") from error
        self._report.counts["with rows"] += answer.num_rows > 0
        return answer

    def _select(self, nodes: Sequence[Call], *, keeps: bool = False) -> list[Asked | None]:
        """Return the values of expressions; in halves where all together are refused.

        Args:
            nodes: The expressions.
            keeps: Whether they are asked again in later states.
        """
        rendering = Rendering()
        texts = [rendering.text(one) for one in nodes]
        outputs = ", ".join(f"{text} AS c{index}" for index, text in enumerate(texts))
        statement = Statement(f"SELECT t.{KEY}, {outputs} FROM {TABLE} AS t", rendering.parameters)
        try:
            answer = self._run(statement)
        except RefusedError as refused:
            if len(nodes) > 1:
                half = len(nodes) // 2
                return [*self._select(nodes[:half], keeps=keeps), *self._select(nodes[half:], keeps=keeps)]
            self._refuse(nodes[0], str(refused), statement.sql, "SELECT")
            self._judge_refusal(nodes[0], str(refused))
            if keeps and statement.prepared is not None:
                self._refused.append((statement, nodes[0]))
            return [None]
        asked = self._read(nodes, answer)
        if keeps:
            self._selected.append((statement, asked))
        return list(asked)

    def _read(self, nodes: Sequence[Call], answer: pa.Table) -> list[Asked]:
        """Return expressions with the values in an answer."""
        keys = answer.column(KEY).to_pylist()
        for node in nodes:
            self._cover(node, "SELECT")
        return [
            Asked(
                node,
                dict(zip(keys, values_of(answer.column(index + 1)), strict=True)),
                answer.schema.field(index + 1).type,
            )
            for index, node in enumerate(nodes)
        ]

    def _refuse(self, node: Node, message: str, sql: str, place: str) -> None:
        """Count a refusal; one that is a fault of the machinery is a mismatch."""
        self._report.counts["refused"] += 1
        words = re.sub(_NAMES, "_", message)[:110]
        self._report.refusals[words] += 1
        self._report.examples.setdefault(words, f"{sql}: {message[:300]}")
        if _FAULTS.search(message[:400]):
            self._add("fault", node, place, sql, message[:400])

    def _partner(self, node: Call, *, is_column: bool) -> Node | None:
        """Return what an expression is compared with."""
        first = next(
            (leaf for leaf in leaves_of(node) if leaf.type is not None and leaf.group == node.group), None
        )
        for _ in range(20):
            made = self._drawer.operand(node.group) if first is None else self._drawer.like(first)
            if is_column == bool(next(leaves_of(made)).column):
                return made
        return None

    def _text(self, node: Node) -> str:
        rendering = Rendering()
        text = rendering.text(node)
        return f"{text}" + (f" with {rendering.parameters}" if rendering.parameters else "")

    def _shown(self, node: Node, key: int) -> str:
        """Return the cells that an expression reads in a row."""
        columns = dict.fromkeys(leaf.column for leaf in leaves_of(node) if leaf.column)
        return (
            ", ".join(f"{name} = {self._rows[key][name]!r}" for name in columns) if key in self._rows else ""
        )

    def _cover(self, node: Call, place: str) -> None:
        first = next(leaf for leaf in leaves_of(node) if leaf.column)
        assert first.of is not None
        assert first.type is not None
        kind = CLASS_OF.get(node.operator.name, "function")
        for name in {first.of.name, first.type.name}:
            self._report.cells[name, kind, place, self._state] += 1
        self._report.counts["of people"] += first.of.name.startswith(_PEOPLE)

    def _add(self, judge: str, node: Node, place: str, sql: str, detail: str | tuple[str, str]) -> None:
        operator = node.operator.name if isinstance(node, Call) else ""
        leaves = list(leaves_of(node))
        groups = " ".join(
            dict.fromkeys(leaf.type.name if leaf.type else leaf.spelling.ours for leaf in leaves[:2])
        )
        first = next((leaf.type.group for leaf in leaves if leaf.type), "")
        kind = f"{judge}: {operator} of {first}"
        if "refused:" in str(detail) or judge in {"refused", "fault"}:
            kind = f"{judge}: {re.sub(_NAMES, '_', str(detail))[:80]}"
        found = known(judge, f"{sql} {self._text(node)}", str(detail), pending=self._questions.is_patient)
        if found is not None:
            self._report.known[found.reason] += 1
            again = f"{found.reason}: {kind}"
            if again not in self._report.pending:
                self._report.pending[again] = f"{again}\n  {sql}\n  {detail}"
            return
        if kind in self._questions.ignored:
            return
        self._report.alike[kind] += 1
        if kind not in self._report.mismatches:
            log = "us" if self._lake.is_ours else "Lance"
            title = f"{operator} of {groups} ({first}) in {place}; log by {log}"
            one = Mismatch(
                judge,
                title,
                sql,
                str(detail),
                self._questions.seed,
                self._number,
                self._planned,
                self._report.statements,
            )
            self._report.mismatches[kind] = one
            self._questions.report_mismatch(one)
