"""A text literal of digits beside numbers is a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import Use, find_groups, find_unions
from planner.sql.rules.tree import Family, Tree, find_family, for_texts

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
