"""Counts of distinct constants, which DataFusion 55 takes from statistics.

    SELECT count(DISTINCT x), count(*) FROM (SELECT CAST(NULL AS VARCHAR) AS x FROM (VALUES (1), (2)))

Where the number of rows is known before they are read, a constant is said to have one distinct value: also if
it is NULL, or if there are no rows. A count that stands alone is planned in another way.
"""

from __future__ import annotations

from collections.abc import Iterator

from datafusion.expr import Aggregate, Projection, TableScan
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.bridge.plan_reading import columns_of, every_node, output_name, strip_aliases


def refuse_counted_constants(plan: LogicalPlan) -> None:
    """Look for counts of distinct constants over rows that no table has.

    Args:
        plan: optimised, over leaves, whose number of rows is not known.

    Raises:
        UnsupportedError: there is one.
    """
    for aggregate in find_counted_constants(plan):
        if not any(isinstance(node.to_variant(), TableScan) for node in every_node(aggregate)):
            msg = (
                "count(DISTINCT ..) of a constant is not offered beside other aggregates: count it in a "
                "subquery of its own"
            )
            raise UnsupportedError(msg)


def find_counted_constants(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """Yield the aggregates of a plan, without groups, that may count distinct constants."""
    for one in every_node(plan):
        node = one.to_variant()
        if not isinstance(node, Aggregate) or node.group_by_exprs():
            continue
        counted: set[str] = set()
        for expression in map(strip_aliases, node.aggregate_exprs()):
            call = expression.to_variant()
            if expression.variant_name() == "AggregateFunction" and call.is_distinct():
                counted |= {name for argument in call.args() for name in _names_of(argument)}
        if counted & set(_find_constants(one)):
            yield one


def _names_of(argument: object) -> Iterator[str]:
    try:
        yield from (name for _, name in columns_of(argument))
    except ValueError:  # a subquery
        return


def _find_constants(plan: LogicalPlan) -> Iterator[str]:
    """Yield the names of all columns below that are computed of none."""
    for one in every_node(plan):
        node = one.to_variant()
        if isinstance(node, Projection):
            yield from (output_name(each) for each in node.projections() if not any(_names_of(each)))
