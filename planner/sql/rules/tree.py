"""The tree of one query, and the types of its expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Final, Literal, TypeAlias, TypeVar

import pyarrow as pa
from sqlglot import exp

from memwal.errors import InvalidInputError, LanceGatewayError
from memwal.transforms.determinism import has_unstable_call
from planner.sql.rules.dialect import write_sql
from planner.sql.tokens import PlacedMessage

Family: TypeAlias = Literal[
    "decimal", "floating", "integer", "instant", "zoned", "date", "text", "bytes", "other"
]
"""Types that rules treat alike; "instant" is a timestamp without a zone, and "zoned" one with a zone."""
Rule: TypeAlias = "Callable[[Tree], None]"
"""Changes a tree."""
_R = TypeVar("_R", bound="Callable[[Tree], None]")
_TESTS: Final[tuple[tuple[Callable[[pa.DataType], bool], Family], ...]] = (
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_floating, "floating"),
    (pa.types.is_integer, "integer"),
    (lambda kind: bool(pa.types.is_timestamp(kind) and kind.tz is None), "instant"),
    (pa.types.is_timestamp, "zoned"),
    (pa.types.is_date, "date"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
)
_CAST_FAMILIES: Final[tuple[tuple[frozenset[exp.DType], Family], ...]] = (
    (frozenset({exp.DType.DECIMAL, exp.DType.BIGDECIMAL}), "decimal"),
    (frozenset({exp.DType.FLOAT, exp.DType.DOUBLE}), "floating"),
    (frozenset(exp.DataType.INTEGER_TYPES), "integer"),
    (frozenset({exp.DType.TIMESTAMP, exp.DType.DATETIME}), "instant"),
    (frozenset({exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ}), "zoned"),
    (frozenset({exp.DType.DATE}), "date"),
    (frozenset(exp.DataType.TEXT_TYPES), "text"),
)


def for_texts(pattern: str) -> Callable[[_R], _R]:
    """Mark a rule as one that changes only texts in which a pattern is found.

    A text that concerns no rule is not parsed. Types of columns and parameters are part of what is searched:
    they are written before the text, as in `decimal128(10, 2) timestamp[us, tz=Europe/Berlin] SELECT ..`.
    """

    def mark(rule: _R) -> _R:
        rule.pattern = re.compile(pattern, re.IGNORECASE | re.DOTALL)  # type: ignore[attr-defined]
        return rule

    return mark


def concerns(rule: Rule, text: str) -> bool:
    """Return whether a rule may change a text; see `for_texts`."""
    pattern: re.Pattern[str] | None = getattr(rule, "pattern", None)
    return pattern is None or pattern.search(text) is not None


def find_family(kind: pa.DataType) -> Family:
    """Return the family of a type."""
    if pa.types.is_dictionary(kind):
        return find_family(kind.value_type)
    return next((family for is_one, family in _TESTS if is_one(kind)), "other")


def is_unstable(node: exp.Expr) -> bool:
    """Return whether an expression calls a function whose result changes from call to call."""
    return has_unstable_call([call.name.upper() for call in node.find_all(exp.Func)])


class Tree:
    """A query that rules rewrite.

    Attributes:
        root: the query.
        is_changed: whether a rule changed it.
        columns: of the tables that it reads; those of UUIDs have this type, though they are texts.
        nulls: names of the parameters that are NULL.

    Args:
        root: the query.
        find_schema: plans a query over the same tables and parameters, and returns the schema of its result.
        columns: of the tables that it reads.
        sql: the text that errors show.
        find_position: returns the position in it of a character of the text that was parsed.
        nulls: names of the parameters that are NULL.
    """

    def __init__(
        self,
        root: exp.Query,
        find_schema: Callable[[str], pa.Schema | None],
        columns: Iterable[pa.Field] = (),
        *,
        sql: str = "",
        find_position: Callable[[int], int] = int,
        nulls: Collection[str] = (),
    ) -> None:
        self._sql = sql
        self._find_position = find_position
        self.root = root
        self.is_changed = False
        self.nulls = nulls
        self._find_schema = find_schema
        self.columns = tuple(columns)
        self._schemas: dict[str, pa.Schema | None] = {}

    def replace(self, node: exp.Expr, replacement: exp.Expr) -> None:
        """Put another expression in the place of one, which may be part of it as a copy."""
        self.is_changed = True
        if node is self.root:
            assert isinstance(replacement, exp.Query)  # noqa: S101 - a rule gives a query for a query
            self.root = replacement
        else:
            node.replace(replacement)

    def error(
        self, node: exp.Expr, what: str, kind: type[LanceGatewayError] = InvalidInputError
    ) -> LanceGatewayError:
        """Return an error at the first place of an expression.

        Args:
            node: of the text that was parsed.
            what: what is there, without the place: "X is not supported; it is".
            kind: of the error.
        """
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        return kind(PlacedMessage(self._sql, self._find_position(min(starts, default=0)), what))

    def find_text(self, node: exp.Expr) -> str:
        """Return an expression as the user wrote it, if its places show where it begins and ends."""
        starts = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        ends = [one.meta["end"] for one in node.walk() if "end" in one.meta]
        if not starts:
            return write_sql(node)
        text = self._sql[self._find_position(min(starts)) : self._find_position(max(ends)) + 1]
        return text if text.count("(") == text.count(")") else write_sql(node)

    def guess_families(self, expression: exp.Expr) -> frozenset[Family] | None:
        """Return the families that an expression may be of, without planning it; None if it may be any."""
        match expression:
            case exp.Paren() | exp.Neg() | exp.Alias():
                return self.guess_families(expression.this)
            case exp.Literal():
                is_whole = expression.name.isdecimal()
                return frozenset({"text" if expression.is_string else "integer" if is_whole else "floating"})
            case exp.Null() | exp.Boolean() | exp.Predicate() | exp.Interval() | exp.Not():
                return frozenset()
            case exp.Cast():
                target = expression.to.this
                return next(
                    (frozenset({family}) for kinds, family in _CAST_FAMILIES if target in kinds), None
                )
            case exp.Column():
                return self._families_by_name.get(expression.name.casefold())
        return None

    def may_mix(self, members: Iterable[exp.Expr], *families: Family) -> bool:
        """Return whether each of some families may be that of a different expression, without planning."""
        guesses = [self.guess_families(member) for member in members]
        found = [
            [at for at, one in enumerate(guesses) if one is None or family in one] for family in families
        ]
        return all(found) and len({at for places in found for at in places}) >= len(families)

    def find_type(self, expression: exp.Expr) -> pa.DataType | None:
        """Return the type of an expression, as DataFusion plans it where it is in the query.

        Returns:
            The Arrow type; None if it is not known, as that of a parameter without a value.
        """
        if isinstance(expression, exp.Literal):
            return self._find_literal_type(expression)
        field = self.find_field(expression)
        return None if field is None or pa.types.is_null(field.type) else field.type

    @staticmethod
    def _find_literal_type(literal: exp.Literal) -> pa.DataType:
        if literal.is_string:
            return pa.string()
        return pa.int64() if literal.name.isdecimal() else pa.float64()

    def find_field(self, expression: exp.Expr) -> pa.Field | None:
        """Return the name and the type that an expression has as a column of a result, without an alias."""
        select = expression.parent_select
        copy = expression.copy()
        is_bare = isinstance(copy, exp.Select | exp.SetOperation)
        probe = exp.Select(expressions=[exp.Subquery(this=copy) if is_bare else copy])
        while True:
            if select is not None:
                _read_same_rows(probe, select)
            schema = self._plan(write_sql(_with_common_tables(probe, expression)))
            select = None if select is None or schema is not None else select.parent_select
            if select is None:
                return schema.field(0) if schema else None
            # The expression may read columns of the query around it.
            probe = exp.Select(expressions=[exp.alias_(exp.Subquery(this=probe), "x", quoted=True)])

    def find_columns(self, relation: exp.Expr) -> Sequence[pa.Field]:
        """Return the columns of a table or a subquery in FROM; none if they are not known."""
        everything = exp.select("*").from_(relation.copy())
        schema = self._plan(write_sql(_with_common_tables(everything, relation)))
        return () if schema is None else list(schema)

    def find_outputs(self, query: exp.Query) -> Sequence[pa.Field]:
        """Return the outputs of a query, as DataFusion plans it where it is; none if they are not known."""
        schema = self._plan(write_sql(_with_common_tables(query, query)))
        return () if schema is None else list(schema)

    @cached_property
    def _families_by_name(self) -> dict[str, frozenset[Family]]:
        found: dict[str, frozenset[Family]] = {}
        for column in self.columns:
            name = column.name.casefold()
            found[name] = found.get(name, frozenset()) | {find_family(column.type)}
        for node in self.root.find_all(exp.Alias, exp.TableAlias):
            names = [one.name for one in node.args.get("columns") or ()] or [node.alias]
            for name in names:
                found.pop(name.casefold(), None)
        return found

    def _plan(self, sql: str) -> pa.Schema | None:
        if sql not in self._schemas:
            try:
                self._schemas[sql] = self._find_schema(sql)
            except Exception:  # noqa: BLE001 - the plan of the statement raises what is wrong with it
                self._schemas[sql] = None
        return self._schemas[sql]


def _read_same_rows(probe: exp.Select, select: exp.Select) -> None:
    for key in ("from_", "joins", "laterals"):
        part = select.args.get(key)
        probe.set(key, [one.copy() for one in part] if isinstance(part, list) else part and part.copy())


def _with_common_tables(probe: exp.Query, expression: exp.Expr) -> exp.Query:
    """Return a query with the common table expressions that an expression may read."""
    tables: list[exp.CTE] = []
    is_recursive = False
    inner: exp.Expr | None = expression
    node = expression.parent
    while node is not None:
        with_ = node if isinstance(node, exp.With) else node.args.get("with_")
        if isinstance(with_, exp.With) and with_ is not inner:
            is_recursive |= bool(with_.args.get("recursive"))
            level = list(with_.expressions)
            if not with_.args.get("recursive"):
                level = level[: next((at for at, table in enumerate(level) if table is inner), None)]
            known = {table.alias for table in tables}
            # Those of outer queries come first, since inner ones may read them.
            tables = [*(table for table in level if table.alias not in known), *tables]
        inner, node = node, node.parent
    if not tables:
        return probe
    found = probe.copy()
    own = found.args.get("with_")
    copies = [table.copy() for table in tables]
    if own is not None:
        is_recursive |= bool(own.args.get("recursive"))
        copies = [one for one in copies if one.alias not in {table.alias for table in own.expressions}]
        copies += own.expressions
    found.set("with_", exp.With(expressions=copies, recursive=is_recursive))
    return found
