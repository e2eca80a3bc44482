"""A rounded decimal has the type that its values have."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from planner.sql.rules.tree import Tree, for_texts


@for_texts(r"\bround\s*\(", r"decimal|numeric|\bdec\b")
def rounded_decimals(tree: Tree) -> None:
    """Cast a rounded decimal to its type.

    DataFusion decides on the types of expressions around it before it knows to how many digits a decimal is
    rounded.

        SELECT id FROM p WHERE round(price, 1) <> price
    ->  SELECT id FROM p WHERE CAST(round(price, 1) AS DECIMAL(10, 1)) <> price
    """
    calls = [call for call in tree.root.find_all(exp.Anonymous) if call.name.upper() == "ROUND"]
    is_everywhere = tree.root.find(exp.SetOperation, exp.Group) is not None
    for call in calls[::-1]:
        # Outputs and sort keys are left alone, unless they must be the same as other expressions.
        around = call.find_ancestor(exp.Distinct, exp.Select, exp.Anonymous, exp.Window)
        is_key = isinstance(call.parent, exp.Ordered) or isinstance(around, exp.Distinct)
        is_shown = is_key or isinstance(call.parent, exp.Select | exp.Alias)
        kind = tree.find_type(call) if is_everywhere or not is_shown else None
        if kind is not None and pa.types.is_decimal(kind):
            is_unnamed = isinstance(call.parent, exp.Select) and call.arg_key == "expressions"
            field = tree.find_field(call) if is_unnamed else None
            cast = _cast(call.copy(), kind)
            tree.replace(call, cast if field is None else exp.alias_(cast, field.name, quoted=True))


def _cast(expression: exp.Expr, kind: pa.DataType) -> exp.Expr:
    target = exp.DataType.build(f"DECIMAL({kind.precision}, {kind.scale})")
    return exp.Cast(this=expression, to=target)
