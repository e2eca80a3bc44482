"""Runs of the fuzzer of types: lake after lake, batch after batch of expressions, place after place.

Each statement is prepared while the rows are in the base table, and executed again in each later state of the
table. About a tenth of the statements are prepared again before that.
"""

import math
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.fuzz.typed.aims import Aims
from tests.fuzz.typed.answers import (
    UnreadableError,
    are_equal,
    are_rows_close,
    as_column,
    read_as,
    row_key,
    values_of,
)
from tests.fuzz.typed.expressions import Call, Drawer, Leaf, Node, Rendering, bind, leaves_of, shrunk
from tests.fuzz.typed.judges import Duck, Postgres, RefusedError
from tests.fuzz.typed.known import known
from tests.fuzz.typed.lake import KEY, OTHER, ROWS, STATES, TABLE, Lake
from tests.fuzz.typed.operators import CLASS_OF, OPERATORS, Operator
from tests.fuzz.typed.places import LAST, PLACES, Place
from tests.fuzz.typed.report import Mismatch, Report
from tests.fuzz.typed.statements import (
    Asked,
    Placed,
    Statement,
    cells_of,
    column_of,
    digits_of,
    is_computed,
)
from tests.fuzz.typed.types import TYPES
from tests.support.judging.principals import create_principal
from tests.support.processes.writer_process import WriterProcess

PER_LAKE = 2000
"""Statements of a lake, about."""
_FIRST_SHARE = 0.29
"""Of the statements of a lake that are asked in the first state: constants are not asked again."""
_PREPARED_ANEW = 0.1
_IN_WORDS_OF: Sequence[tuple[str, float]] = (("postgres", 0.1), ("duckdb", 0.1))
"""Dialects, and which part of the expressions is asked in their words, too."""
_TYPES_OF_LAKE = 12
_BATCH = 10
_MOST_DRAWN = 500
_MOST_IDLE = 8
"""So many lakes without a statement, which have all types, end a run."""
_PLACES_OF_EXPRESSION = 4
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
class Machine:
    """Asks typed statements.

    Attributes:
        seed: All lakes and statements follow from it.
        postgres: A session; None where it is not installed.
        tell: What is done with a mismatch of a new kind.
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
    tell: Callable[[Mismatch], None] = lambda _: None
    most: int = 10_000
    operators: Sequence[Operator] = OPERATORS
    types: Sequence[str] = tuple(one.name for one in TYPES)
    fills: bool = True
    is_patient: bool = True
    places: Sequence[Place] = PLACES
    ignored: Collection[str] = ()
    aimed: float = 0.9
    concerns: Callable[[str], bool] = lambda _: True

    def run(
        self,
        process: WriterProcess,
        *,
        statements: int,
        seconds: float = float("inf"),
        first_lake: int = 0,
        report: Report | None = None,
        keep: Callable[[Report], object] = lambda _: None,
    ) -> Report:
        """Ask until so many statements are asked, or so many seconds have passed.

        Args:
            process: Writes what only another process may write.
            statements: In all, with those of a report that is continued.
            seconds: From now on.
            first_lake: Of a new report.
            report: The one to continue, if any.
            keep: Is given the report after each lake.
        """
        report = report or Report(self.seed, first_lake)
        begin, passed = time.monotonic(), report.seconds
        end = begin + seconds
        duck = Duck()
        idle = 0
        while (
            report.statements < statements
            and time.monotonic() < end
            and len(report.mismatches) < self.most
            and idle < _MOST_IDLE
        ):
            before = report.statements
            with _directory() as root, ExitStack() as stack:
                lake = _Asking(self, report, report.lake, root, process, stack, duck)
                lake.ask(min(report.statements + PER_LAKE, statements), end)
            idle = idle + 1 if report.statements == before else 0
            report.lake += 1
            report.seconds = passed + time.monotonic() - begin
            keep(report)
        duck.close()
        return report


class _Asking:
    """The statements that are asked of one lake."""

    def __init__(
        self,
        machine: Machine,
        report: Report,
        number: int,
        root: Path,
        process: WriterProcess,
        stack: ExitStack,
        duck: Duck,
    ) -> None:
        self._machine, self._report, self._number, self._duck = machine, report, number, duck
        self._rng = rng = random.Random(f"{machine.seed}/{number}")
        # All types come in turn.
        order = list(machine.types)
        random.Random(machine.seed).shuffle(order)
        begin = number * _TYPES_OF_LAKE % len(order)
        chosen = dict.fromkeys((order + order)[begin : begin + _TYPES_OF_LAKE])
        self._types = [one for one in TYPES if one.name in chosen]
        self._lake = Lake.draw(rng, root, self._types, process, stack, fills=machine.fills)
        self._drawer = Drawer(rng, self._lake.columns, machine.operators)
        self._aims = Aims(
            machine.seed, number * _TYPES_OF_LAKE // len(order), self._types, self._drawer.pairs()
        )
        self._templates = "; ".join(("SELECT {e}", *(one.sql for one in machine.places)))
        self._pairs: list[tuple[Leaf, Operator]] = []
        self._selected: list[tuple[Statement, list[Asked]]] = []
        self._refused: list[tuple[Statement, Call]] = []
        self._placed: list[Placed] = []
        self._planned = PER_LAKE
        duck.set_rows(self._lake.columns, self._lake.rows)
        if machine.postgres is not None:
            machine.postgres.set_rows(self._lake.columns, self._lake.rows)
        cells = [cells_of(self._lake.rows, one) for one in self._lake.columns]
        names = [one.name for one in self._lake.columns]
        keys = self._lake.rows.column(KEY).to_pylist()
        self._rows = {key: dict(zip(names, row, strict=True)) for key, *row in zip(keys, *cells, strict=True)}

    @property
    def _state(self) -> str:
        return self._lake.tables[TABLE].state

    def ask(self, until: int, end: float) -> None:
        """Judge batches of expressions in each state, until so many statements are asked."""
        self._planned = until - self._report.statements
        first = self._report.statements + math.ceil(self._planned * _FIRST_SHARE)
        while not self._is_at_end(first, end):
            drawn = [one for _ in range(_BATCH) if (one := self._draw()) is not None]
            if not drawn:
                break
            asked = self._select([node for node, _ in drawn], keeps=True)
            self._judge_by_postgres(asked)
            self._judge_by_duckdb(asked)
            for selected, (node, aims) in zip(asked, drawn, strict=True):
                if selected is None:
                    self._aims.give_back(node, aims)
                else:
                    self._judge_constants(selected)
                    self._judge_words(selected)
                    self._judge_places(selected, aims)
        later = random.Random(self._planned)
        for _ in STATES[1:]:
            if not self._is_at_end(until, end):
                self._advance(later)
                self._ask_again(later, until, end)

    def _is_at_end(self, until: int, end: float) -> bool:
        report = self._report
        is_enough = report.statements >= until or len(report.mismatches) >= self._machine.most
        return is_enough or time.monotonic() >= end

    def _advance(self, later: random.Random) -> None:
        """Bring the table to its next state, and the other one to any that is not beyond it."""
        table, other = self._lake.tables[TABLE], self._lake.tables[OTHER]
        table.advance()
        while other.state != table.state and later.random() < 0.7:
            other.advance()

    def _ask_again(self, later: random.Random, until: int, end: float) -> None:
        for statement, asked in self._selected:
            self._compare_states(statement, asked)
        for statement, node in self._refused:
            try:
                self._run(statement)
            except RefusedError:
                continue
            self._add(
                "state", node, "SELECT", self._text(node), "refused by base, answered by " + self._state
            )
        for placed in self._placed:
            if self._is_at_end(until, end):
                return
            if later.random() < _PREPARED_ANEW:
                placed.statement.prepared = None
            self._judge_again(placed)

    def _draw(self) -> tuple[Call, Sequence[Place]] | None:
        """Return an expression that is asked, and where; None if it seems that this lake has none."""
        rng = self._rng
        for _ in range(_MOST_DRAWN):
            self._report.counts["drawn"] += 1
            aimed = self._aims.draw(rng) if rng.random() < self._machine.aimed else None
            if aimed is not None:
                leaf, operator = aimed
            else:
                self._pairs = self._pairs or self._drawer.pairs()
                leaf, operator = self._pairs.pop()
            node = self._drawer.call(leaf, operator)
            if any(one.column for one in leaves_of(node)) and self._concerns(node, self._templates):
                return node, [] if aimed is None else self._aims.take(node, _PLACES_OF_EXPRESSION)
        return None

    def _concerns(self, node: Call, template: str) -> bool:
        """Return whether an expression is asked in a place, or in one of many."""
        text = Rendering().text(node)
        read = [leaf.of for leaf in leaves_of(node) if leaf.of is not None]
        kinds = {"arrow.uuid" if one.rule == b"uuid" else str(one.arrow) for one in read}
        sql = template.replace("{e}", f"{text}", 2).replace("{l}", f"{text}").replace("{r}", f"{text}")
        return self._machine.concerns(f"{' '.join(sorted(kinds))} {sql}".lower())

    # Asking

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

    # Judging

    def _compare_states(self, statement: Statement, asked: Sequence[Asked]) -> None:
        """The values are the same as in the first state."""
        state, nodes = self._state, [one.node for one in asked]
        try:
            now = self._read(nodes, self._run(statement))
        except RefusedError as refused:
            self._refuse(nodes[0], str(refused), statement.sql, "SELECT")
            detail = f"answered by base, refused by {state}: {str(refused)[:300]}"
            self._add("state", nodes[0], "SELECT", statement.sql, detail)
            return
        for node, base, one in zip(nodes, asked, now, strict=True):
            if repr(sorted(one.values.items())) != repr(sorted(base.values.items())):
                key = next(
                    key
                    for key in (*base.values, *one.values)
                    if repr(one.values.get(key, "no row")) != repr(base.values.get(key, "no row"))
                )
                shown = self._shown(node, key)
                detail = f"row {key}: {state} {one.values.get(key)!r}, base {base.values.get(key)!r}; {shown}"
                self._add("state", node, f"SELECT of {state}", self._text(node), detail)

    def _judge_by_postgres(self, asked: Sequence[Asked | None]) -> None:
        postgres = self._machine.postgres
        if postgres is None:
            return
        rendering = Rendering("postgres")
        texts = [
            (one, text) for one in asked if one is not None and (text := rendering.text(one.node)) is not None
        ]
        for one, text, answers in _in_batches(postgres.answer, texts, self._report.counts):
            self._report.counts["judged by postgres"] += 1
            for key, value in one.values.items():
                try:
                    theirs = read_as(answers[key], one.arrow)
                except UnreadableError:
                    self._report.counts["unreadable"] += 1
                    break
                if not are_equal(value, theirs, one.arrow, digits=digits_of(one.node)):
                    detail = (
                        f"row {key}: {value!r}, {theirs!r} by postgres ({text}); {self._shown(one.node, key)}"
                    )
                    self._add("postgres", one.node, "SELECT", self._text(one.node), detail)
                    break

    def _judge_refusal(self, node: Call, message: str) -> None:
        """What PostgreSQL answers for all rows is refused here."""
        text = Rendering("postgres").text(node)
        if self._machine.postgres is not None and text is not None:
            try:
                self._machine.postgres.answer([text])
            except RefusedError:
                return
            self._add("refused", node, "SELECT", self._text(node), message[:300])

    def _judge_by_duckdb(self, asked: Sequence[Asked | None]) -> None:
        rendering = Rendering("duckdb")
        texts = [
            (one, text) for one in asked if one is not None and (text := rendering.text(one.node)) is not None
        ]

        def answer(expressions: Sequence[str]) -> dict[int, list[Any]]:
            table = self._duck.answer(expressions)
            columns = [values_of(one) for one in table.columns]
            return {key: list(row) for key, *row in zip(*columns, strict=True)}

        for one, text, answers in _in_batches(answer, texts, self._report.counts):
            self._report.counts["judged by duckdb"] += 1
            for key, value in one.values.items():
                if not are_equal(value, answers[key], one.arrow, digits=digits_of(one.node)):
                    shown = self._shown(one.node, key)
                    detail = f"row {key}: {value!r}, {answers[key]!r} by duckdb ({text}); {shown}"
                    self._add("duckdb", one.node, "SELECT", self._text(one.node), detail)
                    break

    def _judge_constants(self, asked: Asked) -> None:
        """With a row's values in the place of columns, the expression has that row's value."""
        key = self._rng.choice(list(asked.values))
        bound = bind(asked.node, self._rows[key])
        if bound is None:
            return
        rendering = Rendering()
        sql = f"SELECT {rendering.text(bound)} AS v"
        self._cover(asked.node, "constant")
        try:
            answer = self._run(Statement(sql, rendering.parameters))
        except RefusedError as refused:
            self._refuse(asked.node, str(refused), sql, "constant")
            self._add("constant: refused", asked.node, "constant", sql, str(refused)[:300])
            return
        (value,) = values_of(answer.column(0))
        if not are_equal(asked.values[key], value, asked.arrow):
            self._add(
                "constant",
                asked.node,
                "constant",
                sql,
                f"{value!r}, and {asked.values[key]!r} in row {key}: {self._text(asked.node)}",
            )

    def _judge_words(self, asked: Asked) -> None:
        """What means the same in the words of another dialect has the same values."""
        for dialect, part in _IN_WORDS_OF:
            text = Rendering(dialect).text(asked.node) if self._rng.random() < part else None
            if text is None or any(leaf.source == "parameter" for leaf in leaves_of(asked.node)):
                continue
            sql = f"SELECT {KEY}, {text} AS v FROM {TABLE}"
            try:
                answer = self._run(Statement(sql, dialect=dialect))
            except RefusedError as refused:
                self._refuse(asked.node, str(refused), sql, "SELECT")
                continue
            found = dict(zip(answer.column(0).to_pylist(), values_of(answer.column(1)), strict=True))
            for key, value in asked.values.items():
                if not are_equal(found[key], value, asked.arrow, digits=digits_of(asked.node)):
                    detail = f"row {key}: {value!r}, {found[key]!r} of {text}; {self._shown(asked.node, key)}"
                    self._add(f"words of {dialect}", asked.node, "SELECT", self._text(asked.node), detail)
                    break

    def _judge_places(self, asked: Asked, aims: Sequence[Place]) -> None:
        fitting = [
            one
            for one in self._machine.places
            if one.takes(asked.node.group) and self._concerns(asked.node, one.sql)
        ]
        there = {str(one) for one in asked.values.values()}
        has_zeros = there >= {"0.0", "-0.0"}
        has_signs = "NaN" in there and is_computed(asked.node)
        chosen = self._rng.sample(fitting, min(_PLACES_OF_EXPRESSION, len(fitting)))
        for place in aims or chosen:
            before = self._report.statements
            # Groups have 0.0 apart from -0.0, and NaN from NaN with a sign: docs/sql.md. Extremes are equal.
            is_apart = has_signs or (has_zeros and not place.name.startswith("extremes"))
            if place.is_condition or not is_apart:
                self._judge_place(asked, place)
            if aims and self._report.statements == before:
                self._aims.give_back(asked.node, [place])

    def _judge_place(self, asked: Asked, place: Place) -> None:
        placed = self._write(asked.node, place, self._rng.randrange(ROWS), asked.values)
        if placed is not None and self._judge_again(placed):
            self._placed.append(placed)

    def _judge_again(self, placed: Placed) -> bool:
        """Run a statement, and add the mismatch if its rows are wrong; return whether it is answered."""
        is_answered, detail = self._differs(placed)
        if detail is not None:
            state, other = self._state, self._lake.tables[OTHER].state
            kept = self._rng.getstate()
            node, sql, detail = self._shrink(placed, detail)
            self._rng.setstate(kept)
            where = f"{detail} in {state}, beside others in {other}"
            self._add(f"place {placed.place.name}", node, placed.place.name, sql, where)
        return is_answered

    def _write(
        self, node: Call, place: Place, key: int, values: dict[int, Any], partner: Node | None = None
    ) -> Placed | None:
        """Write an expression in a place; return None if it is not written there."""
        rendering = Rendering(qualifier=place.qualifier.format(t=TABLE))
        right = Rendering(qualifier="r.", parameters=rendering.parameters)
        names = {
            "t": TABLE,
            "u": OTHER,
            "key": key,
            "last": LAST,
            "e": rendering.text(node),
            "l": "",
            "r": "",
            "c": column_of(node),
        }
        if (
            place.is_condition
            and place.qualifier == ""
            and any(leaf.source == "parameter" for leaf in leaves_of(node))
        ):
            return None  # Policies have no parameters.
        if "{l}" in place.sql or "{r}" in place.sql:
            partner = partner or self._partner(node, is_column="{r}" in place.sql)
            if partner is None:
                return None
            names |= {"r": right.text(partner)} if "{r}" in place.sql else {"l": rendering.text(partner)}
        if "{bound}" in place.sql:
            rendering.parameters.append(pa.scalar(key))
            names["bound"] = f"${len(rendering.parameters)}"
        access: Access = FULL_ACCESS
        if place.name == "policy":
            access = create_principal(**{TABLE: TableAccess(str(names["e"]), {}, frozenset())})
        statement = Statement(place.sql.format(**names), rendering.parameters, access)
        again = Statement(place.same_as.format(**names), rendering.parameters) if place.same_as else None
        return Placed(node, place, statement, again, values, key)

    def _differs(self, placed: Placed) -> tuple[bool, str | None]:
        """Return whether a statement is answered, and how its rows differ from those that it must give."""
        node, place, values = placed.node, placed.place, placed.values
        self._cover(node, place.name)
        try:
            answer = self._run(placed.statement)
        except RefusedError as refused:
            self._refuse(node, str(refused), placed.statement.sql, place.name)
            if "UnsupportedError" in str(refused) or self._is_refused(placed.again):
                return False, None
            return False, f"refused: {str(refused)[:300]}"
        columns = answer.columns[:1] if place.name == "WHERE columns" else answer.columns
        rows = list(zip(*map(values_of, columns), strict=True))
        if place.expected is not None:
            wanted = place.expected(values, placed.key)
        elif placed.again is not None:
            try:
                others = map(values_of, self._run(placed.again).columns)
                wanted = list(zip(*map(as_column, others, columns), strict=True))
            except RefusedError as refused:
                self._refuse(node, str(refused), placed.again.sql, place.name)
                return False, None
        else:
            wanted = None
        if wanted is None or rows == wanted:
            return True, None
        found, sought = (Counter(row_key(row, place.digits) for row in one) for one in (rows, wanted))
        if found == sought and not place.is_ordered:
            return True, None
        extra, missing = list((found - sought).elements()), list((sought - found).elements())
        if not place.is_ordered and are_rows_close(extra, missing, place.digits):
            return True, None
        keys = [row[0] for row in (*extra, *missing) if isinstance(row[0], int) and row[0] in values][:1]
        shown = (
            f"; row {keys[0]}: {self._shown(node, keys[0])}, SELECT says {values[keys[0]]!r}" if keys else ""
        )
        more = f"; by {placed.again.sql}" if placed.again is not None else ""
        return True, f"unexpected {extra[:3]}, missing {missing[:3]} of {len(wanted)} rows{shown}{more}"

    def _is_refused(self, statement: Statement | None) -> bool:
        """Return whether the statement with the same rows, or with the same refusals, is refused, too."""
        if statement is None:
            return False
        try:
            self._run(statement)
        except RefusedError:
            return True
        return False

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

    def _shrink(self, placed: Placed, detail: str) -> tuple[Call, str, str]:
        """Return the smallest expression found that fails in that place, its statement, and how it fails."""
        counts = self._report.counts.copy()
        node, sql = placed.node, placed.statement.sql
        left = 30
        while left:
            for smaller in shrunk(node):
                left -= 1
                if not left:
                    break
                if not isinstance(smaller, Call) or not any(leaf.column for leaf in leaves_of(smaller)):
                    continue
                (asked,) = self._select([smaller])
                again = asked and self._write(smaller, placed.place, placed.key, asked.values)
                found = self._differs(again)[1] if again else None
                if again and found and ("refused" in found) == ("refused" in detail):
                    node, sql, detail = smaller, again.statement.sql, found
                    break
            else:
                break
        self._report.counts = counts
        return node, sql, detail

    # Reporting

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
        found = known(judge, f"{sql} {self._text(node)}", str(detail), pending=self._machine.is_patient)
        if found is not None:
            self._report.known[found.reason] += 1
            again = f"{found.reason}: {kind}"
            if again not in self._report.pending:
                self._report.pending[again] = f"{again}\n  {sql}\n  {detail}"
            return
        if kind in self._machine.ignored:
            return
        self._report.alike[kind] += 1
        if kind not in self._report.mismatches:
            log = "us" if self._lake.is_ours else "Lance"
            told = f"{operator} of {groups} ({first}) in {place}; log by {log}"
            one = Mismatch(
                judge,
                told,
                sql,
                str(detail),
                self._machine.seed,
                self._number,
                self._planned,
                self._report.statements,
            )
            self._report.mismatches[kind] = one
            self._machine.tell(one)


def _in_batches(
    answer: Callable[[Sequence[str]], dict[int, list[Any]]],
    texts: Sequence[tuple[Asked, str]],
    counts: Counter[str],
) -> Iterator[tuple[Asked, str, dict[int, Any]]]:
    """Yield what another engine says of each expression; those that it refuses are left out."""
    try:
        found = answer([text for _, text in texts]) if texts else {}
    except RefusedError:
        if len(texts) > 1:
            for one in texts:
                yield from _in_batches(answer, [one], counts)
        else:
            counts["refused by another engine"] += 1
        return
    for index, (one, text) in enumerate(texts):
        yield one, text, {key: values[index] for key, values in found.items()}


@contextmanager
def _directory() -> Iterator[Path]:
    place = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="typed-", dir=place))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)
