"""What a statement's plan tells its leaves beyond the conjuncts that DataFusion hands them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from datafusion import DataFrame

from planner.leaf import TableLeaf
from planner.search.leaf import SearchLeaf
from planner.search.nearest import nearest_by_table
from planner.search.nearest_leaf import NearestLeaf
from planner.search.plan_reading import chains_of
from planner.search.residual import refuse_subqueries, residual_conditions
from planner.search.value_subqueries import subquery_plans


def tell_leaves(
    frame: DataFrame, leaves: Mapping[str, TableLeaf], handing: Callable[[], DataFrame] | None = None
) -> None:
    """Look at a plan, and tell leaves of which rows it needs the nearest only, and under which conditions.

    Args:
        frame: the planned statement; nothing is read yet.
        leaves: its leaves by the names of their tables in the plan.
        handing: where leaves are not handed their conjuncts, plans the statement as if they were.

    Raises:
        UnsupportedError: a condition that a search can't meet before ranking.
    """
    searches = {
        name: leaf for name, leaf in leaves.items() if isinstance(leaf, SearchLeaf) and leaf.prefilters
    }
    ranked = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, NearestLeaf)}
    if not (ranked or searches):
        return
    plan = frame.optimized_logical_plan()
    if ranked:
        for name, nearest in nearest_by_table(plan).items():
            if name in ranked:
                ranked[name].nearest = nearest
    if not searches:
        return
    refuse_subqueries(frame.logical_plan(), searches.keys())
    subqueries = list(subquery_plans(plan))
    reads = Counter(chain.table for one in (plan, *subqueries) for chain in chains_of(one))
    if handing is not None:
        plan = handing().optimized_logical_plan()
        subqueries = list(subquery_plans(plan))
    added = {name: leaf.added_columns for name, leaf in searches.items()}
    conditions = residual_conditions(plan, subqueries, added, handed=handing is None)
    for name, leaf in searches.items():
        leaf.known_reads = reads[name]
        leaf.residual = conditions.get(name, ())
