"""Beside a decimal, a number with a fraction is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.groups import find_groups, find_unions
from planner.sql.rules.tree import Tree, find_family, for_texts

_MAX_DIGITS: Final = 38
_MAX_COMPARED_DIGITS: Final = 76


@for_texts(r"\.\d", r"decimal|numeric|\bdec\b")
def decimal_literals(tree: Tree) -> None:
    """Write a literal with a fraction as a decimal beside a decimal.

    DataFusion reads 4.44 as a double, and compares a double with a decimal as decimals of more digits, in
    which 4.44 is another number. Literals with an exponent and those beside floating columns stay doubles.

        SELECT id FROM p WHERE price = 4.44
    ->  SELECT id FROM p WHERE price = CAST('4.44' AS DECIMAL(3, 2))
    """
    for group in find_groups(tree):
        literals = [one for member in group.members for one in find_literals(member) or ()]
        others = [member for member in group.members if not find_literals(member)]
        if not literals or not tree.may_mix(others, "decimal"):
            continue
        kinds = [tree.find_type(member) for member in others]
        most = _MAX_COMPARED_DIGITS if group.is_condition else _MAX_DIGITS
        _replace_literals(tree, literals, kinds, most)
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            found = [find_literals(branch.items[at]) if branch.items else None for branch in branches]
            united = [one for literals in found for one in literals or ()]
            kinds = [
                branch.fields[at].type
                for branch, literals in zip(branches, found, strict=True)
                if not literals
            ]
            _replace_literals(tree, united, kinds, _MAX_DIGITS)


def _replace_literals(
    tree: Tree, literals: Sequence[exp.Literal], kinds: Sequence[pa.DataType | None], most: int
) -> None:
    """Replace literals beside decimals, if no floats are beside them and decimals hold them."""
    families = {find_family(kind) for kind in kinds if kind is not None}
    fits = all(_count_digits(one)[0] <= most for one in literals)
    if "decimal" in families and "floating" not in families and fits:
        for literal in literals:
            tree.replace(literal, _write_decimal(literal))


def find_literals(member: exp.Expr) -> Sequence[exp.Literal] | None:
    """Return the literals with a fraction in a constant number; None for other expressions."""
    match member:
        case exp.Paren() | exp.Neg():
            return find_literals(member.this)
        case exp.Literal() if not member.is_string:
            whole, _, fraction = member.name.partition(".")
            if whole.isdecimal() and not fraction:
                return []
            return [member] if (whole.isdecimal() or not whole) and fraction.isdecimal() else None
        case exp.Add() | exp.Sub() | exp.Mul():
            parts = [member.this, member.expression]
        case exp.Case():
            default = member.args.get("default")
            parts = [branch.args["true"] for branch in member.args["ifs"]] + ([default] if default else [])
        case _:
            return None
    found = [find_literals(part) for part in parts]
    return None if None in found else [one for literals in found for one in literals or ()]


def _count_digits(literal: exp.Literal) -> tuple[int, int]:
    """Return the precision and the scale of a number."""
    whole, _, fraction = literal.name.partition(".")
    return max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction)


def _write_decimal(literal: exp.Literal) -> exp.Expr:
    precision, scale = _count_digits(literal)
    if precision > _MAX_DIGITS:
        return parse_expression(f"arrow_cast('{literal.name}', 'Decimal256({precision}, {scale})')")
    cast = parse_expression(f"CAST(NULL AS DECIMAL({precision}, {scale}))")
    cast.set("this", exp.Literal.string(literal.name))
    return cast
