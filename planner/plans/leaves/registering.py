"""Makes the leaves of a statement, and registers all that it names in the context that plans it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as pads
from datafusion import SessionContext

from lance_gateway.memwal.storage.table_names import TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.binding.bound_statement import (
    BoundStatement,
    StatementKind,
    StateRole,
    TableReference,
)
from lance_gateway.planner.bridge.distance_functions import DISTANCES, register_distances
from lance_gateway.planner.bridge.json.functions import LISTED_FUNCTIONS, register_json
from lance_gateway.planner.plans.leaves.resident_tables import Residents
from lance_gateway.planner.plans.leaves.system_leaf import (
    SystemLeaf,
    list_tables_and_views,
    make_system_leaves,
)
from lance_gateway.planner.scans.changes.chained_leaf import AfterLeaf, BeforeLeaf
from lance_gateway.planner.scans.changes.changes_leaf import ChangesLeaf, PositionLeaf
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.scans.table_leaf import DeclaredLeaf, TableLeaf
from lance_gateway.planner.search.nearest_leaf import NearestLeaf
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.system.catalogs.catalog_table import CatalogTable
from lance_gateway.planner.system.catalogs.functions import register_functions
from lance_gateway.planner.system.catalogs.relations import Relations
from lance_gateway.planner.system.catalogs.tables import LEAVES, list_information_tables
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


@dataclass(frozen=True, eq=False)
class CatalogLeafTable:
    """One table of a catalog, as a `SystemTable`.

    Attributes:
        table: its columns, and how its rows are computed.
        relations: what the principal sees; tables of one statement share it.
    """

    table: CatalogTable
    relations: Relations

    @property
    def name(self) -> str:
        """Name within its schema."""
        return self.table.name

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.table.schema

    def read(self, access: Access) -> pa.Table:  # noqa: ARG002 - that of the relations
        """Return the rows."""
        return self.table.read(self.relations)


_EVERY_ROW = (1 << 63) - 1
"""A LIMIT that DataFusion keeps in its plans; no table has more rows."""


InferView = Callable[[TableName, QueryRun, VisibleCatalog], pa.Schema]
"""Returns the columns that the query of a view has today."""


def register_tables(
    context: SessionContext,
    bound: BoundStatement,
    run: QueryRun,
    catalog: VisibleCatalog,
    leaves: Mapping[str, TableLeaf],
    residents: Residents,
    infer_view: InferView,
    *,
    pushdown: bool,
) -> None:
    """Register the tables and functions of a statement.

    Args:
        context: that plans it.
        bound: the statement.
        run: its execution.
        catalog: with which its names were resolved.
        leaves: of its references, by private name.
        residents: tables in place of leaves.
        infer_view: finds the columns of views that it lists.
        pushdown: whether conjuncts are pushed into leaves.
    """
    for name, leaf in leaves.items():
        run.columns[bound.sql, name] = leaf.schema
        if name in residents.tables:
            context.register_record_batches(name, residents.tables[name].partitions)
        else:
            _register_leaf(context, name, leaf, pushdown=pushdown)
    if bound.system_tables or bound.reads_lists:
        for name, system_leaf in make_system_leaves(context, run, catalog):
            _register_leaf(context, name, system_leaf, pushdown=pushdown)
    if bound.reads_lists:
        list_tables_and_views(context, run, catalog, infer_view if run.lists_views else None)
    if bound.catalog_tables or bound.catalog_functions:
        relations = _find_relations(run, catalog, infer_view)
        for name in bound.catalog_tables:
            leaf = SystemLeaf(run, CatalogLeafTable(LEAVES[name], relations), catalog.access)
            _register_leaf(context, quote(name), leaf, pushdown=pushdown)
        register_functions(context, bound.catalog_functions, relations)
    register_distances(context, DISTANCES if bound.reads_lists else bound.distances, run)
    listed = LISTED_FUNCTIONS if bound.reads_lists else frozenset()
    register_json(context, bound.json_functions | listed, run)


def _find_relations(run: QueryRun, catalog: VisibleCatalog, infer_view: InferView) -> Relations:
    """Return what the principal sees; it is gathered when rows are read."""
    again = catalog.reopen()
    infer = (lambda view: infer_view(view, run, again)) if run.lists_views else None
    return Relations(again, infer, list_information_tables, run.settings.schema)


def _register_leaf(context: SessionContext, name: str, leaf: pads.Dataset, *, pushdown: bool) -> None:
    """Register a leaf in a context.

    DataFusion's bindings push all conditions into a leaf that Arrow can express, but none below a LIMIT. To
    remove the rule that moves conditions would leave them above joins, whose inputs may have columns of the
    same name, which physical plans confuse.

    Args:
        context: of the statement.
        name: of the leaf in the statement.
        leaf: the dataset.
        pushdown: whether conjuncts are pushed into the leaf; otherwise they are applied just above it.
    """
    context.register_dataset(name, leaf)
    if pushdown:
        return
    rows = context.sql(f"SELECT * FROM {name} LIMIT {_EVERY_ROW}")  # noqa: S608 - a name of our own
    context.deregister_table(name)
    context.register_view(name, rows)
