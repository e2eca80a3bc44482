"""What a plan over leaves tells about a statement, for its plans over resident tables.

It is the same for each run of a text without parameters, as long as the columns of its tables are the same.
With parameters, what holds for all of their values is the same (`forget_values`). It holds no rows, and
nothing that the run that it was learned from has read.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from datafusion.expr import Join, TableScan
from datafusion.plan import LogicalPlan

from lance_gateway.memwal.transforms.determinism import has_unstable_call
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.bridge.join_graph import JoinGraph, read_join_graph
from lance_gateway.planner.bridge.plan_reading import every_node, subquery_plans
from lance_gateway.planner.plans.checks.unplanned_subqueries import NESTED
from lance_gateway.planner.scans.pruning.statement_predicates import NO_PREDICATES, StatementPredicates
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.query_run import TableScan as LeafScan

_OUTER: Final = re.compile(r"\b(?:left|right|full|outer)\b", re.IGNORECASE)
"""What a text with outer joins has."""
_WORD: Final = re.compile(r"\w+")
_SAFE_JOINS: Final = frozenset({"Inner", "LeftSemi", "RightSemi", "LeftAnti", "RightAnti"})


@dataclass(frozen=True, slots=True)
class LearnedScan:
    """What a plan asks of one leaf.

    Attributes:
        reference: private name of the leaf.
        schema: of the table.
        columns: to produce.
        expression: conditions that the leaf applies; None for none.
        partitions: that are asked for.
    """

    reference: str
    schema: pa.Schema
    columns: tuple[str, ...]
    expression: pc.Expression | None
    partitions: int


@dataclass(frozen=True, slots=True)
class Learned:
    """What a plan over leaves tells about a statement; the same for each run with the same values.

    Attributes:
        scans: of the leaves.
        graph: of its joins.
        hidden: names of tables in subqueries that plans do not show, as those in FILTER of an aggregate.
        reorders_joins: see `Residents`.
        is_stable: whether conditions give the same whenever they are evaluated.
        predicates: that may exclude regions.
    """

    scans: tuple[LearnedScan, ...]
    graph: JoinGraph
    hidden: frozenset[str]
    reorders_joins: bool
    is_stable: bool
    predicates: StatementPredicates = NO_PREDICATES

    @property
    def references(self) -> frozenset[str]:
        """Return the private names of the leaves."""
        return frozenset(scan.reference for scan in self.scans)

    def add_scans(self, bound: BoundStatement, catalog: VisibleCatalog, run: QueryRun) -> bool:
        """Add the scans to a run; return False if a table is not as it was."""
        tables = {
            one.private_name: catalog.table(one.table, one.as_of)
            for one in bound.references
            if one.search is None
        }
        for scan in self.scans:
            table = tables[scan.reference]
            if not table.visible_schema.equals(scan.schema, check_metadata=True):
                return False
            run.add_scan(
                table,
                table.base,
                scan.columns,
                scan.expression,
                partitions=scan.partitions,
                reference=scan.reference,
            )
        run.predicates = self.predicates
        return True


def learn(bound: BoundStatement, run: QueryRun, plan: LogicalPlan) -> Learned:
    """Return what a plan over leaves tells.

    Args:
        bound: the statement.
        run: the execution; its scans are those of the physical plan.
        plan: of the statement, optimised.
    """
    text = bound.text
    return Learned(
        tuple(
            LearnedScan(scan.reference, scan.schema, scan.columns, scan.expression, scan.partitions)
            for scan in run.scans
        ),
        read_join_graph(plan),
        _find_hidden(run, plan),
        # Plans don't show the subqueries in arguments of aggregates.
        reorders_joins=_OUTER.search(text) is None and _has_safe_joins(plan),
        is_stable=not has_unstable_call(_WORD.findall(text)),
        predicates=run.predicates,
    )


def forget_values(learned: Learned, bound: BoundStatement, run: QueryRun) -> Learned | None:
    """Return what a plan tells whatever the values of the parameters are; None if these decide what is read.

        SELECT grp, sum(price) FROM items WHERE qty = $1 GROUP BY grp      reads all rows of three columns

    The next plan has its own values, so the conditions of this one are only missed where they save reading:
    where they may exclude regions, and where keys of joins select rows.

    Args:
        learned: of the statement, with the values of one run.
        bound: the statement.
        run: the execution, with the scans of all leaves.
    """
    if bound.is_volatile or learned.hidden or learned.graph.edges:
        return None
    if NESTED.search(bound.text):
        # With other values, a subquery may be left that plans don't show.
        return None
    scans = []
    for known, scan in zip(learned.scans, run.scans, strict=True):
        read, below = scan.read_columns, scan.conditions.below
        filtered = learned.predicates.list_columns(scan.reference)
        filtered |= frozenset() if below is None else below.columns
        if read is None or not _list_region_columns(scan).isdisjoint(filtered):
            return None
        columns = tuple(name for name in scan.schema.names if name in read)
        scans.append(replace(known, columns=columns, expression=None))
    nothing = ((),) * len(learned.graph.leaves)
    graph = replace(learned.graph, own=nothing, above=nothing)
    return replace(learned, scans=tuple(scans), graph=graph, predicates=NO_PREDICATES)


def _list_region_columns(scan: LeafScan) -> frozenset[str]:
    """Return the columns that decide in which region a row is."""
    base = scan.base
    specs = () if base.details is None else base.details.region_specs
    sources = (source for spec in specs for one in spec.fields for source in one.source_ids)
    return frozenset(base.field_names[source] for source in sources if source in base.field_names)


def _find_hidden(run: QueryRun, plan: LogicalPlan) -> frozenset[str]:
    nodes = (node.to_variant() for one in (plan, *subquery_plans(plan)) for node in every_node(one))
    shown = Counter(str(node.fqn()[-1]) for node in nodes if isinstance(node, TableScan))
    asked = Counter(scan.reference for scan in run.scans)
    return frozenset(name for name, count in asked.items() if shown[name] < count)


def _has_safe_joins(plan: LogicalPlan) -> bool:
    """Return whether the sides of all joins may be exchanged."""
    # The plan of a subquery joins its value to a row.
    values = [one.inputs()[0].inputs()[1] for one in subquery_plans(plan)]
    return all(_is_safe(node) for one in (plan, *values) for node in every_node(one))


def _is_safe(plan: LogicalPlan) -> bool:
    node = plan.to_variant()
    return not isinstance(node, Join) or str(node.join_type()) in _SAFE_JOINS
