"""Random rights: row filters, masks and hidden columns, and the tables that one who has them would see."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.planner.access.rights import TableAccess
from lance_gateway.planner.sql.forms import write_forms
from lance_gateway.planner.sql.text.tokens import tokenize
from tests.fuzz.sql.grammar.expressions import Expressions, Scope
from tests.fuzz.sql.grammar.kinds import COMMON, Family, arrow_name, kind_of
from tests.fuzz.sql.grammar.sources import Shape
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Reader, quoted, render
from tests.fuzz.sql.judges.engines import DataFusionEngine
from tests.support.judging.principals import Principal


@dataclass(frozen=True)
class Rights:
    """What somebody sees of a lake.

    Attributes:
        principal: Whose rights they are.
        shapes: What statements may name.
    """

    principal: Principal
    shapes: tuple[Shape, ...]

    @staticmethod
    def draw(rng: random.Random, shapes: Mapping[str, Shape], views: tuple[Shape, ...]) -> "Rights":
        """Rights that leave out something of most tables; views that name hidden columns are left out."""
        tables: dict[str, TableAccess] = {}
        visible = []
        for name, shape in shapes.items():
            access = _drawn(rng, shape) if rng.random() < 0.8 else TableAccess()
            tables[name] = access
            columns = tuple(one for one in shape.columns if one[0] not in access.hidden_columns)
            is_key_shown = not set(shape.key) & (set(access.masks) | access.hidden_columns)
            visible.append(Shape(name, columns, shape.key if is_key_shown else ()))
        is_anything_hidden = any(one.hidden_columns for one in tables.values())
        shown_views = () if is_anything_hidden else views
        tables |= {one.name: TableAccess() for one in shown_views}
        return Rights(Principal(tables), (*visible, *shown_views))

    def seen(self, name: str, table: pa.Table) -> pa.Table:
        """What is seen of a table that holds these rows."""
        access = self.principal.of(name)
        assert access is not None
        return table if access.is_unrestricted else _shown(table, access)

    def __str__(self) -> str:
        return "; ".join(
            f"{name}: rows {one.row_filter}, masks {dict(one.masks)}, hidden {sorted(one.hidden_columns)}"
            for name, one in self.principal.tables.items()
            if not one.is_unrestricted
        )


def _shown(table: pa.Table, access: TableAccess) -> pa.Table:
    """What the table would hold if it held only what is seen."""
    datafusion = DataFusionEngine()
    datafusion.set_table("everything", table)
    columns = [
        f"arrow_cast({access.masks[one.name]}, '{arrow_name(kind_of(one.type))}') AS {quoted(one.name)}"
        if one.name in access.masks
        else quoted(one.name)
        for one in table.schema
        if one.name not in access.hidden_columns
    ]
    where = "" if access.row_filter is None else f" WHERE {access.row_filter}"
    text = f"SELECT {', '.join(columns)} FROM everything{where}"
    return datafusion.answer_text(write_forms(tokenize(text)).sql)


def _drawn(rng: random.Random, shape: Shape) -> TableAccess:
    expressions = Expressions(rng)
    scope = Scope(tuple(Column(kind.family, kind, "", name) for name, kind in shape.columns))
    row_filter = _text(expressions.condition(scope, 2)) if rng.random() < 0.7 else None
    free = [one for one in scope.columns if one.family in COMMON and rng.random() < 0.25]
    masks = {one.name: _text(_mask(rng, expressions, scope, one)) for one in free}
    rest = [name for name, _ in shape.columns if name not in masks]
    hidden = frozenset(rng.sample(rest[1:], min(len(rest) - 1, rng.choice((0, 0, 1)))) if rest[1:] else ())
    return TableAccess(row_filter, masks, hidden)


def _mask(rng: random.Random, expressions: Expressions, scope: Scope, column: Column) -> Expression:
    """NULL, a constant, or what follows from other columns, of the column's own type."""
    chance = rng.random()
    if chance < 0.3:
        return Expression(column.family, ("NULL",))
    if chance < 0.5 or column.family is not Family.TEXT:
        return Literal(column.family, rng.choice(column.kind.values))
    return expressions.scalar(scope, column.family, 1)


def _text(expression: Expression) -> str:
    return render(expression, Reader.DATAFUSION)[0]
