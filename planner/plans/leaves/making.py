"""Makes the leaf of a reference to a table."""

from collections.abc import Mapping

from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import (
    BoundStatement,
    StatementKind,
    StateRole,
    TableReference,
)
from lance_gateway.planner.scans.changes.chained_leaf import AfterLeaf, BeforeLeaf
from lance_gateway.planner.scans.changes.changes_leaf import ChangesLeaf, PositionLeaf
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.scans.table_leaf import DeclaredLeaf, TableLeaf
from lance_gateway.planner.search.nearest_leaf import NearestLeaf
from lance_gateway.planner.tables.state.extended_tables import Extension, split_extension

_CHANGES_LEAVES: Mapping[StateRole, type[ChangesLeaf]] = {
    StateRole.ROWS: ChangesLeaf,
    StateRole.BEFORE: BeforeLeaf,
    StateRole.AFTER: AfterLeaf,
    StateRole.POSITION: PositionLeaf,
}
"""What stands for a table reference in the query of `lance_changes`."""


def make_leaf(
    bound: BoundStatement,
    reference: TableReference,
    run: QueryRun,
    catalog: VisibleCatalog,
    partitions: int,
) -> TableLeaf:
    """Make the leaf of a reference that is not a search.

    Args:
        bound: the statement.
        reference: in it.
        run: its execution.
        catalog: with which the statement's names were resolved.
        partitions: of the scan.
    """
    named = (reference.table, reference.as_of)
    compared = reference.compared
    if compared is not None:
        other = catalog.table(reference.table, compared.other)
        leaf, is_after = _CHANGES_LEAVES[compared.role], compared.role is StateRole.AFTER
        # Of the same state as those before changes: see below.
        several = partitions + (is_after and bound.kind is not StatementKind.QUERY)
        table = catalog.table(*named)
        return leaf(run, table, other, several, reference.private_name, compared.part)
    # EXPLAIN prints the number of fragments of a leaf instead of its name: it distinguishes tables.
    marker = 0
    if bound.kind is not StatementKind.QUERY:
        distinct = dict.fromkeys((other.table, other.as_of) for other in bound.references)
        marker = list(distinct).index(named)
    ranks = bound.distances and Shortcut.NEAREST_ORDER in run.settings.shortcuts
    is_plain = reference.as_of is None and split_extension(reference.table)[1] is Extension.NONE
    kind = NearestLeaf if ranks and is_plain else TableLeaf
    if bound.kind is StatementKind.DESCRIBE:
        kind = DeclaredLeaf
    return kind(run, catalog.table(*named), partitions + marker, reference=reference.private_name)
