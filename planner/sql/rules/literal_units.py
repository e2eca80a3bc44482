"""A literal of a time has the unit of the times beside it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.dialect import parse_expression
from planner.sql.rules.groups import find_groups
from planner.sql.rules.tree import Tree, for_texts

_DIGITS: Final = {"s": 0, "ms": 3, "us": 6}
_ZONES: Final = {exp.DType.TIMESTAMP: "None", exp.DType.TIMESTAMPTZ: 'Some("+00:00")'}
_UNITS: Final = {"s": "Second", "ms": "Millisecond", "us": "Microsecond"}


@for_texts(r"timestamp\[(?:s|ms|us)\b.*\btimestamp(?:tz)?\s*'")
def literal_units(tree: Tree) -> None:
    """Read the literal of a time in the unit of the times beside it, if that holds its digits.

    DataFusion reads nanoseconds, and casts the others to them, which end in the year 2262. Comparisons with
    literals alone are right.

        SELECT coalesce(valid_to, TIMESTAMP '2024-03-10 02:30:00') FROM t
    ->  SELECT coalesce(valid_to, arrow_cast('2024-03-10 02:30:00', 'Timestamp(Microsecond, None)')) FROM t
    """
    for group in find_groups(tree):
        literals = [member for member in group.members if _is_literal(member)]
        others = [member for member in group.members if not _is_literal(member)]
        if not literals or (group.is_condition and len(others) == 1):
            continue
        guesses = map(tree.guess_families, others)
        if all(guess is not None and guess.isdisjoint({"instant", "zoned"}) for guess in guesses):
            continue
        kinds = map(tree.find_type, others)
        units = {kind.unit for kind in kinds if kind is not None and pa.types.is_timestamp(kind)}
        if not units or not units <= _DIGITS.keys():
            continue
        unit = max(units, key=_DIGITS.__getitem__)
        for literal in literals:
            _, _, fraction = literal.this.name.partition(".")
            if len(fraction.rstrip("0")) <= _DIGITS[unit]:
                tree.replace(literal, _write(literal, unit))


def _is_literal(member: exp.Expr) -> bool:
    """Return whether an expression is a literal of a time in nanoseconds."""
    is_cast = isinstance(member, exp.Cast) and isinstance(member.this, exp.Literal) and member.this.is_string
    return is_cast and member.to.this in _ZONES and not member.to.expressions


def _write(literal: exp.Cast, unit: str) -> exp.Expr:
    kind = f"Timestamp({_UNITS[unit]}, {_ZONES[literal.to.this]})"
    call = parse_expression(f"arrow_cast(x, '{kind}')")
    call.expressions[0].replace(literal.this.copy())
    return call
