"""Writes a predicate as a condition over what is known of the rows of a region: may it be true of one?

    date_trunc('month', ts) = '2026-03-01'
->  date_trunc('month', lower0) <= '2026-03-01' AND '2026-03-01' <= date_trunc('month', upper0) ..

`lower0` and `upper0` are columns of a table with a row for each region: the least and the largest `ts` that
it may have. DataFusion evaluates the condition, so comparisons, casts and functions mean what they mean in
the query. NULL says that nothing is known: an unknown bound, or a form that is not understood here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.columns.kinds import is_text
from lance_gateway.planner.scans.pruning.region_values import RegionValues, Span, find_end_of_prefix
from lance_gateway.planner.sql.tree.dialect import parse_expression, write_sql
from lance_gateway.planner.sql.tree.predicates import is_current

_MOST_MEMBERS: Final = 1000
"""Of a list; of a longer one nothing is said."""
_NEGATED: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_OPERATORS: Final[Mapping[type[exp.Expr], str]] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_MONOTONE_PARTS: Final = frozenset({"year", "epoch"})
_ROUNDED: Final = frozenset({"floor", "ceil"})
_ORDERED: Final = frozenset(
    {"DATE", "TIMESTAMP", "TIMESTAMPTZ", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
)
"""Types, as sqlglot calls them, to which casts among numbers and times keep the order."""
_ORDERED_IN_ARROW: Final = ("Date", "Timestamp", "Int", "Float", "Decimal")
_TRUE, _FALSE = "TRUE", "FALSE"
_HOLE: Final = "\0"


@dataclass(frozen=True, slots=True)
class _Ends:
    """SQL of what an expression may be in a region.

    Attributes:
        lower: its least value.
        upper: its largest value.
        has: whether it may be anything but NULL.
        null: whether it may be NULL.
        excludes_upper: whether `upper` is larger than all values.
        only_equality: whether nothing but equality with a text of ASCII can be decided.
        is_growing: whether functions of it may keep its order: those of texts have another one.
        is_text: whether it is a column of texts.
        unsure: conditions; if one holds, the ends are not known.
    """

    lower: str
    upper: str
    has: str = _TRUE
    null: str = _TRUE
    excludes_upper: bool = False
    only_equality: bool = False
    is_growing: bool = True
    is_text: bool = False
    unsure: tuple[str, ...] = ()


_NOW: Final = _Ends("$began", "$ended", null=_FALSE)
"""The time of the plan of the statement lies between that of its beginning and that of this question."""


class PossibleRows:
    """Conditions over the values of regions.

    Args:
        known: of the regions.

    Attributes:
        steps: name -> SQL of ends that conditions name, each over `rows` and the steps before it.
    """

    def __init__(self, known: RegionValues) -> None:
        self._arrays: list[pa.Array] = []
        self.steps: list[dict[str, str]] = []
        self._columns = {name: self._add(span) for name, span in known.columns.items()}
        self._is_zoned = known.zoned
        self._recorded = {
            **{f"date_part({part}, {name})": self._add(span) for (part, name), span in known.parts.items()},
            **{f"left({name}, {size})": self._add(span) for (name, size), span in known.starts.items()},
        }
        for one in known.computed:
            sources = {f"col{at}": column.name for at, column in enumerate(one.columns)}
            text = _write_over(parse_expression(one.sql), sources)
            self._recorded.setdefault(text, self._add(one.values))

    @property
    def rows(self) -> pa.RecordBatch:
        """The table that conditions are evaluated over, with a row for each region."""
        return pa.RecordBatch.from_arrays(self._arrays, [f"r{at}" for at in range(len(self._arrays))])

    def _add(self, span: Span) -> _Ends:
        at = len(self._arrays)
        flags = (pa.array(span.has_values), pa.array(span.may_be_null))
        self._arrays += [span.lower, span.upper, *flags]
        lower, upper, has, null = (f"r{at + n}" for n in range(4))
        text = is_text(span.type)
        is_growing = not (text or pa.types.is_boolean(span.type) or pa.types.is_binary(span.type))
        exceptions = (span.excludes_upper, span.only_equality, is_growing, text)
        return _Ends(lower, upper, has, null, *exceptions)

    def write(self, condition: exp.Expr, *, value: bool = True) -> str | None:
        """Return SQL of whether a condition may be true, or false, of a row; None if nothing is known."""
        if isinstance(condition, exp.Paren):
            return self.write(condition.this, value=value)
        if isinstance(condition, exp.Not):
            return self.write(condition.this, value=not value)
        if isinstance(condition, exp.And | exp.Or):
            sides = [self.write(one, value=value) for one in (condition.this, condition.expression)]
            return _join_all(sides) if isinstance(condition, exp.And) is value else _join_any(sides)
        is_wanted = value is not bool(condition.args.get("negate"))
        decide = self._write_test if isinstance(condition, exp.Is) else self._decide
        decided = decide(condition, value=is_wanted)
        return self._evaluate(condition, value=value) if decided is None else decided

    def _write_test(self, condition: exp.Expr, *, value: bool) -> str | None:
        """Return the SQL of IS NULL, or of IS TRUE where that may be."""
        tested = condition.expression
        if isinstance(tested, exp.Null) and (ends := self._find_ends(condition.this)) is not None:
            return ends.null if value else ends.has
        if isinstance(tested, exp.Boolean) and value:
            return self.write(condition.this, value=bool(tested.this))
        return None

    def _decide(self, condition: exp.Expr, *, value: bool) -> str | None:
        """Return the SQL of a comparison of expressions whose ends are known."""
        operator = _OPERATORS.get(type(condition))
        if operator is not None:
            sides = [self._find_ends(one) for one in (condition.this, condition.expression)]
            return _compare(sides[0], operator if value else _NEGATED[operator], sides[1])
        if isinstance(condition, exp.Between):
            first, low, high = (self._find_ends(condition.args[key]) for key in ("this", "low", "high"))
            if value:
                return _join_all([_compare(first, ">=", low), _compare(first, "<=", high)])
            return _join_any([_compare(first, "<", low), _compare(first, ">", high)])
        if isinstance(condition, exp.In):
            if condition.args.get("query") or not 0 < len(condition.expressions) <= _MOST_MEMBERS:
                return None
            first = self._find_ends(condition.this)
            members = [self._find_ends(one) for one in condition.expressions]
            found = [_compare(first, "=" if value else "<>", one) for one in members]
            return _join_any(found) if value else _join_all(found)
        if isinstance(condition, exp.Column):
            ends = self._find_ends(condition)
            return (
                None if ends is None else _join_all([ends.has, ends.upper if value else f"NOT {ends.lower}"])
            )
        return self._match_prefix(condition) if value else None

    def _match_prefix(self, condition: exp.Expr) -> str | None:
        """Return the SQL of `LIKE 'prefix..'`, `starts_with(s, 'prefix')` or `~ '^prefix'`."""
        subject, prefix, is_whole = _read_prefix(condition)
        ends = None if subject is None else self._find_ends(subject)
        end = prefix if is_whole else find_end_of_prefix(prefix)
        if ends is None or not ends.is_text or ends.only_equality or end is None:
            return None
        start, end = (exp.Literal.string(one).sql() for one in (prefix, end))
        above, below = ">" if ends.excludes_upper else ">=", "<=" if is_whole else "<"
        return _join_all([ends.has, f"{ends.upper} {above} {start}", f"{ends.lower} {below} {end}"])

    def _evaluate(self, condition: exp.Expr, *, value: bool) -> str | None:
        """Return the SQL of a condition where all columns in it have one value per region."""
        columns = {column.name: self._columns.get(column.name) for column in condition.find_all(exp.Column)}
        if any(map(is_current, condition.walk())):
            return None
        exact = []
        for ends in columns.values():
            if ends is None or ends.excludes_upper:
                return None
            one = f"({ends.lower} = {ends.upper} AND NOT {ends.null})"
            exact.append(f"({one} OR NOT {ends.has})")
        lowers = {name: ends.lower for name, ends in columns.items() if ends is not None}
        text = _write_over(condition, lowers)
        test = "IS TRUE" if value else "IS FALSE"
        return f"(({' AND '.join(exact)}) IS NOT TRUE OR ({text}) {test})" if exact else None

    def _find_ends(self, expression: exp.Expr) -> _Ends | None:
        """Return the ends of an expression; None if nothing is known of it."""
        if isinstance(expression, exp.Paren):
            return self._find_ends(expression.this)
        if isinstance(expression, exp.Column):
            return self._columns.get(expression.name)
        if isinstance(expression, exp.CurrentDate):
            expression = exp.cast(exp.CurrentTimestamp(), "date")
        if is_current(expression):
            return _NOW
        if expression.find(exp.Column) is None and not any(map(is_current, expression.walk())):
            text = write_sql(expression)
            return _Ends(f"({text})", f"({text})", null=_FALSE, is_growing=False)
        return self._recorded.get(_write_recorded(expression)) or self._find_monotone(expression)

    def _find_monotone(self, expression: exp.Expr) -> _Ends | None:
        """Return the ends of what never gives less for more of a column; each is that of an end of it."""
        inner = _find_grown(expression)
        ends = None if inner is None else self._find_ends(inner)
        if inner is None or ends is None or not ends.is_growing:
            return None
        if isinstance(expression, exp.Binary) and any(
            one.name in self._is_zoned for one in inner.find_all(exp.Column)
        ):
            return None  # in a named zone, clocks are set back: sums of days do not keep the order
        unsure = list(ends.unsure)
        if isinstance(expression, exp.Add | exp.Sub) and not all(
            map(_is_steady, _list_intervals(expression))
        ):
            # A month more is the same day for several days, but not within one.
            if ends.lower != _NOW.lower:
                return None
            unsure.append(f"CAST({_NOW.lower} AS DATE) < CAST({_NOW.upper} AS DATE)")
        number = len(self.steps)
        text = _write_around(expression, inner, _HOLE)
        texts = [text.replace(_HOLE, one) for one in (ends.lower, ends.upper)]
        lower, upper = names = (f"lower{number}", f"upper{number}")
        self.steps.append(dict(zip(names, texts, strict=True)))
        # Integers that are too large for a type go on with its least one.
        return replace(ends, lower=lower, upper=upper, null=_TRUE, unsure=(*unsure, f"{lower} > {upper}"))


def _join_all(parts: Sequence[str | None]) -> str | None:
    """Return SQL of whether all conditions hold; those of which nothing is known are left out."""
    known = [one for one in parts if one is not None and one != _TRUE]
    if not known:
        return None if None in parts else _TRUE
    return f"({' AND '.join(known)})"


def _join_any(parts: Sequence[str | None]) -> str | None:
    known = [one for one in parts if one is not None]
    return f"({' OR '.join(known)})" if len(known) == len(parts) else None


def _compare(left: _Ends | None, operator: str, right: _Ends | None) -> str | None:
    """Return SQL of whether a comparison may be true; None if nothing is known of it."""
    if left is None or right is None:
        return None
    # Other implementations may compute other values of other letters.
    by_letters = left.only_equality or right.only_equality
    if by_letters and not (
        operator == "=" and all(one.only_equality or _is_ascii(one.lower) for one in (left, right))
    ):
        return None
    compared = _join_any([_COMPARISONS[operator](left, right), *left.unsure, *right.unsure])
    return _join_all([left.has, right.has, compared])


def _is_ascii(constant: str) -> bool:
    return constant.isascii() and "$" not in constant


def _write_at_most(left: _Ends, right: _Ends) -> str:
    return f"{left.lower} {'<' if right.excludes_upper else '<='} {right.upper}"


_COMPARISONS: Final[Mapping[str, Callable[[_Ends, _Ends], str]]] = {
    "=": lambda left, right: f"({_write_at_most(left, right)} AND {_write_at_most(right, left)})",
    "<>": lambda left, right: (
        "TRUE"
        if left.excludes_upper or right.excludes_upper
        else f"(NOT ({left.lower} = {left.upper} AND {right.lower} = {right.upper} AND "
        f"{left.lower} = {right.lower}))"
    ),
    "<": lambda left, right: f"{left.lower} < {right.upper}",
    "<=": _write_at_most,
    ">": lambda left, right: f"{right.lower} < {left.upper}",
    ">=": lambda left, right: _write_at_most(right, left),
}


def _find_grown(expression: exp.Expr) -> exp.Expr | None:
    """Return the operand that an expression never gives less for more of; None if there is none."""
    if isinstance(expression, exp.Cast):
        cast: exp.Expr = expression.this
        return cast if expression.to.this.name in _ORDERED else None
    if isinstance(expression, exp.Extract):
        dated: exp.Expr = expression.expression
        return dated if expression.name.lower() in _MONOTONE_PARTS else None
    if isinstance(expression, exp.Add | exp.Sub | exp.Div):
        return _find_moved(expression)
    if not isinstance(expression, exp.Anonymous):
        return None
    name = expression.name.lower()
    arguments: list[exp.Expr] = expression.expressions
    if name in _ROUNDED and len(arguments) == 1:
        return arguments[0]
    if name == "arrow_cast" and arguments[1].name.startswith(_ORDERED_IN_ARROW):
        return arguments[0]
    if name == "make_date" and len(arguments) == 3:
        return _find_first_day(*arguments)
    if name not in {"date_trunc", "date_part"} or len(arguments) != 2 or not arguments[0].is_string:
        return None
    is_monotone = name == "date_trunc" or arguments[0].name.lower() in _MONOTONE_PARTS
    return arguments[1] if is_monotone else None


def _find_moved(expression: exp.Add | exp.Sub | exp.Div) -> exp.Expr | None:
    """Return the operand that a constant is added to, or that is divided by a positive one."""
    inner: exp.Expr = expression.this
    constant: exp.Expr = expression.expression
    if isinstance(expression, exp.Add) and isinstance(inner, exp.Literal | exp.Interval):
        inner, constant = constant, inner
    if isinstance(constant, exp.Interval):
        return None if isinstance(expression, exp.Div) else inner
    is_number = isinstance(constant, exp.Literal) and not constant.is_string
    if not is_number or (isinstance(expression, exp.Div) and float(constant.this) <= 0):
        return None
    return inner


def _list_intervals(expression: exp.Binary) -> list[exp.Interval]:
    return [one for one in (expression.this, expression.expression) if isinstance(one, exp.Interval)]


def _is_steady(interval: exp.Interval) -> bool:
    """Return whether an interval is as long for each day."""
    unit = interval.args.get("unit")
    return unit is not None and unit.name.upper().rstrip("S") in {"WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}


def _find_first_day(year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr | None:
    """Return the expression whose year, and whose month or quarter, a date begins."""
    inner = _find_part(year, "year")
    is_first = isinstance(day, exp.Literal) and inner is not None and _grows_in_year(month, inner)
    return inner if is_first else None


def _grows_in_year(month: exp.Expr, inner: exp.Expr) -> bool:
    """Return whether the number of a month never falls within the years of an expression."""
    if isinstance(month, exp.Paren | exp.Cast):
        return _grows_in_year(month.this, inner)
    if isinstance(month, exp.Sub):
        return isinstance(month.expression, exp.Literal) and _grows_in_year(month.this, inner)
    if isinstance(month, exp.Mul):
        sides = (month.this, month.expression)
        is_scaled = any(isinstance(one, exp.Literal) for one in sides)
        return is_scaled and all(_grows_in_year(one, inner) for one in sides)
    parts = [_find_part(month, "month"), _find_part(month, "quarter")]
    return isinstance(month, exp.Literal) or inner in parts


def _find_part(expression: exp.Expr, part: str) -> exp.Expr | None:
    """Return the expression of which another one is a part, such as the year."""
    if isinstance(expression, exp.Paren | exp.Cast):
        return _find_part(expression.this, part)
    if isinstance(expression, exp.Extract):
        return expression.expression if expression.name.lower() == part else None
    if isinstance(expression, exp.Anonymous) and expression.name.lower() == "date_part":
        first, *others = expression.expressions
        return others[0] if first.name.lower() == part and len(others) == 1 else None
    return None


def _write_around(expression: exp.Expr, inner: exp.Expr, text: str) -> str:
    """Write an expression with a column in the place of an operand."""
    whole = exp.Paren(this=expression.copy())
    for one in [one for one in whole.walk() if one == inner]:
        one.replace(exp.Paren(this=exp.var(text)))
    return write_sql(whole)


def _write_over(expression: exp.Expr, names: Mapping[str, str]) -> str:
    """Write an expression over columns of other names."""
    copied = exp.Paren(this=expression.copy())
    for column in list(copied.find_all(exp.Column)):
        column.replace(exp.Column(this=exp.to_identifier(names.get(column.name, column.name), quoted=True)))
    for call in copied.find_all(exp.Anonymous):
        call.set("this", call.name.lower())
    return write_sql(copied.this)


def _write_recorded(expression: exp.Expr) -> str:
    """Write an expression that regions may record by itself, in one spelling."""
    if isinstance(expression, exp.Extract) and isinstance(expression.expression, exp.Column):
        return f"date_part({expression.name.lower()}, {expression.expression.name})"
    name, arguments = "", []
    if isinstance(expression, exp.Anonymous):
        name, arguments = expression.name.lower(), expression.expressions
    elif isinstance(expression, exp.Substring):
        name, arguments = (
            "substr",
            [expression.this, expression.args.get("start"), expression.args.get("length")],
        )
    values = [one.name for one in arguments if isinstance(one, exp.Literal | exp.Column)]
    if len(values) == len(arguments):
        if name == "date_part" and len(values) == 2:
            return f"date_part({values[0].lower()}, {values[1]})"
        if name == "left" and len(values) == 2:
            return f"left({values[0]}, {values[1]})"
        if name in {"substr", "substring"} and len(values) == 3 and values[1] == "1":
            return f"left({values[0]}, {values[2]})"
    return _write_over(expression, {})


def _read_prefix(condition: exp.Expr) -> tuple[exp.Expr | None, str, bool]:
    """Return what is matched, the ASCII text that it begins with then, and whether that is all of it."""
    if isinstance(condition, exp.Anonymous) and condition.name.lower() == "starts_with":
        subject, pattern = condition.expressions if len(condition.expressions) == 2 else (None, None)
    elif isinstance(condition, exp.Like | exp.RegexpLike):
        subject, pattern = condition.this, condition.expression
    else:
        return None, "", False
    if not (isinstance(pattern, exp.Literal) and pattern.is_string and pattern.name.isascii()):
        return None, "", False
    text = pattern.name
    if isinstance(condition, exp.Like):
        prefix = re.split(r"[%_\\]", text, maxsplit=1)[0]
        return subject, prefix, prefix == text
    if isinstance(condition, exp.RegexpLike):
        found = re.fullmatch(r"\^([A-Za-z0-9 ]+)", text)
        return (None, "", False) if found is None else (subject, found[1], False)
    return subject, text, False
