"""The next integer to a decimal may have a digit more."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts

_FUNCTIONS: Final = frozenset({"CEIL", "CEILING", "FLOOR"})
_MAX_DIGITS: Final = 38


@for_texts(r"\b(?:ceil|ceiling|floor)\b", r"dec|numeric")
def ceilings(tree: Tree) -> None:
    """Give a decimal a digit more before `ceil` and `floor`, which fail if it does not hold the integer.

        SELECT ceil(price) FROM p
    ->  SELECT ceil(CAST(price AS DECIMAL(11, 2))) FROM p
    """
    for call in list(tree.root.find_all(exp.Anonymous))[::-1]:
        if call.name.upper() not in _FUNCTIONS or len(call.expressions) != 1:
            continue
        (value,) = call.expressions
        kind = tree.find_type(value) if tree.may_mix([value], "decimal") else None
        if (
            kind is not None
            and pa.types.is_decimal128(kind)
            and kind.scale > 0
            and kind.precision < _MAX_DIGITS
        ):
            target = exp.DataType.build(f"DECIMAL({kind.precision + 1}, {kind.scale})")
            tree.replace(value, exp.Cast(this=value.copy(), to=target))
