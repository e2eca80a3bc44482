"""What the judges say of an answer."""

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from tests.fuzz.sql.grammar.laws.trial import Trial
from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.tree import AbstainError, Node, Reader, render
from tests.fuzz.sql.judges.answers import difference, rows_of, type_difference
from tests.fuzz.sql.judges.engines import DuckEngine, Engine, Refused
from tests.fuzz.sql.judges.forms import Form
from tests.fuzz.sql.judges.known import CAUTIOUS, known_refusal

DIGITS = 10
_UNDECIDED = re.compile(
    r"\b(?:min|max)\(|\b(?:IN|ANY|ALL) \((?:SELECT|WITH)\b|\bIN \(.*(?:\bNULL\b|\bIN \()"
    r"|\b(?:RIGHT|FULL) JOIN\b|\b(?:ROLLUP|CUBE|GROUPING SETS) \(|\bv\d+ AS\b"
    r"|\(SELECT \(*count\(|\(SELECT\b.*\bHAVING\b"
)
"""What DataFusion alone gets wrong: NaN, NULL, lists, columns of one name, and correlated totals of no rows.

Views may hide all of it.
"""
_WORD = re.compile(r"\b[A-Za-z]{2,}\b")


@dataclass(frozen=True)
class Verdict:
    """A difference between two engines.

    Attributes:
        judge: Which comparison failed, and how; a smaller statement fails alike when this is equal.
        ours: Whether the gateway is wrong, as far as is known: a wrong reference is reported, and no failure.
    """

    judge: str
    detail: str
    ours: bool = True


class Outcome(Enum):
    """What became of a statement that DuckDB answers."""

    ALIKE = "answered as by DuckDB"
    REFUSED = "refused"
    DIFFERING = "answered otherwise"


@dataclass
class Tally:
    """How many statements each judge has heard.

    Attributes:
        refusals: How many statements the gateway refused, by the words of `CAUTIOUS`.
        needless: How many of them DataFusion alone answers as DuckDB does, with the rows that there are.
        disputed: How many of them DataFusion alone answers otherwise than DuckDB.
        examples: The shortest statement of `needless`.
        outcomes: How the gateway fared in statements that DuckDB answers.
    """

    counts: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    needless: Counter[str] = field(default_factory=Counter)
    disputed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    def add(self, what: str, number: int = 1) -> None:
        """Count."""
        self.counts[what] += number

    @property
    def refused_share(self) -> float:
        """The part of the statements that the gateway refused out of caution."""
        return self.refusals.total() / max(1, self.counts["statements"])

    def share(self, outcome: Outcome) -> float:
        """The part of the statements that DuckDB answers with this outcome."""
        return self.outcomes[outcome] / max(1, self.outcomes.total())

    def copy(self) -> "Tally":
        """As it is now."""
        return Tally(
            self.counts.copy(),
            self.refusals.copy(),
            self.needless.copy(),
            self.disputed.copy(),
            self.examples,
            self.outcomes.copy(),
        )

    def restore(self, earlier: "Tally") -> None:
        """As it was."""
        self.counts, self.refusals = earlier.counts, earlier.refusals
        self.needless, self.disputed = earlier.needless, earlier.disputed
        self.outcomes = earlier.outcomes


Answer = pa.Table | Refused


def ask(engine: Engine, node: Node) -> Answer:
    """The rows, or the refusal."""
    try:
        return engine.answer(node)
    except Refused as refused:
        return refused


def compare(
    statement: Statement, left: Answer, right: Answer, *, typed: bool, is_ordered: bool = True
) -> str | None:
    """How two answers differ; None where they agree. Their order counts where both have the statement's."""
    if isinstance(left, Refused) or isinstance(right, Refused):
        if isinstance(left, Refused) and isinstance(right, Refused):
            return None
        refused = left if isinstance(left, Refused) else right
        if known_refusal(str(refused)) is not None:
            return None
        which = "first" if refused is left else "second"
        return f"only the {which}: {_sort_of_refusal(refused)}: {str(refused)[:300]}"
    if typed:
        found = type_difference(left.schema, right.schema)
        if found is not None:
            return found
    digits = None if typed and not statement.is_inexact else DIGITS
    return difference(
        rows_of(left, digits=digits),
        rows_of(right, digits=digits),
        ordered=is_ordered and statement.is_ordered,
    )


@dataclass
class Court:
    """The judges of one world.

    Attributes:
        gateway: Whose answer is judged.
    """

    gateway: Engine
    datafusion: Engine
    duckdb: DuckEngine
    tally: Tally = field(default_factory=Tally)
    _heard: tuple[Node, pa.Table | None] | None = None

    def judge(self, statement: Statement, twins: tuple[Engine, ...] = ()) -> Verdict | None:
        """Hear a statement; None where nothing is wrong with the answer.

        Args:
            twins: ways of the gateway that must answer alike.
        """
        self._heard = None
        if isinstance(statement.node, Trial):
            return self._judge_trial(statement.node)
        if statement.superset is not None:
            return self._judge_some(statement, statement.superset)
        answer = ask(self.gateway, statement.node)
        self.tally.add("statements")
        self._note_outcome(statement, answer)
        for twin in twins:
            try:
                other = ask(twin, statement.node)
            except AbstainError:
                continue
            self.tally.add(twin.name)
            is_ordered = not (isinstance(twin, Form) and not twin.keeps_order)
            found = compare(statement, answer, other, typed=True, is_ordered=is_ordered)
            if found is not None:
                is_upstream = self._is_upstream(statement, answer)
                return Verdict(f"gateway and {twin.name}: {_sort(found)}", found, ours=not is_upstream)
        return self._judge_reference(statement, answer)

    def _is_upstream(self, statement: Statement, answer: Answer) -> bool:
        """Whether DataFusion makes the gateway's mistake by itself, and DuckDB does not."""
        reference = self._ask_reference(statement.node)
        if reference is None or compare(statement, answer, reference, typed=False) is not None:
            return False
        third = self._third(statement)
        return third is not None and compare(statement, answer, third, typed=False) is not None

    def _ask_reference(self, node: Node) -> Answer | None:
        """DataFusion's answer; None where it has no such form."""
        try:
            return ask(self.datafusion, node)
        except AbstainError:
            return None

    def _judge_alone(self, statement: Statement, answer: Answer) -> Verdict | None:
        """By DuckDB, where DataFusion has no such form."""
        third = self._third(statement)
        if third is None:
            return None
        if isinstance(answer, Refused):
            self._note_refusal(answer)
        found = compare(statement, answer, third, typed=False)
        if found is None or (not isinstance(answer, Refused) and self._is_optimizers(statement, answer)):
            return None
        return Verdict(f"gateway and duckdb: {_sort(found)}", found)

    def _judge_reference(self, statement: Statement, answer: Answer) -> Verdict | None:
        reference = self._ask_reference(statement.node)
        if reference is None:
            self.tally.add("datafusion abstains")
            return self._judge_alone(statement, answer)
        self.tally.add("datafusion")
        if isinstance(answer, Refused) and self._note_refusal(answer):
            self._judge_refusal(statement, answer, reference)
        found = compare(statement, answer, reference, typed=True)
        if found is None and (isinstance(answer, Refused) or isinstance(reference, Refused)):
            is_known = not (isinstance(answer, Refused) and isinstance(reference, Refused))
            self.tally.add("known refusals" if is_known else "refused by both")
            return None
        third = self._third(statement)
        if found is None:
            if third is None:
                return None
            other = compare(statement, answer, third, typed=False)
            if other is None or self._is_optimizers(statement, answer):
                return None
            return Verdict(f"gateway = datafusion, duckdb: {_sort(other)}", other, ours=False)
        is_confirmed = third is not None and compare(statement, answer, third, typed=False) is None
        if is_confirmed and (isinstance(reference, Refused) or not _types_differ(answer, reference)):
            self.tally.add("datafusion alone is wrong")
            return None
        if third is None and _UNDECIDED.search(render(statement.node, Reader.GATEWAY)[0]):
            self.tally.add("datafusion alone may be wrong")
            return None
        return Verdict(f"gateway and datafusion: {_sort(found)}", found)

    def _note_outcome(self, statement: Statement, answer: Answer) -> None:
        """Count how the gateway fares, where DuckDB has an answer."""
        third = self._third(statement)
        if third is None:
            return
        outcome = Outcome.ALIKE
        if isinstance(answer, Refused):
            outcome = Outcome.REFUSED
        elif compare(statement, answer, third, typed=False) and not self._is_optimizers(statement, answer):
            outcome = Outcome.DIFFERING
        self.tally.outcomes[outcome] += 1

    def _is_optimizers(self, statement: Statement, answer: Answer) -> bool:
        """Whether DuckDB gives the gateway's answer as soon as it does not optimise."""
        try:
            plain = self.duckdb.answer_unoptimized(statement.node)
        except Refused:
            return False
        if compare(statement, answer, plain, typed=False) is not None:
            return False
        self.tally.add("duckdb's optimiser alone is wrong")
        return True

    def _note_refusal(self, refused: Refused) -> bool:
        """Count a refusal out of caution; returns whether it is one."""
        words = known_refusal(str(refused))
        if words not in CAUTIOUS:
            return False
        self.tally.refusals[words] += 1
        return True

    def _judge_refusal(self, statement: Statement, refused: Refused, reference: Answer) -> None:
        """Whether DataFusion would have been right. Over few rows a wrong plan may be right by chance."""
        words = known_refusal(str(refused))
        third = None if words is None or isinstance(reference, Refused) else self._third(statement)
        if words is None or third is None:
            return
        is_right = compare(statement, reference, third, typed=False) is None
        (self.tally.needless if is_right else self.tally.disputed)[words] += 1
        if is_right:
            text, _ = render(statement.node, Reader.GATEWAY)
            self.tally.examples[words] = min(text, self.tally.examples.get(words, text), key=len)

    def _third(self, statement: Statement) -> pa.Table | None:
        """DuckDB's answer, where it has one; asked once for a statement."""
        if self._heard is None or self._heard[0] is not statement.node:
            self._heard = statement.node, self._ask_third(statement)
        return self._heard[1]

    def _ask_third(self, statement: Statement) -> pa.Table | None:
        try:
            answer = ask(self.duckdb, statement.node)
        except AbstainError:
            self.tally.add("duckdb abstains")
            return None
        if isinstance(answer, Refused):
            self.tally.add("duckdb refuses")
            return None
        if _is_beyond_int64(answer):
            # DataFusion's integers wrap around.
            self.tally.add("duckdb abstains")
            return None
        self.tally.add("duckdb")
        return answer

    def _judge_trial(self, trial: Trial) -> Verdict | None:
        """The gateway's answers among themselves."""
        self.tally.add("statements")
        self.tally.add(f"law: {trial.law.name.lower()}")
        answers = [ask(self.gateway, one) for one in (trial.whole(), *trial.parts())]
        refused = [one for one in answers if isinstance(one, Refused)]
        known = next((one for one in refused if known_refusal(str(one)) is not None), None)
        if known is not None:
            self._note_refusal(known)
            self.tally.add("known refusals")
            return None
        if len(refused) == len(answers):
            self.tally.add("refused by both")
            return None
        if any(isinstance(self._ask_reference(one), Refused) for one in trial.parts()):
            self.tally.add("refused by both")
            return None
        if refused:
            return Verdict(f"law {trial.law.name}: {_sort_of_refusal(refused[0])}", str(refused[0])[:300])
        whole, *parts = (rows_of(one, digits=DIGITS) for one in answers if not isinstance(one, Refused))
        if trial.holds(whole, tuple(parts)):
            return None
        detail = f"{whole[:5]} is not {[one[:5] for one in parts]}"
        return Verdict(f"law {trial.law.name}", detail, ours=not self._is_shared(trial, answers))

    def _is_shared(self, trial: Trial, answers: list[Answer]) -> bool:
        """Whether DataFusion alone gives all of these answers, and breaks the law by itself."""
        statements = (trial.whole(), *trial.parts())
        references = [self._ask_reference(one) for one in statements]
        return all(
            reference is not None and compare(Statement(one), answer, reference, typed=False) is None
            for one, answer, reference in zip(statements, answers, references, strict=True)
        )

    def _judge_some(self, statement: Statement, superset: Node) -> Verdict | None:
        """Rows that a limit without order leaves: as many as there must be, and all of them rows."""
        answer = ask(self.gateway, statement.node)
        whole = self._ask_reference(superset)
        self.tally.add("statements")
        self.tally.add("subset")
        if whole is None:
            self.tally.add("datafusion abstains")
            return None
        if isinstance(whole, Refused):
            self.tally.add(
                "refused by both" if isinstance(answer, Refused) else "datafusion refuses the whole"
            )
            return None
        if isinstance(answer, Refused):
            if known_refusal(str(answer)) is not None:
                self._note_refusal(answer)
                self.tally.add("known refusals")
                return None
            return Verdict(f"some: {_sort_of_refusal(answer)}", str(answer)[:300])
        found = _compare_some(statement, answer, whole, digits=DIGITS if statement.is_inexact else None)
        if found is None:
            return None
        third = self._third(Statement(superset))
        if third is not None and _compare_some(statement, answer, third, digits=DIGITS) is None:
            self.tally.add("datafusion alone is wrong")
            return None
        if third is None and _UNDECIDED.search(render(statement.node, Reader.GATEWAY)[0]):
            self.tally.add("datafusion alone may be wrong")
            return None
        return Verdict(f"some: {found.split(':')[0]}", found)


def _compare_some(
    statement: Statement, answer: pa.Table, whole: pa.Table, *, digits: int | None
) -> str | None:
    """How an answer is not a part of the whole that its limit leaves; None where it is one."""
    query = statement.query
    assert query is not None
    limit, offset = (
        int(render(one, Reader.DATAFUSION)[0]) if one is not None else default
        for one, default in ((query.limit, 1 << 60), (query.offset, 0))
    )
    expected = max(0, min(limit, whole.num_rows - offset))
    if answer.num_rows != expected:
        return f"number of rows: {answer.num_rows} instead of {expected}"
    extra = Counter(rows_of(answer, digits=digits)) - Counter(rows_of(whole, digits=digits))
    return f"other rows: {list(extra.elements())[:4]} are no rows of the whole" if extra else None


def _is_beyond_int64(answer: pa.Table) -> bool:
    """Whether a whole number of DuckDB's widest type has more than 64 bits."""
    wide = (one for one in answer.columns if pa.types.is_decimal(one.type) and one.type.precision == 38)
    values = (value for one in wide if one.type.scale == 0 for value in one.to_pylist())
    return any(value is not None and not -(1 << 63) <= value < 1 << 63 for value in values)


def _types_differ(answer: Answer, reference: pa.Table) -> bool:
    return isinstance(answer, pa.Table) and type_difference(answer.schema, reference.schema) is not None


def _sort(found: str) -> str:
    """What sort of a difference it is, without the values."""
    if found.startswith("only the"):
        return ": ".join(found.split(": ")[:2])
    return "columns" if found.startswith("column") else "rows"


def _sort_of_refusal(refused: Refused) -> str:
    """Its first words, which name no column."""
    return " ".join(_WORD.findall(str(refused).replace("DataFusion error", ""))[:6])
