"""Random expressions over the columns in scope."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.fuzz.sql.grammar.calls import AGGREGATES, DERIVED, JSON_CALLS, SCALAR_CALLS, WINDOWS, Call
from tests.fuzz.sql.grammar.kinds import CANONICAL, COMMON, Family, Kind, draw_value
from tests.fuzz.sql.grammar.tree import Column, Expression, Literal, Node, Parameter, Standard

_ODD_TEXTS = (
    "EmptyRelation",
    "TableScan: t projection=[id]",
    "Filter: a = 1",
    "count(Int64(1))",
    "$1",
    "?",
    "--",
)


@dataclass(frozen=True)
class Scope:
    """What an expression may name.

    Attributes:
        columns: Of the relations of its own block.
        outer: Of the blocks around it, for correlated subqueries.
    """

    columns: tuple[Column, ...]
    outer: tuple[Column, ...] = ()

    def of(self, *families: Family) -> list[Column]:
        """Its own columns of some families."""
        return [one for one in self.columns if one.family in families]

    def joined(self, other: "Scope") -> "Scope":
        """With the columns of another relation of the block."""
        return Scope(self.columns + other.columns, self.outer)


Subquery = Callable[[Scope, Family, int], Expression | None]


@dataclass
class Expressions:
    """Draws expressions.

    Attributes:
        parametrised: Whether constants become parameters in the statement that is drawn.
        subquery: Draws an expression with a subquery.
        writes_json: Whether it may call functions that write JSON.
    """

    rng: random.Random
    parametrised: bool = False
    subquery: Subquery | None = field(default=None)
    parameters: int = 0
    writes_json: bool = False

    def scalar(self, scope: Scope, family: Family, depth: int) -> Expression:
        """An expression of a family; at depth 0 a column or a constant."""
        chance = self.rng.random()
        calls = SCALAR_CALLS.get(family)
        if depth > 0 and calls and chance < 0.62:
            if self.subquery is not None and chance < 0.05:
                found = self.subquery(scope, family, depth - 1)
                if found is not None:
                    return found
            if self.writes_json and family is Family.TEXT:
                calls = (*calls, *JSON_CALLS)
            return self.called(self.rng.choice(calls), scope, depth)
        return self.leaf(scope, family)

    def condition(self, scope: Scope, depth: int = 2) -> Expression:
        """A condition that mostly depends on the rows."""
        chance = self.rng.random()
        if chance < 0.04:
            return self._constant_condition()
        if chance < 0.1 and self.subquery is not None:
            found = self.subquery(scope, Family.TRUTH, depth)
            if found is not None:
                return found
        if chance < 0.45:
            return self.comparison(scope)
        return self.called(self.rng.choice(SCALAR_CALLS[Family.TRUTH]), scope, depth)

    def comparison(self, scope: Scope) -> Expression:
        """A column beside constants: what is pushed down, prunes regions, and looks up keys."""
        columns = [one for one in scope.columns if one.family in CANONICAL]
        if not columns:
            return self._constant_condition()
        if self.rng.random() < 0.08:
            return self._rows(columns)
        compared, pick = self.rng.choice(columns), self.rng.choice
        operand, kind = self._derived(compared)
        family = operand.family
        shapes = ("=", "=", "=", "<", ">=", "<>", "NULL", "flipped", "IN", "IN", "NOT IN", "BETWEEN")
        # DataFusion has no common type of times of several units in a list.
        shape = pick(shapes[:8] if family is Family.CLOCK else shapes)

        def value() -> Expression:
            return self.constant(family, kind)

        match shape:
            case "IN" | "NOT IN":
                parts: list[str | Node] = ["(", operand, f" {shape} (", value()]
                for _ in range(self.rng.randrange(4)):
                    parts += [", ", value()]
                parts.append("))")
            case "BETWEEN":
                parts = ["(", operand, " BETWEEN ", value(), " AND ", value(), ")"]
            case "NULL":
                parts = ["(", operand, pick((" IS NULL)", " IS NOT NULL)"))]
            case "flipped":
                parts = ["(", value(), pick((" = ", " < ", " >= ")), operand, ")"]
            case _:
                parts = ["(", operand, f" {shape} ", value(), ")"]
        return Expression(Family.TRUTH, tuple(parts))

    def _derived(self, column: Column) -> tuple[Expression, Kind | None]:
        """A column, or what is computed from it, and the kind of constants beside it."""
        calls = DERIVED.get(column.family)
        if calls is None or self.rng.random() > 0.3:
            return column, column.kind
        chosen = self.rng.choice(calls)
        is_narrow = chosen.widened and column.kind.arrow != CANONICAL[column.family].arrow
        argument = Expression(column.family, ("CAST(", column, " AS BIGINT)")) if is_narrow else column
        found = chosen.of([argument] * len(chosen.arguments))
        return found, column.kind if found.family is column.family and not is_narrow else None

    def _rows(self, columns: Sequence[Column]) -> Expression:
        """Two columns beside rows of constants, which are compared one by one."""
        first, second = self.rng.choice(columns), self.rng.choice(columns)
        operator = self.rng.choice(("=", "<>", "<", "<=", ">", ">=", "IN", "NOT IN"))
        count = self.rng.randint(1, 3) if "IN" in operator else 1
        rows = [
            (self.constant(first.family, first.kind), self.constant(second.family, second.kind))
            for _ in range(count)
        ]
        written: list[str | Node] = []
        meant: list[str | Node] = []
        for number, (one, other) in enumerate(rows):
            written += [", " if number else "", "(", one, ", ", other, ")"]
            if operator in {"=", "<>"} or "IN" in operator:
                sign, connective = ("<>", " OR ") if operator == "<>" else ("=", " AND ")
                pair: list[str | Node] = [
                    "(",
                    first,
                    f" {sign} ",
                    one,
                    connective,
                    second,
                    f" {sign} ",
                    other,
                    ")",
                ]
            else:
                strict = ["(", first, f" {operator[0]} ", one, " OR (", first, " = ", one, " AND "]
                pair = [*strict, second, f" {operator} ", other, "))"]
            meant += [" OR " if number else "", *pair]
        if "IN" in operator:
            written = ["(", *written, ")"]
        denied = ("(NOT (", "))") if operator == "NOT IN" else ("(", ")")
        return Standard(
            Family.TRUTH,
            ("((", first, ", ", second, f") {operator} ", *written, ")"),
            meaning=(denied[0], *meant, denied[1]),
        )

    def leaf(self, scope: Scope, family: Family) -> Expression:
        """A column of the family, or a constant."""
        columns = scope.of(family)
        if scope.outer and self.rng.random() < 0.1:
            columns = [one for one in scope.outer if one.family is family] or columns
        if columns and self.rng.random() < 0.75:
            return self.rng.choice(columns)
        return self.constant(family, None)

    def constant(self, family: Family, kind: Kind | None) -> Expression:
        """A literal or a parameter; `kind` is that of the column that it stands beside."""
        chosen = kind or CANONICAL[family]
        value = None if self.rng.random() < 0.04 else draw_value(self.rng, chosen, extremes=kind is not None)
        if family is Family.TEXT and value is not None and self.rng.random() < 0.05:
            value = self.rng.choice(_ODD_TEXTS)
        is_bound = self.parametrised and self.rng.random() < 0.6 and family is not Family.BYTES
        if is_bound and (chosen.sql or (kind and value is not None)):
            self.parameters += 1
            # A bare parameter in a subquery that the optimizer leaves out counts as text, which is compared
            # with all but truth values and bytes.
            is_cast = kind is None or family is Family.TRUTH
            return Parameter(family, chosen, value, self.parameters, is_cast=is_cast)
        if value is None:
            # A bare NULL has no type, and so no agreed one.
            return (
                Expression(family, (f"CAST(NULL AS {CANONICAL[family].sql})",))
                if CANONICAL[family].sql
                else Literal(family, draw_value(self.rng, chosen))
            )
        return Literal(family, value)

    def called(self, chosen: Call, scope: Scope, depth: int) -> Expression:
        """A call with drawn arguments."""
        return chosen.of([self._argument(chosen, scope, family, depth) for family in chosen.arguments])

    def aggregate(self, scope: Scope, family: Family, depth: int = 1) -> Expression:
        """An aggregate, alone or with arithmetic around it."""
        calls = AGGREGATES.get(family) or AGGREGATES[Family.INTEGER]
        found = self.called(self.rng.choice(calls), scope, depth)
        if found.family is not Family.INTEGER or self.rng.random() < 0.6:
            return found
        other: Expression = Literal(Family.INTEGER, self.rng.choice((0, 1, 2, 42)))
        if self.rng.random() < 0.3:
            other = self.called(self.rng.choice(AGGREGATES[Family.INTEGER]), scope, depth)
        shapes = (
            "({} * {})",
            "({} + {})",
            "({} - {})",
            "coalesce({}, {})",
            "nullif({}, {})",
            "(0 - {})",
            "abs({})",
        )
        before, *rest = self.rng.choice(shapes).split("{}")
        parts: tuple[str | Node, ...] = (before, found, rest[0])
        if len(rest) > 1:
            parts = (*parts, other, rest[1])
        if self.rng.random() < 0.2:
            parts = (
                "CASE WHEN ",
                self.called(AGGREGATES[Family.INTEGER][0], scope, depth),
                " > 3 THEN ",
                *parts,
                " END",
            )
        return Expression(Family.INTEGER, parts)

    def window(self, scope: Scope, order: Sequence[Column]) -> Expression:
        """A window function over a total order."""
        family = self.rng.choice(tuple(WINDOWS))
        function = self.called(self.rng.choice(WINDOWS[family]), scope, 0)
        parts: list[str | Node] = [function, " OVER ("]
        partition = scope.of(Family.INTEGER, Family.TEXT, Family.DATE, Family.TRUTH)
        if partition and self.rng.random() < 0.6:
            parts += ["PARTITION BY ", self.rng.choice(partition), " "]
        parts.append("ORDER BY ")
        for number, key in enumerate(order):
            parts += [
                ", " if number else "",
                key,
                self.rng.choice(("", " DESC", " NULLS FIRST", " DESC NULLS LAST")),
            ]
        is_numbering = isinstance(function.parts[0], str) and function.parts[0].startswith(
            ("row_", "rank", "dense", "ntile", "lag", "lead")
        )
        if not is_numbering and self.rng.random() < 0.5:
            parts.append(" ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
        return replace(function, parts=(*parts, ")"))

    def family(self) -> Family:
        """A family of which there are constants and functions."""
        return self.rng.choice((Family.INTEGER, Family.INTEGER, Family.TEXT, Family.TRUTH, *COMMON))

    def _argument(self, chosen: Call, scope: Scope, family: Family, depth: int) -> Expression:
        found = self.scalar(scope, family, depth - 1)
        if chosen.of_columns and not any(isinstance(one, Column) for one in found.walk()):
            found = self.rng.choice(scope.of(family) or [found])
        is_narrow = isinstance(found, Column) and (
            found.kind.arrow != CANONICAL[family].arrow or family is Family.FLOAT
        )
        if is_narrow and family is Family.MOMENT:
            # Moments of two units beside each other are refused.
            return Expression(family, ("CAST(", found, " AS TIMESTAMP)"))
        if not (chosen.widened and is_narrow):
            return found
        if family is Family.DATE:
            return Expression(family, ("CAST(", found, " AS DATE)"))
        if family is Family.INTEGER:
            return Expression(family, ("CAST(", found, " AS BIGINT)"))
        if family is Family.FLOAT:
            return Expression(
                family, ("CASE WHEN (abs(", found, ") < 1.0e30) THEN CAST(", found, " AS DOUBLE) END")
            )
        return found

    def _constant_condition(self) -> Expression:
        shapes = (
            "TRUE",
            "FALSE",
            "(1 = 0)",
            "(1 = 1)",
            "(NULL IS NULL)",
            "('a' = 'b')",
        )
        return Expression(Family.TRUTH, (self.rng.choice(shapes),))
