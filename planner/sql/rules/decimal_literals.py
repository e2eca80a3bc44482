"""Beside a decimal, a number with a fraction is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.tree import Tree

_PAIRS: Final = (
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod),
)
_FUNCTIONS: Final = frozenset({"COALESCE", "NULLIF", "GREATEST", "LEAST", "NVL", "IFNULL"})
"""Functions whose arguments are brought to one type."""
_MAX_DIGITS: Final = 38


def decimal_literals(tree: Tree) -> None:
    """Write a literal with a fraction as a decimal beside a decimal.

    DataFusion reads 4.44 as a double, and compares a double with a decimal as decimals of more digits, in which
    4.44 is another number. Literals with an exponent, and those beside floating columns, remain doubles.

        SELECT id FROM p WHERE price = 4.44
    ->  SELECT id FROM p WHERE price = CAST('4.44' AS DECIMAL(3, 2))
    """
    if not any(map(_has_fraction, tree.root.find_all(exp.Literal))):
        return
    # From the inside out, so that the types of operands are those that are planned.
    for group in reversed(list(_find_groups(tree.root))):
        literals = [literal for literal in map(_find_literal, group) if literal is not None]
        if not literals:
            continue
        kinds = [tree.find_type(member) for member in group if _find_literal(member) is None]
        is_decimal = any(kind is not None and pa.types.is_decimal(kind) for kind in kinds)
        if is_decimal and not any(kind is not None and pa.types.is_floating(kind) for kind in kinds):
            for literal in literals:
                tree.replace(literal, _write_decimal(literal.name))


def _find_groups(root: exp.Expr) -> Iterator[Sequence[exp.Expr]]:
    """Yield expressions that DataFusion brings to one type."""
    for node in root.walk():
        if isinstance(node, _PAIRS):
            yield node.this, node.expression
        elif isinstance(node, exp.In):
            yield node.this, *node.expressions
        elif isinstance(node, exp.Between):
            yield node.this, node.args["low"], node.args["high"]
        elif isinstance(node, exp.Case):
            branches = node.args["ifs"]
            if node.this is not None:
                yield node.this, *(branch.this for branch in branches)
            default = node.args.get("default")
            yield *(branch.args["true"] for branch in branches), *(() if default is None else (default,))
        elif isinstance(node, exp.Anonymous) and node.name.upper() in _FUNCTIONS:
            yield node.expressions
        elif isinstance(node, exp.Values):
            rows = [row.expressions for row in node.expressions if isinstance(row, exp.Tuple)]
            yield from zip(*rows, strict=False)
        elif isinstance(node, exp.SetOperation) and not isinstance(node.parent, exp.SetOperation):
            outputs = [select.expressions for select in _list_selects(node)]
            if not any(item.is_star for items in outputs for item in items):
                yield from ([item.unalias() for item in column] for column in zip(*outputs, strict=False))


def _list_selects(query: exp.Expr) -> list[exp.Select]:
    """Return the queries that a set operation unites."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return [*_list_selects(query.this), *_list_selects(query.expression)]
    return [query] if isinstance(query, exp.Select) else []


def _find_literal(member: exp.Expr) -> exp.Literal | None:
    """Return the literal with a fraction that an expression is, but for its sign; None for others."""
    while isinstance(member, exp.Neg | exp.Paren):
        member = member.this
    return member if isinstance(member, exp.Literal) and _has_fraction(member) else None


def _has_fraction(literal: exp.Literal) -> bool:
    """Return whether a literal is a number with a fraction that a decimal holds, and without an exponent."""
    whole, _, fraction = literal.name.partition(".")
    return (
        not literal.is_string
        and whole.isdigit() | (not whole)
        and fraction.isdigit()
        and (len(whole.lstrip("0")) + len(fraction) <= _MAX_DIGITS)
    )


def _write_decimal(digits: str) -> exp.Expr:
    whole, _, fraction = digits.partition(".")
    precision = max(len(whole.lstrip("0")) + len(fraction), 1)
    return parse_expression(f"CAST('{digits}' AS DECIMAL({precision}, {len(fraction)}))")
