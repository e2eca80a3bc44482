"""Decimals beside literals, other numbers and functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.tree.dialect import parse_expression
from lance_gateway.planner.sql.tree.groups import (
    Cast,
    Kinds,
    Use,
    cast_to,
    find_groups,
    find_unions,
    make_nullable,
    recast,
    replace_value,
    unify_types,
)
from lance_gateway.planner.sql.tree.tree import Tree, find_family

MAX_DIGITS: Final = 38
_MAX_COMPARED_DIGITS: Final = 76


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
        # Divisors and multiples of a fraction are those of a decimal, also beside integers.
        is_divided = isinstance(group.node, exp.Anonymous) and group.use is Use.COMPUTED
        if not literals or not (is_divided or tree.may_mix(others, "decimal")):
            continue
        kinds = [tree.find_type(member) for member in others]
        most = _MAX_COMPARED_DIGITS if group.is_condition else MAX_DIGITS
        _replace_literals(tree, literals, kinds, most, is_exact=is_divided)
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            found = [find_literals(branch.items[at]) if branch.items else None for branch in branches]
            united = [one for literals in found for one in literals or ()]
            kinds = [
                branch.fields[at].type
                for branch, literals in zip(branches, found, strict=True)
                if not literals
            ]
            _replace_literals(tree, united, kinds, MAX_DIGITS)


def _replace_literals(
    tree: Tree,
    literals: Sequence[exp.Literal],
    kinds: Sequence[pa.DataType | None],
    most: int,
    *,
    is_exact: bool = False,
) -> None:
    """Replace literals beside decimals, if no floats are beside them and decimals hold them.

    Args:
        tree: of the query.
        literals: numbers with a fraction.
        kinds: of what is beside them.
        most: digits of a literal.
        is_exact: whether they are decimals beside integers, too.
    """
    families = {find_family(kind) for kind in kinds if kind is not None}
    fits = all(count_digits(one)[0] <= most for one in literals)
    if (is_exact or "decimal" in families) and "floating" not in families and fits:
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


def count_digits(literal: exp.Literal) -> tuple[int, int]:
    """Return the precision and the scale of a number."""
    whole, _, fraction = literal.name.partition(".")
    return max(len(whole.lstrip("0")) + len(fraction), 1), len(fraction)


def _write_decimal(literal: exp.Literal) -> exp.Expr:
    precision, scale = count_digits(literal)
    if precision > MAX_DIGITS:
        return parse_expression(f"arrow_cast('{literal.name}', 'Decimal256({precision}, {scale})')")
    cast = parse_expression(f"CAST(NULL AS DECIMAL({precision}, {scale}))")
    cast.set("this", exp.Literal.string(literal.name))
    return cast


_LARGE: Final = re.compile(r"\d{19}")


def decimals_as_doubles(tree: Tree) -> None:
    """Cast a decimal to DOUBLE beside a number that is one.

    DataFusion brings both to a decimal of more digits, in which 4.44 is another number, and so it does with
    integers that have no common type but a decimal. In arithmetic it makes a REAL of a decimal beside one.

        SELECT id FROM p JOIN q ON p.price = q.f
    ->  SELECT id FROM p JOIN q ON CAST(p.price AS DOUBLE) = q.f
    """
    unify_types(tree, ("decimal", "floating"), _choose)
    is_large = any(one.type == pa.uint64() for one in tree.columns)
    if is_large or any(_LARGE.search(one.name) for one in tree.find_all(exp.Literal)):
        unify_types(tree, ("integer", "floating"), _choose)
    for group in find_groups(tree):
        is_arithmetic = group.use is Use.COMPUTED and isinstance(group.node, exp.Binary)
        if is_arithmetic and tree.may_mix(group.members, "decimal", "floating"):
            kinds = [tree.find_type(member) for member in group.members]
            for member, cast in zip(group.members, _choose(kinds), strict=True):
                if cast is not None and pa.float64() not in kinds:
                    recast(tree, member, cast)


def _choose(kinds: Kinds) -> Sequence[Cast | None]:
    families = [None if kind is None else find_family(kind) for kind in kinds]
    is_signed = any(kind is not None and pa.types.is_signed_integer(kind) for kind in kinds)
    is_cast = [
        family == "decimal" or (is_signed and kind == pa.uint64())
        for family, kind in zip(families, kinds, strict=True)
    ]
    return [_cast_to_double if one and "floating" in families else None for one in is_cast]


def _cast_to_double(expression: exp.Expr) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType(this=exp.DType.DOUBLE))


MAX_WIDE_DIGITS: Final = 76
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}


def wide_decimals(tree: Tree) -> None:
    """Compare decimals of many digits as decimals of 76 digits.

    DataFusion brings DECIMAL(38, 2) and DECIMAL(5, 5) to DECIMAL(38, 5), which does not hold the large
    values of the first.

        SELECT id FROM p WHERE big > CAST('0.12345' AS DECIMAL(5, 5))
    ->  SELECT id FROM p WHERE arrow_cast(big, 'Decimal256(76, 5)') > arrow_cast(.., 'Decimal256(76, 5)')
    """
    for group in find_groups(tree):
        if not group.is_condition or not tree.may_mix(group.members, "decimal"):
            continue
        kinds = [tree.find_type(member) for member in group.members]
        sizes = [None if kind is None else count_needed_digits(kind) for kind in kinds]
        known = [size for size in sizes if size is not None]
        if len(known) < 2 or not any(kind is not None and pa.types.is_decimal(kind) for kind in kinds):
            continue
        whole, scale = max(size[0] for size in known), max(size[1] for size in known)
        if not MAX_DIGITS < whole + scale <= MAX_WIDE_DIGITS:
            continue
        for member, size in zip(group.members, sizes, strict=True):
            if size is not None:
                recast(tree, member, partial(cast_to, kind=pa.decimal256(MAX_WIDE_DIGITS, scale)))


def count_needed_digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return how many digits values have before and behind the point; None of other types."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (_INTEGER_DIGITS[kind.bit_width], 0) if find_family(kind) == "integer" else None


def rounded_decimals(tree: Tree) -> None:
    """Cast a rounded decimal to its type.

    DataFusion decides on the types of expressions around it before it knows to how many digits a decimal is
    rounded, and does not find out in a statement that has no rows.

        SELECT id FROM p WHERE round(price, 1) <> price
    ->  SELECT id FROM p WHERE CAST(round(price, 1) AS DECIMAL(10, 1)) <> price

    The type does not depend on the value of a parameter or a column: it is that of digits of rows.

        SELECT round(price, $1) AS x FROM p
    ->  SELECT CAST(round(price, $1) AS DECIMAL(11, 2)) AS x FROM p
    """
    for call in tree.find_calls("round")[::-1]:
        value, *digits = call.expressions or [exp.null()]
        kind = tree.find_type(value) if tree.may_mix([value], "decimal") else None
        if kind is not None and pa.types.is_decimal(kind):
            replace_value(tree, call, _cast_rounded(call.copy(), _round_type(kind, digits)))


def _round_type(kind: pa.DataType, digits: Sequence[exp.Expr]) -> pa.DataType:
    """Return the type of a decimal that is rounded, as DataFusion has it for constant digits."""
    is_wide = not pa.types.is_decimal128(kind)
    make, most = (pa.decimal256, MAX_WIDE_DIGITS) if is_wide else (pa.decimal128, MAX_DIGITS)
    number = digits[0] if digits else exp.Literal.number(0)
    is_negative = isinstance(number, exp.Neg)
    number = number.this if is_negative else number
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        return make(min(kind.precision + 1, most), kind.scale)
    if is_negative and kind.scale == 0:
        return make(min(kind.precision + 1, most), 0)
    return make(kind.precision, 0 if is_negative else min(int(number.name), kind.scale))


def _cast_rounded(expression: exp.Expr, kind: pa.DataType) -> exp.Expr:
    target = exp.DataType.build(f"DECIMAL({kind.precision}, {kind.scale})")
    return exp.Cast(this=expression, to=target)


def remainders(tree: Tree) -> None:
    """Hide that a decimal is never NULL before the remainder of its division by a constant.

    DataFusion takes `x % 1` for 0, as it is of integers, unless x may be NULL. What nullif() gives may be.

        SELECT coalesce(price, 1) % 1 FROM p
    ->  SELECT nullif(coalesce(price, 1), NULL) % 1 FROM p
    """
    for remainder in tree.find_all(exp.Mod)[::-1]:
        dividend, divisor = remainder.this, remainder.expression
        is_constant = divisor.find(exp.Column, exp.Query) is None
        if isinstance(dividend, exp.Column) or not is_constant or not tree.may_mix([dividend], "decimal"):
            continue
        kind = tree.find_type(dividend)
        if kind is not None and pa.types.is_decimal(kind):
            tree.replace(dividend, make_nullable(dividend))


def ceilings(tree: Tree) -> None:
    """Give a decimal a digit more before `ceil` and `floor`, which fail if it does not hold the integer.

        SELECT ceil(price) FROM p
    ->  SELECT ceil(CAST(price AS DECIMAL(11, 2))) FROM p
    """
    for call in tree.find_calls("ceil", "ceiling", "floor")[::-1]:
        if len(call.expressions) != 1:
            continue
        (value,) = call.expressions
        kind = tree.find_type(value) if tree.may_mix([value], "decimal") else None
        if (
            kind is not None
            and pa.types.is_decimal128(kind)
            and kind.scale > 0
            and kind.precision < MAX_DIGITS
        ):
            target = exp.DataType.build(f"DECIMAL({kind.precision + 1}, {kind.scale})")
            tree.replace(value, exp.Cast(this=value.copy(), to=target))
