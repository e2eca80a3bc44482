"""Numbers in lists, and what they are compared and put together with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from lance_gateway.planner.sql.rules.decimals import (
    MAX_DIGITS,
    MAX_WIDE_DIGITS,
    count_digits,
    count_needed_digits,
    find_literals,
)
from lance_gateway.planner.sql.tree.groups import cast_to, find_groups, find_quantified, recast
from lance_gateway.planner.sql.tree.tree import Family, Tree, find_family

_Meeting: TypeAlias = tuple[Sequence[exp.Expr], Sequence[exp.Expr], bool]
"""Lists and elements whose numbers have one type, and whether they are compared alone."""

_PATTERNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("has", "contains", "position", "indexof", "positions"), "list element"),
    **dict.fromkeys(("remove", "remove_all", "append", "push_back"), "list element"),
    **dict.fromkeys(("prepend", "push_front"), "element list"),
    **dict.fromkeys(("replace", "replace_all"), "list element element"),
    "resize": "list count element",
    **dict.fromkeys(("concat", "cat", "except", "intersect", "union"), "list list"),
    **dict.fromkeys(("has_all", "has_any"), "list list"),
}
"""Function of lists, without `array_` -> what it takes; a list at the end may be repeated."""
_COMPARING: Final = frozenset({"has", "contains", "position", "indexof", "positions", "has_all", "has_any"})
_NUMBERS: Final[frozenset[Family]] = frozenset({"decimal", "floating", "integer"})


def listed_numbers(tree: Tree) -> None:
    """Bring the numbers of a list, and what they are compared and put together with, to one type.

    DataFusion finds no function for a list of decimals and a number of another type, unless one of both holds
    all digits of the other, and compares such lists as values of different types.

        SELECT array_has(prices, 4.44), prices = [4.44] FROM p
    ->  SELECT array_has(prices, arrow_cast('4.44', 'Decimal128(10, 2)')), prices = [arrow_cast(..)] FROM p

    A literal beside decimals is a decimal, and one beside values of type REAL is a REAL. Decimals beside
    floating numbers are doubles.
    """
    for lists, elements, is_compared in list(_find_meetings(tree)):
        written = [one for one in lists if _list_items(one) is not None]
        columns = [one for one in lists if one not in written]
        numbers = [*elements, *(item for one in written for item in _list_items(one) or ())]
        kinds = [_find_item_type(tree, one) for one in columns]
        target = _choose_type(tree, kinds, numbers, is_compared=is_compared)
        if target is None:
            continue
        for values, kind in zip(columns, kinds, strict=True):
            if kind is not None and kind != target:
                recast(tree, values, partial(cast_to, kind=pa.list_(target)))
        for number in numbers:
            _give_type(tree, number, target)


def _find_meetings(tree: Tree) -> Iterator[_Meeting]:
    for node in tree.find_all(exp.Binary, exp.Anonymous)[::-1]:
        if (values := find_quantified(node)) is not None:
            yield [values.unnest()], [node.this], True
        elif isinstance(node, exp.ArrayContainsAll | exp.ArrayContainedBy | exp.ArrayOverlaps):
            yield [node.this, node.expression], [], True
        elif isinstance(node, exp.Anonymous):
            name = node.name.casefold()
            kind, _, what = name.partition("_")
            what = what if kind in {"array", "list"} else "has_any" if name == "arrays_overlap" else ""
            taken = _PATTERNS.get(what, "").split()
            if taken[-1:] == ["list"]:
                taken += taken[-1:] * (len(node.expressions) - len(taken))
            pairs = list(zip(node.expressions, taken, strict=False))
            lists = [one for one, sort in pairs if sort == "list"]
            if lists:
                yield lists, [one for one, sort in pairs if sort == "element"], what in _COMPARING
    for group in find_groups(tree):
        guesses = map(tree.guess_families, group.members)
        if all(guess is None or not guess or "other" in guess for guess in guesses):
            yield group.members, [], group.is_condition


def _list_items(values: exp.Expr) -> Sequence[exp.Expr] | None:
    """Return the elements of a list that is written out; None for others."""
    values = values.unnest()
    is_call = isinstance(values, exp.Anonymous) and values.name.casefold() in {"make_array", "make_list"}
    return list(values.expressions) if is_call or isinstance(values, exp.Array) else None


def _find_item_type(tree: Tree, values: exp.Expr) -> pa.DataType | None:
    kind = tree.find_type(values)
    is_list = kind is not None and (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
    return kind.value_type if kind is not None and is_list else None


def _choose_type(
    tree: Tree, kinds: Sequence[pa.DataType | None], numbers: Sequence[exp.Expr], *, is_compared: bool
) -> pa.DataType | None:
    """Return the type of all numbers; None where nothing is to be done."""
    literals = [literal for number in numbers if (literal := _find_literal(number)) is not None]
    others = [tree.find_type(number) for number in numbers if _find_literal(number) is None]
    known = {kind for kind in (*kinds, *others) if kind is not None}
    families = {find_family(kind) for kind in known}
    if not families or not families <= _NUMBERS:
        return None
    if "floating" in families:
        if known == {pa.float32()} and any("." in literal.name for literal in literals):
            return pa.float32()
        is_mixed = "decimal" in families or (pa.uint64() in known and families > {"floating"})
        return pa.float64() if is_mixed else None
    is_unsigned = pa.uint64() in known and any(map(pa.types.is_signed_integer, known))
    if "decimal" not in families and not is_unsigned:
        return None
    sizes = [size for kind in known if (size := count_needed_digits(kind)) is not None]
    sizes += [(precision - scale, scale) for precision, scale in map(count_digits, literals)]
    scale = max(size[1] for size in sizes)
    digits = max(size[0] for size in sizes) + scale
    if digits > MAX_DIGITS and is_compared:
        return pa.decimal256(digits, scale) if digits <= MAX_WIDE_DIGITS else None
    return pa.decimal128(min(digits, MAX_DIGITS), scale)


def _find_literal(number: exp.Expr) -> exp.Literal | None:
    """Return the literal of a constant number without an exponent; None for other expressions."""
    while isinstance(number, exp.Paren | exp.Neg):
        number = number.this
    return number if isinstance(number, exp.Literal) and find_literals(number) is not None else None


def _give_type(tree: Tree, number: exp.Expr, target: pa.DataType) -> None:
    literal = _find_literal(number)
    if literal is not None and pa.types.is_decimal(target):
        tree.replace(literal, cast_to(exp.Literal.string(literal.name), target))
    elif literal is None and (kind := tree.find_type(number)) is not None and kind != target:
        tree.replace(number, cast_to(number.copy(), target))
    elif literal is not None and target == pa.float32():
        tree.replace(literal, cast_to(literal.copy(), target))
