"""Comparisons of decimals that need more than 38 digits together."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa

from planner.sql.rules.groups import cast_to, find_groups, recast
from planner.sql.rules.tree import Tree, find_family, for_texts

_MAX_DIGITS: Final = 38
_MAX_WIDE_DIGITS: Final = 76
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}


@for_texts(r"decimal\w*\((?:[2-7]\d)")
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
        sizes = [None if kind is None else _count_digits(kind) for kind in kinds]
        known = [size for size in sizes if size is not None]
        if len(known) < 2 or not any(kind is not None and pa.types.is_decimal(kind) for kind in kinds):
            continue
        whole, scale = max(size[0] for size in known), max(size[1] for size in known)
        if not _MAX_DIGITS < whole + scale <= _MAX_WIDE_DIGITS:
            continue
        for member, size in zip(group.members, sizes, strict=True):
            if size is not None:
                recast(tree, member, partial(cast_to, kind=pa.decimal256(_MAX_WIDE_DIGITS, scale)))


def _count_digits(kind: pa.DataType) -> tuple[int, int] | None:
    """Return how many digits values have before and behind the point; None of other types."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    return (_INTEGER_DIGITS[kind.bit_width], 0) if find_family(kind) == "integer" else None
