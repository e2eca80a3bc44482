"""CAST of fractions to integers: most dialects round, and DataFusion truncates.

    CAST(amount AS SIGNED)    ->    CAST(round("amount") AS BIGINT)

Casts of text and of integer columns are not changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.sql.dialects.names import KnownNames, find_table
from lance_gateway.planner.sql.dialects.source import DialectSource

ROUNDING = frozenset({"duckdb", "mysql", "snowflake", "bigquery", "trino"})
"""Dialects that round; Spark truncates."""
_MARK = "is_rounded"
_FRACTIONS = (
    exp.Avg, exp.Cbrt, exp.Exp, exp.Ln, exp.Log, exp.Median, exp.PercentileCont, exp.Pow, exp.Quantile,
    exp.Rand, exp.SafeDivide, exp.Sqrt, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance,
    exp.VariancePop,
)  # fmt: skip
# Expressions that are fractions if one of their operands is.
_AS_OPERANDS = (
    exp.Abs, exp.Add, exp.AnyValue, exp.Case, exp.Coalesce, exp.Filter, exp.FirstValue, exp.Greatest, exp.If,
    exp.Lag, exp.LastValue, exp.Lead, exp.Least, exp.Max, exp.Min, exp.Mod, exp.Mul, exp.Neg, exp.Nullif,
    exp.Paren, exp.Round, exp.Sub, exp.Sum, exp.Window,
)  # fmt: skip


def find_fractional_columns(named: Sequence[TableName], known: KnownNames) -> tuple[str, ...]:
    """Return the columns with fractions, in lower case, of the tables that a statement names."""
    fractions: set[str] = set()
    others: set[str] = set()
    for name in named:
        table = find_table(name, known)
        for field in () if table is None else table[1]:
            kind = field.type
            is_fraction = pa.types.is_floating(kind) or (pa.types.is_decimal(kind) and kind.scale > 0)
            (fractions if is_fraction else others).add(field.name.lower())
    return tuple(sorted(fractions - others))


def mark_rounded(tree: exp.Expr, source: DialectSource, columns: Sequence[str]) -> None:
    """Mark the casts of a statement that round; called before it is translated.

    Args:
        tree: the statement.
        source: its text.
        columns: with fractions.
    """
    if source.dialect not in ROUNDING:
        return
    fractional = set(columns)
    aliases = list(tree.find_all(exp.Alias))
    for alias in reversed(aliases):  # inner ones first
        if _is_fraction(alias.this, source, fractional):
            fractional.add(alias.alias.lower())
    for cast in tree.find_all(exp.Cast, exp.TryCast):
        if cast.is_type(*exp.DataType.INTEGER_TYPES) and _is_fraction(cast.this, source, fractional):
            cast.meta[_MARK] = True


def is_rounded(cast: exp.Expr) -> bool:
    """Return whether a cast was marked."""
    return bool(cast.meta.get(_MARK))


def _is_fraction(node: exp.Expr, source: DialectSource, columns: set[str]) -> bool:
    if isinstance(node, exp.Literal):
        return not node.is_string and not node.this.isdigit()
    if isinstance(node, exp.Column):
        return node.name.lower() in columns
    if isinstance(node, exp.Cast):
        to = node.to
        scaled = to.this is exp.DType.DECIMAL and len(to.expressions) > 1 and to.expressions[1].name != "0"
        return scaled or to.is_type(*exp.DataType.REAL_TYPES - {exp.DType.DECIMAL})
    if isinstance(node, exp.Div) and source.dialect != "trino":
        return True
    if isinstance(node, _FRACTIONS):
        return True
    return isinstance(node, (*_AS_OPERANDS, exp.Div)) and any(
        _is_fraction(expression, source, columns) for expression in node.iter_expressions()
    )
