"""Tables of the schema `system` as leaves of a DataFusion plan, and what information_schema lists."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from datafusion import DataFrame, SessionContext
from datafusion.catalog import Schema

from lance_gateway.execnodes.node import rows_without_columns
from lance_gateway.memwal.errors import LanceGatewayError
from lance_gateway.memwal.storage.table_names import CATALOG, MAIN_SCHEMA, TableName
from lance_gateway.planner.access.rights import Access
from lance_gateway.planner.access.visible_catalog import SYSTEM_SCHEMA, SystemTable, VisibleCatalog
from lance_gateway.planner.binding.bound_statement import BoundStatement
from lance_gateway.planner.bridge.plan_shape import find_direct_shape
from lance_gateway.planner.scans.query_run import QueryRun
from lance_gateway.planner.scans.table_leaf import DeclaredLeaf, Projection
from lance_gateway.planner.sql.text.tokens import quote

logger = logging.getLogger(__name__)

_VIEW: Final = "rows#view"
"""Rows of a view while it is registered."""


class SystemLeaf(pads.Dataset):
    """The leaf of all references of one statement to one system table; they read the same rows.

    Args:
        run: the execution of the statement.
        table: the system table.
        access: rights of the principal, which decide on the rows.
    """

    def __init__(self, run: QueryRun, table: SystemTable, access: Access) -> None:
        self._run = run
        self._table = table
        self._access = access
        self._columns: tuple[str, ...] = tuple(table.schema.names)
        self._lock = threading.Lock()
        self._rows: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the table."""
        return self._table.schema

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> Projection:  # noqa: A002, ANN401, ARG002
        """Return the projected schema; DataFusion calls this once per scan, before `get_fragments`."""
        self._columns = tuple(self.schema.names if columns is None else columns)
        return Projection(self.schema, self._columns)

    def get_fragments(self, filter: pc.Expression | None = None) -> list[SystemScan]:  # noqa: A002
        """Plan a scan, without reading rows."""
        # Conjuncts that fold to a constant arrive as a scalar.
        conjuncts = pc.scalar(filter) if isinstance(filter, pa.Scalar) else filter
        scan = SystemScan(self, self._columns, conjuncts)
        self._run.system_scans.append(scan.to_batches)
        return [scan]

    def rows(self) -> pa.Table:
        """Return the rows of this execution, which are read once.

        Raises:
            LanceGatewayError: they can't be read, or the execution was stopped.
        """
        return self._run.control.run_uninterrupted(self._read)

    def _read(self) -> pa.Table:
        with self._lock:
            if self._rows is None:
                try:
                    self._rows = self._table.read(self._access)
                except LanceGatewayError as error:
                    self._run.failure = self._run.failure or error
                    raise
            return self._rows


def plain_system_rows(
    bound: BoundStatement, frame: DataFrame, run: QueryRun
) -> Iterator[pa.RecordBatch] | None:
    """Read a system table without DataFusion; return None if the statement is more than its scan.

    All statements share the threads of DataFusion, and a query for what keeps them busy must not wait.

    Args:
        bound: the statement.
        frame: its plan.
        run: its execution.
    """
    if bound.references or not bound.system_tables:
        return None
    shape = find_direct_shape(frame.optimized_logical_plan())
    if shape is None or shape.counts or shape.schema_name != SYSTEM_SCHEMA:
        return None
    run.system_scans.clear()
    frame.execution_plan()
    (to_batches,) = run.system_scans
    return to_batches()


class SystemScan(Projection):
    """One scan of a system table, in the shape of a dataset fragment and of its scanner."""

    def __init__(self, leaf: SystemLeaf, columns: tuple[str, ...], filter: pc.Expression | None) -> None:  # noqa: A002
        super().__init__(leaf.schema, columns)
        self._leaf = leaf
        self._columns = columns
        self._filter = filter

    def scanner(self, *_: Any, **__: Any) -> SystemScan:  # noqa: ANN401
        """Return the scan itself, which has projection and filter since planning."""
        return self

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows."""
        rows = self._leaf.rows()
        if self._filter is not None:
            rows = rows.filter(self._filter)
        if self._columns:
            yield from rows.select(list(self._columns)).to_batches()
        else:
            yield rows_without_columns(rows.num_rows)


def make_system_leaves(
    context: SessionContext, run: QueryRun, catalog: VisibleCatalog
) -> Iterator[tuple[str, SystemLeaf]]:
    """Make the schema of the system tables, and yield the name and leaf of each of them."""
    context.catalog(CATALOG).register_schema(SYSTEM_SCHEMA, Schema.memory_schema())
    for name in catalog.system_tables():
        yield f"{SYSTEM_SCHEMA}.{quote(name)}", SystemLeaf(run, catalog.system_table(name), catalog.access)


def list_tables_and_views(
    context: SessionContext,
    run: QueryRun,
    catalog: VisibleCatalog,
    infer_schema: Callable[[TableName, QueryRun, VisibleCatalog], pa.Schema] | None,
) -> None:
    """Register all tables and views that can be read, for DataFusion's information_schema.

    Args:
        context: of the statement.
        run: its execution.
        catalog: as the principal sees it.
        infer_schema: returns the columns of a view; None leaves views out.
    """
    catalog = catalog.reopen()  # so that the statement does not depend on the tables that it lists
    for schema in catalog.schema_names():
        if schema != MAIN_SCHEMA:
            context.catalog(CATALOG).register_schema(schema, Schema.memory_schema())
    for name in catalog.table_names():
        try:
            context.register_dataset(name.sql, DeclaredLeaf(run, catalog.table(name), 1))
        except LanceGatewayError as error:
            logger.warning("table %r is not listed: %s", name, error)
    if infer_schema is None:
        return
    for name in catalog.view_names():
        try:
            columns = infer_schema(name, run, catalog)
        except LanceGatewayError as error:
            logger.warning("view %r is not listed: %s", name, error)
            continue
        frame = context.from_arrow(columns.empty_table(), name=_VIEW)
        context.register_view(name.sql, frame)
        context.deregister_table(_VIEW)
