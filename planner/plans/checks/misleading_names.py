"""Names that DataFusion 54 takes for another column of a statement.

    SELECT max(n) AS "count(Int64(1))", k, count(1) AS c FROM t GROUP BY k ORDER BY "count(Int64(1))"

It refers to what an expression computes by the expression's text. A column that is called so is mistaken for
it, in orders for example. Such statements are refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from datafusion.expr import Aggregate, Projection
from datafusion.plan import LogicalPlan

from memwal.errors import UnsupportedError
from planner.bridge.plan_reading import Expression, every_node, output_name, strip_aliases


def refuse_misleading_names(written: LogicalPlan) -> None:
    """Look for names of columns that are the texts of other expressions.

    Args:
        written: the plan, not optimised.

    Raises:
        UnsupportedError: there is one.
    """
    given: set[str] = set()
    own: set[str] = set()
    for expression in _expressions(written):
        inner = strip_aliases(expression)
        if inner.variant_name() not in {"Column", "Literal"}:
            own.add(output_name(inner))
        if inner is not expression and output_name(expression) != output_name(inner):
            given.add(output_name(expression))
    for name in given & own:
        msg = (
            f"A column can't be called {name!r} beside another that DataFusion calls so: choose another name"
        )
        raise UnsupportedError(msg)


def _expressions(plan: LogicalPlan) -> Iterator[Expression]:
    for node in (node.to_variant() for node in every_node(plan)):
        match node:
            case Projection():
                yield from node.projections()
            case Aggregate():
                yield from node.group_by_exprs()
                yield from node.aggregate_exprs()
