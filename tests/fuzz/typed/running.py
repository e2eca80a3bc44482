"""Runs of the fuzzer of types: lake after lake, batch after batch of expressions, place after place."""

import math
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.engine import PreparedQuery
from lance_gateway.planner.writes.transactions.transaction import Transaction
from tests.fuzz.typed.aims import Aim, Aims
from tests.fuzz.typed.answers import UnreadableError, are_equal, read_as, values_of
from tests.fuzz.typed.expressions import Call, Drawer, Leaf, Node, Rendering, bind, leaves_of, shrunk
from tests.fuzz.typed.judges import Duck, Postgres, RefusedError
from tests.fuzz.typed.known import known
from tests.fuzz.typed.lake import KEY, ROWS, STATES, Column, Lake
from tests.fuzz.typed.operators import CLASS_OF, OPERATORS, Operator
from tests.fuzz.typed.places import LAST, PLACES, Place
from tests.fuzz.typed.report import Mismatch, Report
from tests.fuzz.typed.types import TYPES
from tests.support.judging.principals import create_principal
from tests.support.processes.writer_process import WriterProcess

PER_LAKE = 2000
"""Statements of a lake, about."""
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
_GROWING = re.compile(r"(?:exp|sin|cos|tan|cot|log\w*|ln)h?\(|\^")
"""Functions whose result differs more than what it is computed from, of large numbers or near 0."""
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
        self, process: WriterProcess, *, statements: int, seconds: float = float("inf"), first_lake: int = 0
    ) -> Report:
        """Ask until so many statements are asked, or so many seconds have passed."""
        report = Report(self.seed)
        begin, number = time.monotonic(), first_lake
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
                lake = _Asking(self, report, number, root, process, stack, duck)
                lake.ask(min(report.statements + PER_LAKE, statements), end)
            idle = idle + 1 if report.statements == before else 0
            number += 1
        duck.close()
        report.seconds = time.monotonic() - begin
        return report


@dataclass(frozen=True)
class _Asked:
    """An expression with its values.

    Attributes:
        arrow: The type of the values.
    """

    node: Call
    values: dict[int, Any]
    arrow: pa.DataType


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
        self._begin = report.statements
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
        duck.set_rows(self._lake.columns, self._lake.rows)
        if machine.postgres is not None:
            machine.postgres.set_rows(self._lake.columns, self._lake.rows)
        cells = [_cells(self._lake.rows, one) for one in self._lake.columns]
        names = [one.name for one in self._lake.columns]
        keys = self._lake.rows.column(KEY).to_pylist()
        self._rows = {key: dict(zip(names, row, strict=True)) for key, *row in zip(keys, *cells, strict=True)}

    def ask(self, until: int, end: float) -> None:
        """Judge batches of expressions until so many statements are asked."""
        most = self._machine.most
        while (
            self._report.statements < until and time.monotonic() < end and len(self._report.mismatches) < most
        ):
            drawn = [one for _ in range(_BATCH) if (one := self._draw()) is not None]
            if not drawn:
                break
            nodes = [node for node, _ in drawn]
            asked = self._select_everywhere(nodes)
            for index, node in enumerate(nodes):
                found = {state: answers[index] for state, answers in asked.items()}
                self._compare_states(node, found)
            self._judge_by_postgres(asked["base"])
            self._judge_by_duckdb(asked["base"])
            for selected, (node, aims) in zip(asked["base"], drawn, strict=True):
                if selected is None:
                    self._aims.give_back(node, aims)
                else:
                    self._judge_constants(selected)
                    self._judge_places(selected, aims)

    def _draw(self) -> tuple[Call, Sequence[Aim]] | None:
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

    def _run(self, sql: str, parameters: Sequence[pa.Scalar] = (), access: Access = FULL_ACCESS) -> pa.Table:
        """Return the rows of a statement, or how many it affects, in a transaction that does not commit."""
        self._report.counts["statements"] += 1
        engine = self._lake.engine
        try:
            bound = [one.type for one in parameters]
            prepared = engine.prepare_statement(sql, access=access, bound=bound)
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

    def _select_everywhere(self, nodes: Sequence[Call]) -> dict[str, list[_Asked | None]]:
        """Return the values of expressions in each state; what one refuses is asked alone of the others."""
        first, *others = STATES
        asked = {first: self._select(nodes, first)}
        good = [node for node, one in zip(nodes, asked[first], strict=True) if one is not None]
        for state in others:
            found = iter(self._select(good, state) if good else ())
            asked[state] = [
                self._select([node], state)[0] if one is None else next(found)
                for node, one in zip(nodes, asked[first], strict=True)
            ]
        return asked

    def _select(self, nodes: Sequence[Call], state: str) -> list[_Asked | None]:
        """Return the values of expressions in a table; in halves where all together are refused."""
        rendering = Rendering()
        texts = [rendering.text(one) for one in nodes]
        outputs = ", ".join(f"{text} AS c{index}" for index, text in enumerate(texts))
        sql = f"SELECT t.{KEY}, {outputs} FROM {state} AS t"
        try:
            answer = self._run(sql, rendering.parameters)
        except RefusedError as refused:
            if len(nodes) > 1:
                half = len(nodes) // 2
                return [*self._select(nodes[:half], state), *self._select(nodes[half:], state)]
            self._refuse(nodes[0], str(refused), sql, "SELECT", state)
            if state == "base":
                self._judge_refusal(nodes[0], str(refused))
            return [None]
        keys = answer.column(KEY).to_pylist()
        for node in nodes:
            self._cover(node, "SELECT", state)
        return [
            _Asked(
                node,
                dict(zip(keys, values_of(answer.column(index + 1)), strict=True)),
                answer.schema.field(index + 1).type,
            )
            for index, node in enumerate(nodes)
        ]

    def _refuse(self, node: Node, message: str, sql: str, place: str, state: str) -> None:
        """Count a refusal; one that is a fault of the machinery is a mismatch."""
        del state
        self._report.counts["refused"] += 1
        words = re.sub(_NAMES, "_", message)[:110]
        self._report.refusals[words] += 1
        self._report.examples.setdefault(words, f"{sql}: {message[:300]}")
        if _FAULTS.search(message[:400]):
            self._add("fault", node, place, sql, message[:400])

    # Judging

    def _compare_states(self, node: Call, found: dict[str, _Asked | None]) -> None:
        there = {state: one for state, one in found.items() if one is not None}
        base = found["base"]
        if base is None:
            if there:
                self._add(
                    "state", node, "SELECT", self._text(node), f"refused by base, answered by {list(there)}"
                )
            return
        for state in STATES:
            one = found[state]
            if one is None:
                self._add("state", node, "SELECT", self._text(node), f"answered by base, refused by {state}")
            elif repr(sorted(one.values.items())) != repr(sorted(base.values.items())):
                key = next(
                    key
                    for key in (*base.values, *one.values)
                    if repr(one.values.get(key, "no row")) != repr(base.values.get(key, "no row"))
                )
                shown = self._shown(node, key)
                detail = f"row {key}: {state} {one.values.get(key)!r}, base {base.values.get(key)!r}; {shown}"
                self._add("state", node, f"SELECT of {state}", self._text(node), detail)

    def _judge_by_postgres(self, asked: Sequence[_Asked | None]) -> None:
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
                if not are_equal(value, theirs, one.arrow, digits=_digits_of(one.node)):
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

    def _judge_by_duckdb(self, asked: Sequence[_Asked | None]) -> None:
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
                if not are_equal(value, answers[key], one.arrow, digits=_digits_of(one.node)):
                    shown = self._shown(one.node, key)
                    detail = f"row {key}: {value!r}, {answers[key]!r} by duckdb ({text}); {shown}"
                    self._add("duckdb", one.node, "SELECT", self._text(one.node), detail)
                    break

    def _judge_constants(self, asked: _Asked) -> None:
        """With a row's values in the place of columns, the expression has that row's value."""
        key = self._rng.choice(list(asked.values))
        bound = bind(asked.node, self._rows[key])
        if bound is None:
            return
        rendering = Rendering()
        sql = f"SELECT {rendering.text(bound)} AS v"
        self._cover(asked.node, "constant", "none")
        try:
            answer = self._run(sql, rendering.parameters)
        except RefusedError as refused:
            self._refuse(asked.node, str(refused), sql, "constant", "none")
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

    def _judge_places(self, asked: _Asked, aims: Sequence[Aim]) -> None:
        fitting = [
            one
            for one in self._machine.places
            if one.takes(asked.node.group) and self._concerns(asked.node, one.sql)
        ]
        there = {str(one) for one in asked.values.values()}
        has_zeros = there >= {"0.0", "-0.0"}
        has_signs = "NaN" in there and _is_computed(asked.node)
        chosen = self._rng.sample(fitting, min(_PLACES_OF_EXPRESSION, len(fitting)))
        for place, state in aims or [(one, self._rng.choice(STATES)) for one in chosen]:
            before = self._report.statements
            # Groups have 0.0 apart from -0.0, and NaN from NaN with a sign: docs/sql.md. Extremes are equal.
            is_apart = has_signs or (has_zeros and not place.name.startswith("extremes"))
            if place.is_condition or not is_apart:
                self._judge_place(asked, place, state)
            if aims and self._report.statements == before:
                self._aims.give_back(asked.node, [(place, state)])

    def _judge_place(self, asked: _Asked, place: Place, state: str) -> None:
        rng = self._rng
        other = rng.choice(STATES)
        key = rng.randrange(ROWS)
        detail = self._differs(asked.node, place, state, other, key, asked.values)
        if detail is None:
            return
        kept = rng.getstate()
        node, (sql, detail) = self._shrink(asked.node, place, state, other, key, detail)
        rng.setstate(kept)
        self._add(f"place {place.name}", node, place.name, sql, f"{detail} in {state}")

    def _differs(
        self,
        node: Call,
        place: Place,
        state: str,
        other: str,
        key: int,
        values: dict[int, Any],
        partner: Node | None = None,
    ) -> tuple[str, str] | None:
        """Return the statement and how its rows differ from those that it must give; None if they don't."""
        rendering = Rendering(qualifier=place.qualifier.format(t=state))
        right = Rendering(qualifier="r.", parameters=rendering.parameters)
        names = {
            "t": state,
            "u": other,
            "key": key,
            "last": LAST,
            "e": rendering.text(node),
            "l": "",
            "r": "",
            "c": _column_of(node),
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
        sql = place.sql.format(**names)
        access: Access = FULL_ACCESS
        if place.name == "policy":
            access = create_principal(**{state: TableAccess(names["e"], {}, frozenset())})
        self._cover(node, place.name, state)
        try:
            answer = self._run(sql, rendering.parameters, access)
        except RefusedError as refused:
            self._refuse(node, str(refused), sql, place.name, state)
            if "UnsupportedError" in str(refused) or self._is_refused(place, names, rendering):
                return None
            return sql, f"refused: {str(refused)[:300]}"
        columns = answer.columns[:1] if place.name == "WHERE columns" else answer.columns
        rows = list(zip(*map(values_of, columns), strict=True))
        if place.expected is not None:
            wanted = place.expected(values, key)
        else:
            again = place.same_as.format(**names)
            try:
                others = map(values_of, self._run(again, rendering.parameters).columns)
                wanted = list(zip(*map(_as_column, others, columns), strict=True))
            except RefusedError as refused:
                self._refuse(node, str(refused), again, place.name, state)
                return None
        if wanted is None or rows == wanted:
            return None
        found, sought = (Counter(_key(row, place.digits) for row in one) for one in (rows, wanted))
        if found == sought and not place.is_ordered:
            return None
        extra, missing = list((found - sought).elements()), list((sought - found).elements())
        if not place.is_ordered and _are_close(extra, missing, place.digits):
            return None
        keys = [row[0] for row in (*extra, *missing) if isinstance(row[0], int) and row[0] in values][:1]
        shown = (
            f"; row {keys[0]}: {self._shown(node, keys[0])}, SELECT says {values[keys[0]]!r}" if keys else ""
        )
        more = f"; by {place.same_as.format(**names)}" if place.same_as else ""
        return sql, f"unexpected {extra[:3]}, missing {missing[:3]} of {len(wanted)} rows{shown}{more}"

    def _is_refused(self, place: Place, names: dict[str, Any], rendering: Rendering) -> bool:
        """Return whether the statement with the same rows, or with the same refusals, is refused, too."""
        if not place.same_as:
            return False
        try:
            self._run(place.same_as.format(**names), rendering.parameters)
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

    def _shrink(
        self, node: Call, place: Place, state: str, other: str, key: int, detail: tuple[str, str]
    ) -> tuple[Call, tuple[str, str]]:
        """Return the smallest expression found that fails in that place."""
        counts = self._report.counts.copy()
        left = 30
        while left:
            for smaller in shrunk(node):
                left -= 1
                if not left:
                    break
                if not isinstance(smaller, Call) or not any(leaf.column for leaf in leaves_of(smaller)):
                    continue
                (asked,) = self._select([smaller], "base")
                found = asked and self._differs(smaller, place, state, other, key, asked.values)
                if found and ("refused" in found[1]) == ("refused" in detail[1]):
                    node, detail = smaller, found
                    break
            else:
                break
        self._report.counts = counts
        return node, detail

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

    def _cover(self, node: Call, place: str, state: str) -> None:
        first = next(leaf for leaf in leaves_of(node) if leaf.column)
        assert first.of is not None
        assert first.type is not None
        kind = CLASS_OF.get(node.operator.name, "function")
        for name in {first.of.name, first.type.name}:
            self._report.cells[name, kind, place, state] += 1
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
            asked = self._report.statements - self._begin + 1
            log = "us" if self._lake.is_ours else "Lance"
            told = f"{operator} of {groups} ({first}) in {place}; log by {log}"
            one = Mismatch(
                judge,
                told,
                sql,
                str(detail),
                self._machine.seed,
                self._number,
                asked,
                self._report.statements,
            )
            self._report.mismatches[kind] = one
            self._machine.tell(one)


def _column_of(node: Node) -> str:
    """Return the first column that an expression reads."""
    return next((leaf.column for leaf in leaves_of(node) if leaf.column), "")


def _is_computed(node: Node) -> bool:
    """Return whether arithmetic may have made a NaN with a sign."""
    return isinstance(node, Call) and (
        node.operator.gives == "number" or any(map(_is_computed, node.operands))
    )


def _digits_of(node: Node) -> float:
    """How exact other engines are: REAL is widened sooner or later, and quotients have some digits."""
    text = Rendering().text(node)
    is_short = "REAL" in text or any(
        leaf.type is not None and leaf.type.name in {"float", "vector"} for leaf in leaves_of(node)
    )
    if " / " in text or "pow" in text or (is_short and _GROWING.search(text)):
        return 1e-3
    return 1e-6 if is_short else 1e-13


def _as_column(values: list[Any], column: pa.ChunkedArray) -> list[Any]:
    """Return decimals as doubles beside a column of doubles: a set operation unites the types."""
    is_floating = pa.types.is_floating(column.type)
    return [float(one) if is_floating and isinstance(one, Decimal) else one for one in values]


def _key(row: tuple[Any, ...], digits: int) -> tuple[Any, ...]:
    """A row as a key that is the same for floats that are nearly so."""
    return tuple([float(f"{one:.{digits}g}") if isinstance(one, float) else one for one in row])


def _are_close(some: list[tuple[Any, ...]], others: list[tuple[Any, ...]], digits: int) -> bool:
    """Return whether rows differ only in the last digits of floats, which were rounded apart."""
    others = list(others)
    for row in some:
        found = next((one for one in others if all(map(partial(_is_close, digits=digits), row, one))), None)
        if found is None:
            return False
        others.remove(found)
    return not others


def _is_close(one: Any, other: Any, *, digits: int) -> bool:
    is_float = isinstance(one, float) and isinstance(other, float)
    return one == other or (is_float and math.isclose(one, other, rel_tol=1.1 * 10.0 ** (1 - digits)))


def _cells(rows: pa.Table, column: Column) -> list[Any]:
    """The cells as the values of a type are written."""
    cells = rows.column(column.name)
    if pa.types.is_timestamp(cells.type):
        return cells.cast(pa.int64()).to_pylist()
    return values_of(cells) if pa.types.is_nested(cells.type) else cells.to_pylist()


def _in_batches(
    answer: Callable[[Sequence[str]], dict[int, list[Any]]],
    texts: Sequence[tuple[_Asked, str]],
    counts: Counter[str],
) -> Iterator[tuple[_Asked, str, dict[int, Any]]]:
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
