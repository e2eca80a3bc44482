"""Answers that check each other: each law and each form holds, and notices a row that is missing."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from lance_gateway.planner.engine import PreparedWrite, QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog
from tests.fuzz.sql.grammar.blocks import Item, Order, Relation, Select
from tests.fuzz.sql.grammar.kinds import DATE, INT64, TEXT, TRUTH, Family, literal
from tests.fuzz.sql.grammar.laws.trial import Law, Trial
from tests.fuzz.sql.grammar.queries import Queries
from tests.fuzz.sql.grammar.sources import Shape
from tests.fuzz.sql.grammar.statement import Statement
from tests.fuzz.sql.grammar.tree import AbstainError, Column, Expression, Literal, Node, Parameter
from tests.fuzz.sql.judges.engines import Engine, GatewayEngine, References
from tests.fuzz.sql.judges.forms import FORMS, Form
from tests.fuzz.sql.judges.verdicts import Court

SHAPE = Shape("t", (("id", INT64), ("s", TEXT), ("b", TRUTH), ("d", DATE)), ("id",), ("s", "b"))
ROWS = pa.table(
    {
        "id": pa.array(range(20), pa.int64()),
        "s": [None, "a", "b", "ab"] * 5,
        "b": [True, None, False, True, True] * 4,
        "d": pa.array([None, 19_782, 20_089, 20_100] * 5, pa.int32()).cast(pa.date32()),
    }
)
TRIES = 3000
_ID, _TEXT = (Column(kind.family, kind, "r", name) for name, kind in SHAPE.columns[:2])
PLAIN = Select(
    items=(Item(_ID, "id"), Item(_TEXT, "s")),
    source=Relation("t", "r"),
    where=Expression(Family.TRUTH, ("(", _TEXT, " >= ", Literal(Family.TEXT, "ab"), ")")),
)
"""A scan, which has parts."""
SORTED = replace(
    PLAIN,
    where=Expression(Family.TRUTH, ("(", _ID, " > ", Parameter(Family.INTEGER, INT64, 3, 1), ")")),
    order=(Order(_TEXT), Order(_ID)),
    orders_rows=True,
)
"""In an order that leaves no choice, which has pages; with a parameter."""


@dataclass
class Judges:
    """A gateway with a table, and the engines that know its rows."""

    gateway: GatewayEngine
    references: References

    def court(self, engine: Engine) -> Court:
        return Court(engine, self.references.datafusion, self.references.duckdb)


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    root: Path = tmp_path_factory.mktemp("root")
    with closing(QueryEngine(Catalog.open(str(root)))) as engine:
        kinds = dict(SHAPE.columns)
        rows = ", ".join(
            f"({', '.join(literal(value, kinds[name].family) for name, value in row.items())})"
            for row in ROWS.to_pylist()
        )
        for sql in (
            "CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT, b BOOLEAN, d DATE)",
            f"INSERT INTO t VALUES {rows}",
        ):
            write = engine.prepare_statement(sql)
            assert isinstance(write, PreparedWrite)
            write.execute()
        references = References.over({"t": ROWS}, {})
        with closing(references):
            yield Judges(GatewayEngine(engine), references)


@dataclass
class Forgetful:
    """An engine that forgets a row of the first statement."""

    truthful: GatewayEngine
    name: str = "gateway"
    asked: int = 0

    def answer(self, node: Node) -> pa.Table:
        self.asked += 1
        answer = self.truthful.answer(node)
        return answer.slice(1) if self.asked == 1 else answer


@pytest.mark.slow
@pytest.mark.parametrize("law", Law)
def test_a_law_notices_a_missing_row(judges: Judges, law: Law) -> None:
    queries = Queries(random.Random(5), [SHAPE], writes=True)
    for _ in range(TRIES):
        statement = queries.trial()
        if isinstance(statement.node, Trial) and statement.node.law is law:
            assert judges.court(judges.gateway).judge(statement) is None
            verdict = judges.court(Forgetful(judges.gateway)).judge(statement)
            if verdict is not None:
                assert verdict.judge == f"law {law.name}"
                return
    pytest.fail("no statement has this law, or it notices nothing")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form", "keeps_order"), [one[:3] for one in FORMS])
def test_a_form_notices_a_missing_row(
    judges: Judges, name: str, form: Callable[[GatewayEngine, Node], pa.Table], keeps_order: bool
) -> None:
    court = judges.court(judges.gateway)
    shortened = Form(name, judges.gateway, lambda *asked: form(*asked).slice(1), keeps_order)
    noticed = 0
    for statement in (Statement(PLAIN), Statement(SORTED)):
        with suppress(AbstainError):
            form(judges.gateway, statement.node)
            assert court.judge(statement, (Form(name, judges.gateway, form, keeps_order),)) is None
            verdict = court.judge(statement, (shortened,))
            assert verdict is not None
            assert verdict.judge == f"gateway and {name}: rows"
            noticed += 1
    assert noticed, "no statement has this form"
