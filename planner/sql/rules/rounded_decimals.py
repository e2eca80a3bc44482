"""A rounded decimal beside others has the type that its values have."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.groups import find_groups
from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\bround\s*\(", r"decimal|numeric|\bdec\b")
def rounded_decimals(tree: Tree) -> None:
    """Cast a rounded decimal to its type.

    DataFusion decides on the type of a comparison before it knows to how many digits a decimal is rounded.

        SELECT id FROM p WHERE round(price, 1) <> price
    ->  SELECT id FROM p WHERE CAST(round(price, 1) AS DECIMAL(10, 1)) <> price
    """
    for group in find_groups(tree):
        members = group.members if len(group.members) > 1 else ()
        for member in members:
            is_rounded = isinstance(member, exp.Anonymous) and member.name.upper() == "ROUND"
            kind = tree.find_type(member) if is_rounded else None
            if kind is not None and pa.types.is_decimal(kind):
                target = exp.DataType.build(f"DECIMAL({kind.precision}, {kind.scale})")
                tree.replace(member, exp.Cast(this=member.copy(), to=target))
