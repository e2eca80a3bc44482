"""Statements that amount to one scan, or its row count, as the nodes of their optimised plans tell.

    Projection: count(1) AS n          only an alias of the count
      Aggregate: count(1)              no groups, no FILTER, no DISTINCT, no other argument
        SubqueryAlias: o
          TableScan: orders            every row that passes the conjuncts, without a limit

Whatever else is in a plan is DataFusion's to execute. Conjuncts that stand in a TableScan are applied exactly
by its leaf: DataFusion keeps a Filter above for those that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from datafusion import DataFrame, lit
from datafusion import functions as f
from datafusion.expr import Aggregate, Projection, SubqueryAlias, TableScan
from datafusion.plan import LogicalPlan

from planner.bridge.plan_reading import strip_aliases

__all__ = ["DirectShape", "OptimizedOnce", "find_direct_shape"]


class OptimizedOnce(DataFrame):
    """A planned statement that all who look at its optimised plan look at in the same state."""

    _optimized: LogicalPlan | None = None

    def optimized_logical_plan(self) -> LogicalPlan:
        """See `DataFrame.optimized_logical_plan`."""
        if self._optimized is None:
            self._optimized = super().optimized_logical_plan()
        return self._optimized


@dataclass(frozen=True, slots=True)
class DirectShape:
    """The only scan of a statement that has nothing else to do.

    Attributes:
        table: name of the scanned table, as the plan has it.
        schema_name: schema by which the plan names it; None where it gives none.
        columns: that are scanned, in the order of the result; none for a count.
        counts: whether the result is the number of rows, and not the rows.
        is_filtered: whether conjuncts were pushed into the scan.
    """

    table: str
    schema_name: str | None
    columns: tuple[str, ...]
    counts: bool
    is_filtered: bool


def find_direct_shape(frame: DataFrame) -> DirectShape | None:
    """The shape of a planned statement; None where DataFusion has work to do."""
    plan = frame.optimized_logical_plan()
    projected = counts = False
    while True:
        match node := plan.to_variant():
            case SubqueryAlias():
                pass
            case Projection() if not counts and _is_one_column(node):
                projected = True
            case Aggregate() if not counts and _is_row_count(node):
                counts = True
            case TableScan() if (counts or not projected) and node.fetch() is None:
                return _make_shape(node, counts=counts)
            case _:
                return None
        (plan,) = plan.inputs()


def _make_shape(scan: TableScan, *, counts: bool) -> DirectShape | None:
    columns = () if counts else tuple(name for _, name in scan.projection())
    if not (columns or counts):
        # No columns, or all of them: the node does not say which.
        return None
    _, schema_name, table = scan.fqn()
    return DirectShape(table, schema_name, columns, counts, bool(scan.filters()))


def _is_one_column(node: Projection) -> bool:
    """Whether a projection only names the one column of its input."""
    projections = node.projections()
    return len(projections) == 1 and strip_aliases(projections[0]).variant_name() == "Column"


def _is_row_count(node: Aggregate) -> bool:
    aggregates = node.aggregate_exprs()
    return (
        len(aggregates) == 1
        and not node.group_by_exprs()
        and strip_aliases(aggregates[0]).to_bytes(None) == _row_count()
    )


@cache
def _row_count() -> bytes:
    """count(*) as DataFusion serialises it: that holds what the object does not show, FILTER and ORDER BY."""
    return bytes(f.count(lit(1)).to_bytes())
