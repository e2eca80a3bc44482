"""Runs of the fuzzer of types: lake after lake, batch after batch of expressions, place after place.

Each statement is prepared while the rows are in the base table, and executed again in each later state of the
table. About a tenth of the statements are prepared again before that.
"""

import math
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lance_gateway.planner.access.rights import FULL_ACCESS, Access, TableAccess
from tests.fuzz.typed.answers import (
    UnreadableError,
    are_equal,
    are_rows_close,
    as_column,
    read_as,
    row_key,
    values_of,
)
from tests.fuzz.typed.asking import PER_LAKE, PLACES_OF_EXPRESSION, Asking, Questions
from tests.fuzz.typed.expressions import Call, Node, Rendering, bind, leaves_of, shrunk
from tests.fuzz.typed.judges import Duck, RefusedError
from tests.fuzz.typed.lake import KEY, OTHER, ROWS, STATES, TABLE
from tests.fuzz.typed.places import LAST, Place
from tests.fuzz.typed.report import Report
from tests.fuzz.typed.statements import Asked, Placed, Statement, column_of, digits_of, is_computed
from tests.support.judging.principals import create_principal
from tests.support.processes.writer_process import WriterProcess

_FIRST_SHARE = 0.29
"""Of the statements of a lake that are asked in the first state: constants are not asked again."""
_PREPARED_ANEW = 0.1
_IN_WORDS_OF: Sequence[tuple[str, float]] = (("postgres", 0.1), ("duckdb", 0.1))
"""Dialects, and which part of the expressions is asked in their words, too."""
_BATCH = 10
_MOST_IDLE = 8
"""So many lakes without a statement, which have all types, end a run."""


@dataclass
class Machine(Questions):
    """Asks typed statements, and judges the answers."""

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
                lake = _Judging(self, report, report.lake, root, process, stack, duck)
                lake.ask(min(report.statements + PER_LAKE, statements), end)
            idle = idle + 1 if report.statements == before else 0
            report.lake += 1
            report.seconds = passed + time.monotonic() - begin
            keep(report)
        duck.close()
        return report


class _Judging(Asking):
    """Judges what is asked of one lake."""

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
        postgres = self._questions.postgres
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
        if self._questions.postgres is not None and text is not None:
            try:
                self._questions.postgres.answer([text])
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
            for one in self._questions.places
            if one.takes(asked.node.group) and self._concerns(asked.node, one.sql)
        ]
        there = {str(one) for one in asked.values.values()}
        has_zeros = there >= {"0.0", "-0.0"}
        has_signs = "NaN" in there and is_computed(asked.node)
        chosen = self._rng.sample(fitting, min(PLACES_OF_EXPRESSION, len(fitting)))
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
