"""Recognises optimised plans that are only one scan, or its row count.

    Projection: count(1) AS n          only an alias of the count
      Aggregate: count(1)              no groups, no FILTER, no DISTINCT, no other argument
        SubqueryAlias: o
          TableScan: orders            every row that passes the conjuncts, without a limit

DataFusion executes all other plans. Conjuncts in a TableScan are applied exactly by its leaf: DataFusion
keeps a Filter above it for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from datafusion import functions as f
from datafusion import lit
from datafusion.expr import Aggregate, Projection, SubqueryAlias, TableScan
from datafusion.plan import LogicalPlan

from lance_gateway.planner.bridge.plan_reading import serialize_expression, strip_aliases


@dataclass(frozen=True, slots=True)
class DirectShape:
    """A plan that is only a scan, or its row count.

    Attributes:
        table: name of the scanned table in the plan.
        schema_name: schema of the table in the plan, if there is one.
        columns: that are scanned, in the order of the result; none for a count.
        counts: whether the result is the row count instead of the rows.
        is_filtered: whether conjuncts were pushed into the scan.
    """

    table: str
    schema_name: str | None
    columns: tuple[str, ...]
    counts: bool
    is_filtered: bool


def find_direct_shape(plan: LogicalPlan) -> DirectShape | None:
    """Return the shape of an optimised plan; None if DataFusion must execute it."""
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
        # The node does not distinguish between no columns and all columns.
        return None
    _, schema_name, table = scan.fqn()
    return DirectShape(table, schema_name, columns, counts, bool(scan.filters()))


def _is_one_column(node: Projection) -> bool:
    """Return whether a projection only renames the one column of its input."""
    projections = node.projections()
    return len(projections) == 1 and strip_aliases(projections[0]).variant_name() == "Column"


def _is_row_count(node: Aggregate) -> bool:
    aggregates = node.aggregate_exprs()
    return (
        len(aggregates) == 1
        and not node.group_by_exprs()
        and serialize_expression(strip_aliases(aggregates[0])) == _row_count()
    )


@cache
def _row_count() -> bytes:
    """Return count(*) in serialised form, which includes FILTER and ORDER BY, unlike the object."""
    return bytes(f.count(lit(1)).to_bytes())
