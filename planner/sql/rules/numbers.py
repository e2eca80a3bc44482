"""Integers, REALs, zeros and logarithms, and texts of digits beside them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.decimals import find_literals
from lance_gateway.planner.sql.tree.groups import Use, find_groups, find_unions, recast
from lance_gateway.planner.sql.tree.tree import Family, Tree, find_family


def logarithms(tree: Tree) -> None:
    """Write a logarithm to a base as a quotient, and one without a base as that to 10.

    DataFusion takes `log(b, 1)` for 0 and `log(b, b)` for 1 also where the logarithm of b is NaN, and gives
    another type to a logarithm of constants than to one over rows. It has none of a DECIMAL(5, 4), since
    that does not hold 10.

        SELECT log(b, 1), log(x) FROM t
    ->  SELECT (ln(1) / ln(b)), log10(x) FROM t
    """
    for call in tree.find_calls("log")[::-1]:
        if len(call.expressions) == 1:
            tree.replace(call, exp.Anonymous(this="log10", expressions=[call.expressions[0].copy()]))
        elif len(call.expressions) == 2:
            base, number = (exp.Anonymous(this="ln", expressions=[one.copy()]) for one in call.expressions)
            quotient = exp.Div(this=number, expression=base, typed=True, safe=False)
            tree.replace(call, exp.Paren(this=quotient))


_COUNTS: Final = frozenset(
    f"{kind}_{what}" for kind in ("array", "list") for what in ("length", "ndims", "position", "indexof")
) | {"cardinality", "row_number", "rank", "dense_rank", "ntile"}
_COMPUTING: Final = (
    *(exp.Anonymous, exp.Bracket, exp.Slice, exp.Case, exp.If),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg),
)


def computed_counts(tree: Tree) -> None:
    """Compute with numbers of elements and of rows as BIGINT.

    DataFusion has no sign for them, so that it finds no function for `l[array_length(l)]`, and gives decimals
    for what is computed of them.

        SELECT l[array_length(l)], row_number() OVER (ORDER BY id) - 1 FROM t
    ->  SELECT l[CAST(array_length(l) AS BIGINT)], CAST(row_number() OVER (ORDER BY id) AS BIGINT) - 1 FROM t
    """
    for node in tree.find_all(exp.Window, exp.Anonymous)[::-1]:
        call = node.this if isinstance(node, exp.Window) else node
        if not isinstance(call, exp.Anonymous) or call.name.casefold() not in _COUNTS:
            continue
        if isinstance(_skip_parens(node.parent), _COMPUTING):
            tree.replace(node, _cast(node.copy(), "BIGINT"))


def integer_arithmetic(tree: Tree) -> None:
    """Add, subtract and multiply integers as BIGINT, and unsigned ones of 64 bits as decimals.

    Divisors and multiples of unsigned integers of 64 bits are decimals, too.

    DataFusion wraps around: 100000 * 100000 of INT columns is 1410065408, and 1 - 4 without signs 4294967293.

        SELECT a * b FROM t
    ->  SELECT CAST(a AS BIGINT) * CAST(b AS BIGINT) FROM t
    """
    for group in find_groups(tree):
        is_exact = isinstance(group.node, exp.Add | exp.Sub | exp.Mul | exp.Anonymous)
        if group.use is not Use.COMPUTED or not is_exact or not tree.may_mix(group.members, "integer"):
            continue
        kinds = [tree.find_type(member) for member in group.members]
        target = _choose_type(kinds, has_signs=isinstance(group.node, exp.Anonymous))
        if target is not None:
            for member in group.members:
                recast(tree, member, partial(_cast, target=target))
    for negation in tree.find_all(exp.Neg)[::-1]:
        if isinstance(negation.this, exp.Literal):
            continue  # -9223372036854775808 is a BIGINT
        kind = tree.find_type(negation.this) if tree.may_mix([negation.this], "integer") else None
        if kind is not None and pa.types.is_unsigned_integer(kind):
            target = "DECIMAL(20, 0)" if kind == pa.uint64() else "BIGINT"
            tree.replace(negation.this, _cast(negation.this.copy(), target))


def _choose_type(kinds: Sequence[pa.DataType | None], *, has_signs: bool) -> str | None:
    """Return the type that holds all results; None where nothing is to be cast.

    Args:
        kinds: of the operands.
        has_signs: whether an unsigned integer of 64 bits is a decimal also beside one with a sign.
    """
    if not all(kind is not None and pa.types.is_integer(kind) for kind in kinds):
        return None
    if pa.uint64() in kinds and (has_signs or all(map(pa.types.is_unsigned_integer, kinds))):
        return "DECIMAL(20, 0)"
    return "BIGINT" if all(kind is not None and kind.bit_width < 64 for kind in kinds) else None


def _cast(expression: exp.Expr, target: str) -> exp.Expr:
    return exp.Cast(this=expression, to=exp.DataType.build(target))


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


def number_texts(tree: Tree) -> None:
    """Write a text literal of digits as a number where all values beside it are numbers.

    DataFusion rounds the text to the digits of a decimal, and makes texts of the numbers in CASE and UNION.
    Beside integers alone, a text with a fraction remains one, which no integer can be made of. Integers of 64
    bits with a sign and without are decimals together.

        SELECT CASE WHEN price IS NULL THEN '4.44' ELSE price END FROM p
    ->  SELECT CASE WHEN price IS NULL THEN 4.44 ELSE price END FROM p

    It computes with no texts.

        SELECT price * '2' FROM p
    ->  SELECT price * 2 FROM p
    """
    for group in find_groups(tree):
        texts = [member for member in group.members if _is_number(member)]
        others = [member for member in group.members if not _is_text(member)]
        if not texts or not _may_be_numbers(tree, others):
            continue
        # DataFusion compares such texts with integers and floats as numbers of their type.
        has_fraction = any("." in text.name for text in texts)
        if group.use is not Use.COMPARED or has_fraction or tree.may_mix(others, "decimal"):
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
    if pa.uint64() in kinds and any(kind is not None and pa.types.is_signed_integer(kind) for kind in kinds):
        families.add("decimal")
    if not families or not families <= _NUMBERS or (use is Use.COMPARED and "decimal" not in families):
        return
    for text in texts:
        sign, digits = _NUMBER.fullmatch(text.name).groups()  # type: ignore[union-attr]
        whole, _, fraction = digits.partition(".")
        if families == {"integer"} and (fraction or len(whole) > _WHOLE_DIGITS):
            continue
        number: exp.Expr = exp.Literal.number(digits if fraction else whole)
        tree.replace(text, exp.Neg(this=number) if sign == "-" else number)


def signed_zeros(tree: Tree) -> None:
    """Compare 0.0 and -0.0 as equal numbers in lists, CASE and nullif.

    DataFusion takes them for different values in these, also in the list that it makes of equalities joined
    with OR.

        SELECT f IN (0, 7), CASE f WHEN n THEN 1 END FROM t
    ->  SELECT f IN (0, 7, -0.0), CASE f + CAST(0 AS DOUBLE) WHEN n THEN 1 END FROM t
    """
    for group in list(find_groups(tree)):
        node, members = group.node, group.members
        is_either = isinstance(node, exp.EQ) and isinstance(_skip_parens(node.parent), exp.Or)
        is_listed = is_either or (isinstance(node, exp.In) and not node.args.get("query"))
        is_returned = isinstance(node, exp.Case | exp.Anonymous)
        if group.use is not Use.COMPARED or not (is_listed or is_returned):
            continue
        if is_either and _find_value(members[0]) is not None:
            members = members[::-1]
        values = [_find_value(one) for one in members[1:]]
        if (0.0 not in values and (None not in values or is_either)) or not tree.may_mix(members, "floating"):
            continue
        if is_listed and None not in values:
            kind = tree.find_type(members[0])
            if kind is not None and pa.types.is_floating(kind):
                zeros = [one for one, value in zip(members[1:], values, strict=True) if value == 0]
                other: exp.Expr = exp.Literal.number("0.0")
                other = other if any(one.find(exp.Neg) for one in zeros) else exp.Neg(this=other)
                if kind == pa.float32():
                    other = exp.Cast(this=other, to=exp.DataType(this=exp.DType.FLOAT))
                operand, *listed = (one.copy() for one in members)
                tree.replace(node, exp.In(this=operand, expressions=[*listed, other]))
            continue
        for member in members:
            kind = tree.find_type(member) if _find_value(member) is None else None
            if kind is not None and pa.types.is_floating(kind):
                target = exp.DataType(this=exp.DType.FLOAT if kind == pa.float32() else exp.DType.DOUBLE)
                zero = exp.Cast(this=exp.Literal.number("0"), to=target)
                value = exp.paren(member.copy()) if isinstance(member, exp.Binary) else member.copy()
                tree.replace(member, exp.Add(this=value, expression=zero))


def _skip_parens(node: exp.Expr | None) -> exp.Expr | None:
    while isinstance(node, exp.Paren):
        node = node.parent
    return node


def _find_value(member: exp.Expr) -> float | None:
    """Return the value of a constant number without its sign, NaN for NULL; None for other expressions."""
    while isinstance(member, exp.Paren | exp.Neg | exp.Cast):
        member = member.this
    if isinstance(member, exp.Null):
        return math.nan
    try:
        return float(member.name) if isinstance(member, exp.Literal) else None
    except ValueError:
        return None
