"""Integers, REALs, powers and logarithms, and texts of digits beside them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.decimals import find_literals
from lance_gateway.planner.sql.tree.groups import Use, find_groups, find_unions, recast
from lance_gateway.planner.sql.tree.tree import Family, Tree, find_family, for_texts


@for_texts(r"\^")
def powers(tree: Tree) -> None:
    """Write `^` as a function.

    DataFusion takes `^` for the exclusive OR of bits.

        SELECT 2 ^ 3
    ->  SELECT power(2, 3)
    """
    for power in reversed(list(tree.root.find_all(exp.Pow))):
        operands = [power.this.unnest().copy(), power.expression.unnest().copy()]
        tree.replace(power, exp.Anonymous(this="power", expressions=operands))


@for_texts(r"\blog\s*\(")
def logarithms(tree: Tree) -> None:
    """Write a logarithm to a base as a quotient, and one without a base as that to 10.

    DataFusion takes `log(b, 1)` for 0 and `log(b, b)` for 1 also where the logarithm of b is NaN, and gives
    another type to a logarithm of constants than to one over rows. It has none of a DECIMAL(5, 4), since
    that does not hold 10.

        SELECT log(b, 1), log(x) FROM t
    ->  SELECT (ln(1) / ln(b)), log10(x) FROM t
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        if call.name.casefold() != "log":
            continue
        if len(call.expressions) == 1:
            tree.replace(call, exp.Anonymous(this="log10", expressions=[call.expressions[0].copy()]))
        elif len(call.expressions) == 2:
            base, number = (exp.Anonymous(this="ln", expressions=[one.copy()]) for one in call.expressions)
            quotient = exp.Div(this=number, expression=base, typed=True, safe=False)
            tree.replace(call, exp.Paren(this=quotient))


@for_texts(r"(?:\bu?int(?:8|16|32)\b|\buint64\b|\b(?:tinyint|smallint|int|integer|unsigned)\b)", r"[-+*]")
def integer_arithmetic(tree: Tree) -> None:
    """Add, subtract and multiply integers as BIGINT, and unsigned ones of 64 bits as decimals.

    DataFusion wraps around: 100000 * 100000 of INT columns is 1410065408, and 1 - 4 without signs 4294967293.

        SELECT a * b FROM t
    ->  SELECT CAST(a AS BIGINT) * CAST(b AS BIGINT) FROM t
    """
    for group in find_groups(tree):
        is_exact = isinstance(group.node, exp.Add | exp.Sub | exp.Mul)
        if group.use is not Use.COMPUTED or not is_exact or not tree.may_mix(group.members, "integer"):
            continue
        kinds = [tree.find_type(member) for member in group.members]
        target = _choose_type(kinds)
        if target is not None:
            for member in group.members:
                recast(tree, member, partial(_cast, target=target))


def _choose_type(kinds: Sequence[pa.DataType | None]) -> str | None:
    """Return the type that holds all results; None where nothing is to be cast."""
    if not all(kind is not None and pa.types.is_integer(kind) for kind in kinds):
        return None
    if pa.uint64() in kinds and all(map(pa.types.is_unsigned_integer, kinds)):
        return "DECIMAL(20, 0)"
    return "BIGINT" if all(kind is not None and kind.bit_width < 64 for kind in kinds) else None


def _cast(expression: exp.Expr, target: str) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType.build(target))


@for_texts(r"\.\d", r"\bfloat(?:4|16|32)?\b|halffloat|\breal\b")
def real_literals(tree: Tree) -> None:
    """Cast a literal with a fraction to REAL where it is compared with one, or is one of its results.

    DataFusion compares both as doubles, in which no REAL is 4.44. A literal with an exponent
    remains a double.

        SELECT id FROM p WHERE r = 4.44
    ->  SELECT id FROM p WHERE r = CAST(4.44 AS REAL)
    """
    for group in find_groups(tree):
        literals = [one for member in group.members for one in find_literals(member) or ()]
        others = [member for member in group.members if not find_literals(member)]
        if group.use is not Use.COMPUTED and literals and tree.may_mix(others, "floating"):
            _replace_literals(tree, literals, [tree.find_type(member) for member in others])
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            found = [find_literals(branch.items[at]) if branch.items else None for branch in branches]
            kinds = [branch.fields[at].type for branch, one in zip(branches, found, strict=True) if not one]
            _replace_literals(tree, [one for literals in found for one in literals or ()], kinds)


def _replace_literals(
    tree: Tree, literals: Sequence[exp.Literal], kinds: Sequence[pa.DataType | None]
) -> None:
    """Replace literals where what is beside them is of type REAL, or an integer."""
    names = {str(kind) for kind in kinds if kind is not None and find_family(kind) != "integer"} - {"null"}
    if names in ({"float"}, {"halffloat"}):
        for literal in literals:
            target = exp.DataType(this=exp.DType.FLOAT)
            tree.replace(literal, exp.Cast(this=literal.copy(), to=target))


_NUMBERS: Final[frozenset[Family]] = frozenset({"decimal", "floating", "integer"})
_NUMBER: Final = re.compile(r"\s*([-+]?)(\d+(?:\.\d*)?|\.\d+)\s*")
_WHOLE_DIGITS: Final = 18


@for_texts(r"'\s*[-+]?(?:\d+(?:\.\d*)?|\.\d+)\s*'")
def number_texts(tree: Tree) -> None:
    """Write a text literal of digits as a number where all values beside it are numbers.

    DataFusion rounds the text to the digits of a decimal, and makes texts of the numbers in CASE and UNION.
    Beside integers alone, a text with a fraction remains one, which no integer can be made of.

        SELECT CASE WHEN price IS NULL THEN '4.44' ELSE price END FROM p
    ->  SELECT CASE WHEN price IS NULL THEN 4.44 ELSE price END FROM p
    """
    for group in find_groups(tree):
        texts = [member for member in group.members if _is_number(member)]
        others = [member for member in group.members if not _is_text(member)]
        if group.use is Use.COMPUTED or not texts or not _may_be_numbers(tree, others):
            continue
        # DataFusion compares such texts with integers and floats as numbers of their type.
        if group.use is Use.RETURNED or tree.may_mix(others, "decimal"):
            _replace_texts(tree, texts, [tree.find_type(member) for member in others], group.use)
    for branches in find_unions(tree):
        for at in range(len(branches[0].fields)):
            found = [branch.items[at] if branch.items else None for branch in branches]
            kinds = [
                branch.fields[at].type
                for branch, item in zip(branches, found, strict=True)
                if item is None or not _is_text(item)
            ]
            _replace_texts(tree, [item for item in found if item and _is_number(item)], kinds, Use.RETURNED)


def _is_text(member: exp.Expr) -> bool:
    return isinstance(member, exp.Literal) and member.is_string


def _is_number(member: exp.Expr) -> bool:
    return _is_text(member) and _NUMBER.fullmatch(member.name) is not None


def _may_be_numbers(tree: Tree, members: Sequence[exp.Expr]) -> bool:
    guesses = [tree.guess_families(member) for member in members]
    return bool(guesses) and all(guess is None or not guess or guess & _NUMBERS for guess in guesses)


def _replace_texts(
    tree: Tree, texts: Sequence[exp.Expr], kinds: Sequence[pa.DataType | None], use: Use
) -> None:
    """Replace texts beside numbers alone; an unknown type is that of NULL or of a parameter."""
    families = {find_family(kind) for kind in kinds if kind is not None and not pa.types.is_null(kind)}
    if not families or not families <= _NUMBERS or (use is Use.COMPARED and "decimal" not in families):
        return
    for text in texts:
        sign, digits = _NUMBER.fullmatch(text.name).groups()  # type: ignore[union-attr]
        whole, _, fraction = digits.partition(".")
        if families == {"integer"} and (fraction or len(whole) > _WHOLE_DIGITS):
            continue
        number: exp.Expr = exp.Literal.number(digits if fraction else whole)
        tree.replace(text, exp.Neg(this=number) if sign == "-" else number)
