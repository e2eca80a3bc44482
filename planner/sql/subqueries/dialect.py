"""Reads statements as trees, and writes them again in the same words.

sqlglot knows hundreds of functions, and writes some of them with other names. Here a function is its name and
its arguments, whatever its name is: names before a bracket get a prefix while they are parsed. Syntax of its
own (CAST, EXTRACT, SUBSTRING .. FROM) is read as such. A tree with nodes of other kinds than these is not
rewritten, since it is not known whether what would be written means the same.
"""

from __future__ import annotations

import itertools
import re
from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from planner.sql.rules import dialect as rules_dialect
from planner.sql.tokens import fold

_READER: Final = "postgres"
_WRITER: Final = "duckdb"
"""It has what DataFusion has: TINYINT, TRY_CAST, SEMI JOIN, QUALIFY, lists in brackets."""
_PREFIX: Final = "gateway_call_"
_PARAMETER: Final = re.compile(r"gateway_parameter_(\d+)_")
_WITH_SYNTAX: Final = frozenset(
    {"CAST", "TRY_CAST", "EXTRACT", "SUBSTRING", "POSITION", "EXCLUDE", "WITHIN"}
) | {"TRIM"}
_CALLED: Final = frozenset(
    {TokenType.VAR, TokenType.LEFT, TokenType.RIGHT, TokenType.REPLACE, TokenType.FIRST}
    | {TokenType.STRUCT, TokenType.MAP, TokenType.DATE}
)
"""Tokens that are functions before a bracket."""
_QUERIES: Final = frozenset(
    {
        "Select",
        "From",
        "Join",
        "Table",
        "TableAlias",
        "Subquery",
        "With",
        "CTE",
        "Union",
        "Except",
        "Intersect",
    }
    | {
        "Values",
        "Tuple",
        "Where",
        "Group",
        "Having",
        "Order",
        "Ordered",
        "Limit",
        "Offset",
        "Fetch",
        "LimitOptions",
    }
    | {"Distinct", "Qualify", "Lateral", "Unnest", "Star", "Alias", "Rollup", "Cube", "GroupingSets"}
)
_EXPRESSIONS: Final = frozenset(
    {"Column", "Identifier", "Literal", "Boolean", "Null", "Parameter", "Anonymous", "Var", "Paren", "Neg"}
    | {"Add", "Sub", "Mul", "Div", "Mod", "DPipe", "And", "Or", "Not", "EQ", "NEQ", "LT", "LTE", "GT", "GTE"}
    | {"Is", "NullSafeEQ", "NullSafeNEQ", "Like", "ILike", "In", "Between", "Any", "All", "Exists"}
    | {"Case", "If", "Cast", "TryCast", "DataType", "DataTypeParam", "Interval", "IntervalSpan", "Extract"}
    | {"Substring", "StrPosition", "CurrentDate", "Array", "Bracket", "HexString", "Explode", "Slice"}
    | {"Window", "WindowSpec", "Filter", "WithinGroup", "Pow", "RegexpLike", "RegexpILike", "Dot"}
    | {"BitwiseAnd", "BitwiseOr", "BitwiseLeftShift", "BitwiseRightShift", "AtTimeZone", "CurrentTimestamp"}
    | {"ArrayContainsAll", "ArrayContainedBy", "Trim"}
)
_KNOWN: Final = _QUERIES | _EXPRESSIONS
_TYPES: Final = frozenset(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "VARCHAR",
        "TEXT",
        "DATE",
        "TIMESTAMP",
    }
    | {"TIMESTAMPTZ", "TIME"}
)
_UNSIGNED: Final = {"UTINYINT": "UInt8", "USMALLINT": "UInt16", "UINT": "UInt32", "UBIGINT": "UInt64"}
"""Types of which sqlglot writes other names than DataFusion has."""


_UNITS: Final = {"DAYOFYEAR": "DOY", "DAYOFWEEK": "DOW", "DAYOFWEEKISO": "ISODOW"}
"""What sqlglot calls some units of EXTRACT."""
_TRIMS: Final = {"LEADING": "ltrim", "TRAILING": "rtrim"}


class RewritingError(Exception):
    """A statement that can't be written without its correlated subqueries; the text tells why."""


def write_parameter(number: int) -> str:
    """Return the name that stands for a parameter, counted from 1, while a statement is parsed."""
    return f" gateway_parameter_{number}_ "


def parse_query(sql: str) -> exp.Query:
    """Parse one query with marks for its parameters; names without quotes are folded, and get quotes.

    Raises:
        RewritingError: sqlglot can't read it, or it has syntax that might not be written as it was.
    """
    dialect = Dialect.get_or_raise(_READER)
    try:
        tokens = dialect.tokenize(sql)
        _prefix_calls(tokens)
        trees = dialect.parser().parse(tokens, sql)
    except SqlglotError as error:
        raise RewritingError(_describe(error)) from error
    except RecursionError:
        msg = "it is nested too deeply"
        raise RewritingError(msg) from None
    (tree, *more) = trees
    if more or not isinstance(tree, exp.Query):
        msg = "it is not one query"
        raise RewritingError(msg)
    for node in list(tree.walk()):
        _check(node)
        _settle(node)
    return tree


def parse_unchecked(sql: str) -> exp.Query:
    """Parse one query as `parse_query` does, of any syntax, to tell what it reads, and not to write it.

    Raises:
        RewritingError: it is not read either.
    """
    tree = rules_dialect.parse_query(sql)
    if tree is None:
        msg = "its syntax is not read here"
        raise RewritingError(msg)
    for node in list(tree.walk()):
        _settle(node)
    return tree


def _describe(error: SqlglotError) -> str:
    """Tell where sqlglot stopped; its own words are about its classes, and count in another text."""
    places = error.errors if isinstance(error, ParseError) else []
    near = next((place["highlight"] for place in places if place.get("highlight")), "")
    near = _PARAMETER.sub(r"$\1", near).removeprefix(_PREFIX)
    return f"its syntax is not read here{f' near {near!r}' if near else ''}"


def write_query(tree: exp.Expr) -> str:
    """Write a tree as text for DataFusion.

    Raises:
        RewritingError: sqlglot can't write it.
    """
    tree = tree.copy()
    for key in list(tree.find_all(exp.Ordered))[::-1]:
        # sqlglot leaves out what is the default of one dialect.
        direction = " DESC" if key.args.get("desc") else ""
        nulls = "FIRST" if key.args.get("nulls_first") else "LAST"
        key.replace(exp.Var(this=f"{_write(key.this)}{direction} NULLS {nulls}"))
    return _write(tree)


def _write(tree: exp.Expr) -> str:
    try:
        return tree.sql(dialect=_WRITER, comments=False, unsupported_level=ErrorLevel.RAISE)
    except SqlglotError as error:
        raise RewritingError(str(error)) from error


def _prefix_calls(tokens: list[Token]) -> None:
    for at, (token, following) in enumerate(itertools.pairwise(tokens)):
        token.comments = []
        is_call = following.token_type is TokenType.L_PAREN and token.token_type in _CALLED
        name = token.text.upper()
        if is_call and (name not in _WITH_SYNTAX or (name == "POSITION" and not _has_in(tokens[at + 1 :]))):
            token.text = f"{_PREFIX}{token.text}"
            token.token_type = TokenType.VAR


def _has_in(tokens: list[Token]) -> bool:
    """Return whether IN is between the brackets that some tokens begin with, but not in others within."""
    depth = 0
    for token in tokens:
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 or (depth == 1 and token.token_type is TokenType.IN):
            return depth == 1
    return False


def _check(node: exp.Expr) -> None:
    kind = type(node).__name__
    name = node.this.name if kind == "DataType" else ""
    if isinstance(node, exp.Version) and isinstance(node.expression, exp.Literal):
        return
    if kind not in _KNOWN or (name and name not in _TYPES and name not in _UNSIGNED):
        msg = f"{name or kind} may not be written as it was read"
        raise RewritingError(msg)


def _settle(node: exp.Expr) -> None:
    """Give a node the form in which it is written as it was read."""
    name = node.this if isinstance(node, exp.Anonymous | exp.Identifier) else None
    if isinstance(name, str) and name.startswith(_PREFIX):
        node.set("this", name.removeprefix(_PREFIX))
    if isinstance(node, exp.Identifier) and not node.quoted:
        node.set("this", fold(node.this))
        node.args["quoted"] = True
    elif isinstance(node, exp.Column) and not node.table and (mark := _PARAMETER.fullmatch(node.name)):
        node.replace(exp.Parameter(this=exp.Literal.number(mark[1])))
    elif (
        isinstance(node, exp.Lateral)
        and isinstance(node.this, exp.Subquery)
        and isinstance(node.this.this, exp.Values)
    ):
        node.this.set("this", _unite(node.this.this))
    elif isinstance(node, exp.Div):
        # Else sqlglot would write what divides numbers of one dialect as another one does.
        node.args["typed"] = False
        node.args["safe"] = False
    elif isinstance(node, exp.Join) and node.kind in {"SEMI", "ANTI"}:
        node.set("kind", f"{node.side or 'LEFT'} {node.kind}")
        node.set("side", None)
    elif isinstance(node, exp.HexString):
        node.replace(exp.Var(this=f"X'{node.this}'"))
    elif (call := _find_call(node)) is not None:
        node.replace(call)


def _find_call(node: exp.Expr) -> exp.Expr | None:
    """Return the function that means what an operator or a form does; None for other nodes."""
    match node:
        case exp.RegexpLike() | exp.RegexpILike():
            flags = [exp.Literal.string("i")] if isinstance(node, exp.RegexpILike) else []
            return _call("regexp_like", node.this, node.expression, *flags)
        case exp.Pow():
            return _call("power", node.this, node.expression)
        case exp.Extract():
            unit = node.name.upper()
            return _call("date_part", exp.Literal.string(_UNITS.get(unit, unit)), node.expression)
        case exp.Trim():
            name = _TRIMS.get(node.text("position").upper(), "btrim")
            return _call(name, *filter(None, (node.this, node.args.get("expression"))))
        case exp.Explode():
            return _call("unnest", node.this)
        case exp.Cast() if node.to.this.name in _UNSIGNED:
            name = "arrow_try_cast" if isinstance(node, exp.TryCast) else "arrow_cast"
            return _call(name, node.this, exp.Literal.string(_UNSIGNED[node.to.this.name]))
        case exp.Array():
            return _call("make_array", *node.expressions)
    return None


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _unite(values: exp.Values) -> exp.Query:
    """Return the rows of VALUES as queries without relations."""
    rows: list[exp.Query] = []
    for row in values.expressions:
        parts = row.expressions if isinstance(row, exp.Tuple) else [row]
        items = [
            exp.Alias(this=part.copy(), alias=exp.Identifier(this=f"column{number}", quoted=True))
            for number, part in enumerate(parts, start=1)
        ]
        rows.append(exp.Select(expressions=items))
    query = rows[0]
    for row in rows[1:]:
        query = exp.Union(this=query, expression=row, distinct=False)
    return query
