"""Names that DataFusion 55 takes for a window of a statement.

    SELECT count(1) OVER (PARTITION BY k), n AS "count(Int64(1)) PARTITION BY [t.k] ROWS .." FROM t ORDER BY 2

It refers to what a window computes by the text of its expression. A column that is called so is mistaken for
it, in orders by its number for example. Such statements are refused.
"""

from __future__ import annotations

from datafusion.expr import Projection, WindowExpr
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import every_node, output_name, strip_aliases


def refuse_misleading_names(written: LogicalPlan) -> None:
    """Look for names of columns that are the texts of windows.

    Args:
        written: the plan, not optimised.

    Raises:
        UnsupportedError: there is one.
    """
    nodes = [node.to_variant() for node in every_node(written)]
    windows = {
        output_name(call) for node in nodes if isinstance(node, WindowExpr) for call in node.get_window_expr()
    }
    for node in nodes:
        for expression in node.projections() if windows and isinstance(node, Projection) else ():
            name, inner = output_name(expression), strip_aliases(expression)
            if name in windows and output_name(inner) != name:
                msg = (
                    f"A column can't be called {name!r} beside another that DataFusion calls so: choose "
                    "another name"
                )
                raise UnsupportedError(msg)
