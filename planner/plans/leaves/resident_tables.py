"""Tables of DataFusion's own in place of leaves, where the columns that a statement needs are kept in memory.

A leaf hands over each batch by a call of Python, tells no number of rows, and evaluates its conjuncts by
itself. Where a statement reads much, it is planned twice: once with leaves, to learn which columns of which
regions it needs, and once with the kept batches of these as tables in memory. DataFusion then filters in its
own threads, and knows which side of a join has fewer rows.

DataFusion 55 answers some outer joins over such tables wrongly. What a filter below one makes constant counts
as constant above it: a rule hides it (`constants_of_outer_joins`). A filter above one may go down to the
other side once its sides are exchanged: they are not, in statements with outer joins. See
docs/adr/0039-resident-tables.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from datafusion import DataFrame
from datafusion.expr import TableScan

from lance_gateway.execnodes import RowFilter
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement, StatementKind
from lance_gateway.planner.bridge.plan_reading import every_node, subquery_plans
from lance_gateway.planner.bridge.row_expressions import flag_rows
from lance_gateway.planner.plans.learned import Learned
from lance_gateway.planner.scans.key_reduction import (
    LARGEST_CONDITION,
    Relation,
    keep_selected,
    reduce_relations,
    to_flags,
)
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.query_run import TableScan as LeafScan
from lance_gateway.planner.scans.resident_scan import Partitions, ResidentScan, can_be_unread
from lance_gateway.planner.scans.settings import Shortcut

RESIDENT_ROWS: Final = 1 << 18
"""Statements over fewer rows take less time than a second plan."""
_SHORTCUTS: Final = frozenset({Shortcut.RESIDENT_TABLES, Shortcut.PUSHDOWN})
_COPIED_SHARE: Final = 4
"""Of each table, at most one part in so many of what one scan may keep is copied for a statement."""
_LEAST_REDUCED: Final = 8192
"""To look for the keys of joins in tables with fewer rows takes longer than to join them."""


@dataclass(frozen=True, slots=True)
class ResidentTable:
    """What stands for a table reference in a plan.

    Attributes:
        partitions: batches with all columns of the table.
        columns: those that have their values.
    """

    partitions: Partitions
    columns: frozenset[str]


ResidentsKey: TypeAlias = frozenset[tuple[str, frozenset[str]]]
"""What a plan over resident tables depends on, beside the statement."""


@dataclass(frozen=True, slots=True)
class Residents:
    """The resident tables of a statement.

    Attributes:
        tables: by the private names of their references.
        reorders_joins: whether DataFusion may exchange the sides of joins by their numbers of rows.
    """

    tables: Mapping[str, ResidentTable]
    reorders_joins: bool

    @property
    def key(self) -> ResidentsKey:
        """Return the names of the references, with the columns of their tables."""
        return frozenset((name, table.columns) for name, table in self.tables.items())


NO_RESIDENTS: Final = Residents(MappingProxyType({}), reorders_joins=False)


def may_have_residents(
    bound: BoundStatement, catalog: VisibleCatalog, run: QueryRun, least_rows: int
) -> bool:
    """Return whether resident tables may stand in the plan of a statement.

    Args:
        bound: the statement.
        catalog: with its tables.
        run: its execution.
        least_rows: that its tables must have.
    """
    tables = [catalog.table(reference.table, reference.as_of) for reference in bound.references]
    return (
        sum(table.known_rows for table in tables) >= least_rows
        and run.settings.shortcuts >= _SHORTCUTS
        and run.division is None
        and (bound.kind is StatementKind.QUERY or bound.kind.explains)
        and not (bound.system_tables or bound.distances or bound.lists_tables)
        and all(one.search is None and one.compared is None for one in bound.references)
    )


def load_residents(learned: Learned, run: QueryRun, partitions: int, least_rows: int) -> Residents | None:
    """Read the tables that can be resident, without rows that joins would drop; return None if none can.

    Their scans take the places of all others in the run.

    Args:
        learned: of the statement.
        run: its execution, with the scans of all leaves, none of which has begun.
        partitions: of each table.
        least_rows: as for `may_have_residents`.

    Raises:
        LanceGatewayError: a table can't be read.
    """
    by_reference: dict[str, list[LeafScan]] = {}
    for scan in run.scans:
        by_reference.setdefault(scan.reference, []).append(scan)
    residents: list[ResidentScan] = []
    taken = 0
    for scans in by_reference.values():
        columns = () if scans[0].reference in learned.hidden else _find_columns(scans)
        size = _measure(scans[0], columns, run) if columns else None
        if size is not None and taken + size <= scans[0].table.columns.max_scan_bytes:
            taken += size
            residents.append(ResidentScan(scans, columns))
    if not residents:
        return None
    run.scans[:] = residents
    by_name = {scan.reference: scan for scan in residents}
    return Residents(_reduce(by_name, learned, run, partitions, least_rows), learned.reorders_joins)


def _measure(scan: LeafScan, columns: Sequence[str], run: QueryRun) -> int | None:
    """Return the bytes that columns of a table take, decoded; None if they are read for the first time.

    The snapshot is taken for it, with the regions that all scans of the run need.
    """
    size = scan.table.columns.find_size(scan.base.source, columns)
    if size is None:
        return None
    snapshot = run.take_snapshot(scan.table)
    rows, fresh = snapshot.base.physical_rows, snapshot.fresh_rows
    if rows:
        # Fresh rows are as wide as the others.
        return size + size * fresh // rows
    sizes = [scan.table.columns.find_size(one.source(snapshot.base), columns) for one in snapshot.generations]
    tails = sum(int(tail.rows.nbytes) for tail in snapshot.tails)
    return None if None in sizes else tails + sum(one for one in sizes if one is not None)


def _reduce(
    scans: Mapping[str, ResidentScan], learned: Learned, run: QueryRun, partitions: int, least_rows: int
) -> Mapping[str, ResidentTable]:
    rows = {name: scan.read_rows() for name, scan in scans.items()}
    graph = learned.graph
    places = Counter(graph.leaves)
    relations: list[Relation | None] = []
    for name, own, above in zip(graph.leaves, graph.own, graph.above, strict=True):
        scan = scans.get(name)
        # A plan does not show the tables of all subqueries.
        if (
            scan is None
            or places[name] != len(scan.replaced)
            or Shortcut.JOIN_KEYS not in run.settings.shortcuts
        ):
            relations.append(None)
            continue
        run.control.check()
        relation = Relation(rows[name], run.visibility.executor)
        if relation.total <= LARGEST_CONDITION:
            condition = _find_condition(scan)
            if condition is not None:
                _apply(relation, condition)
            unapplied = above if condition is not None else (*own, *above)
            flags = flag_rows(name, relation.rows, unapplied) if unapplied and learned.is_stable else None
            if flags is not None:
                relation.select(flags.__getitem__)
        relations.append(relation)
    reduce_relations(relations, graph, min(least_rows, _LEAST_REDUCED), run.control.check)
    residents = {}
    for name, scan in scans.items():
        found = [one for leaf, one in zip(graph.leaves, relations, strict=True) if leaf == name]
        most_bytes = scan.table.columns.max_scan_bytes // _COPIED_SHARE
        kept = keep_selected(rows[name], found, run.visibility.executor, most_bytes)
        residents[name] = ResidentTable(scan.divide(kept, partitions), frozenset(scan.columns))
    return residents


def _apply(relation: Relation, condition: RowFilter) -> None:
    relation.select(lambda number: to_flags(condition.matches(relation.rows[number])))


def _find_condition(scan: ResidentScan) -> RowFilter | None:
    """Return the condition that a table's leaves apply, if it is the same in all places; else None."""
    first, *others = scan.replaced
    is_one = all(
        one.expression is first.expression
        or (
            one.expression is not None
            and first.expression is not None
            and one.expression.equals(first.expression)
        )
        for one in others
    )
    return first.conditions.below if is_one else None


def _find_columns(scans: Sequence[LeafScan]) -> tuple[str, ...]:
    """Return the columns that scans read, those of their conjuncts too; () if a leaf serves them better."""
    needed: set[str] = set()
    for scan in scans:
        read = scan.read_columns
        if not scan.reference or scan.policy is not None or read is None:
            return ()
        condition = scan.conditions.below
        if scan.is_lookup or (condition is not None and scan.base.has_scalar_index(condition.columns)):
            return ()
        needed |= read
    schema = scans[0].schema
    if not can_be_unread(schema):
        return ()
    return tuple(name for name in schema.names if name in needed)


def are_answered_right(residents: Residents, frame: DataFrame) -> bool:
    """Return whether a plan reads no columns of resident tables but those that have their values."""
    plan = frame.optimized_logical_plan()
    plans = [plan, *subquery_plans(plan)]
    for scan in (node.to_variant() for one in plans for node in every_node(one)):
        resident = residents.tables.get(str(scan.fqn()[-1])) if isinstance(scan, TableScan) else None
        if resident is None:
            continue
        columns = {column for _, column in scan.projection()}
        # The node does not distinguish between no columns and all columns.
        if not columns or not columns <= resident.columns:
            return False
    return True
