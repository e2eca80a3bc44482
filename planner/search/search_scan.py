"""Searches of a running statement.

DataFusion plans a statement that is only a search once, and does not run it (see `read_direct_search`):

    SELECT id, title AS t, _score FROM lance_fts('docs', 'body', $1, k => 10) ORDER BY _score DESC LIMIT 5

A search gives its rows in the order of their rank, so sorting by it has been done already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from datafusion import DataFrame, expr
from datafusion.expr import Column, Projection, Sort, SubqueryAlias

from lance_gateway.execnodes import ExecNode, RowFilter, SecurityBarrierExec
from lance_gateway.execnodes.search.source import DISTANCE, HYBRID_SCORE, QUERY_INDEX, SCORE
from lance_gateway.execnodes.search.take_rows import TakeRowsExec
from lance_gateway.memwal.errors import UnsupportedError
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.access.table_policy import PolicedRows
from lance_gateway.planner.access.visible_catalog import VisibleCatalog
from lance_gateway.planner.bridge.plan_reading import Expression, output_name
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.scan_plan import Conditions
from lance_gateway.planner.scans.settings import Shortcut
from lance_gateway.planner.scans.table_leaf import TableLeaf
from lance_gateway.planner.search.conditions.row_admission import (
    Admission,
    combine_with_policy,
    list_indexed_columns,
)
from lance_gateway.planner.search.conditions.row_conditions import (
    Condition,
    SearchConditions,
    divide_conditions,
)
from lance_gateway.planner.search.plan_search import SearchPlan, SearchPlanner
from lance_gateway.planner.search.search_call import SearchCall, SearchFunction
from lance_gateway.planner.search.search_request import (
    Search,
    build_result_schema,
    list_added_fields,
    read_search,
)
from lance_gateway.planner.search.sources.catch_up import CatchUpMode
from lance_gateway.planner.tables.sources.base_table import BaseTable


class SearchScan(TableScan):
    """Scan of one search function of a running statement, over the snapshot of its table.

    Args:
        run: the statement's execution.
        table: that is searched, with what may be seen of it.
        base: version of the table that the statement was planned with; what is searched may be newer.
        search: what for.
        output: all columns of the result: the table's, then those that the search adds.
        columns: to produce.
        expression: conditions on the result.
    """

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        base: BaseTable,
        search: Search,
        output: pa.Schema,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
    ) -> None:
        stored = tuple(name for name in columns if name in base.schema.names)
        super().__init__(run, table.table, base, table.policy(base), stored, expression, None, 1)
        self.search = search
        self.columns = columns
        self._stored = stored
        self._output = output
        self.residual: tuple[Condition, ...] = ()
        """Further conditions, which apply before ranking and which only DataFusion can evaluate."""

    @property
    def output_schema(self) -> pa.Schema:
        """The table's columns, then those that the search adds."""
        return self._output

    @cached_property
    def search_conditions(self) -> SearchConditions:
        """Conditions that apply before ranking, and those that apply after."""
        added = frozenset(self._output.names) - frozenset(self.schema.names)
        return divide_conditions(self.expression, self._output, added, prefilter=self.search.prefilter)

    @cached_property
    def conditions(self) -> Conditions:
        """Conditions on stored rows, for pruning regions."""
        return Conditions(combine_with_policy(self.search_conditions.before, self.policy))

    @property
    def search_kind(self) -> str:
        """Kind of the search; see `TableRead.search`."""
        return self.search.kind

    @property
    def needed_regions(self) -> tuple[str, ...]:
        """Ids of the needed regions; text scores depend on the rows of all regions."""
        if self.search.text is not None:
            return self.pruning.regions.region_ids
        return super().needed_regions

    def _plan(self) -> ExecNode:
        run = self.run
        search_planner = SearchPlanner(
            self.table,
            run.take_snapshot(self.table),
            run.visibility,
            self.kept_regions,
            self._build_admission(run.take_snapshot(self.table).base),
            self.search_conditions.before,
            self.residual,
            self.search.catch_up if self._uses_indexes else CatchUpMode.NEVER,
            uses_indexes=self._uses_indexes,
        )
        plan = search_planner.plan(self.search)
        after, policy = self.search_conditions.after, self.policy
        wanted = self._list_needed_columns(after)
        if policy is None or wanted.isdisjoint(policy.masks):
            return self._take_rows(plan, self.columns, after)
        # Only rows that the policy shows were ranked: what is left to be done is to mask their values.
        masking = replace(policy, condition=None, condition_columns=frozenset())
        needed = masking.columns_for(wanted)
        stored = [name for name in (*self.schema.names, *self._output.names) if name in needed]
        rows = PolicedRows(self.table.name, masking, wanted)
        taken = self._take_rows(plan, dict.fromkeys(stored), None)
        return SecurityBarrierExec(taken, rows, self._build_schema(self.columns), after)

    def _take_rows(self, plan: SearchPlan, columns: Iterable[str], after: RowFilter | None) -> ExecNode:
        return TakeRowsExec(
            plan.candidates, plan.sources, self._build_schema(columns), after, self.table.cache
        )

    def _build_admission(self, base: BaseTable) -> Admission:
        run = self.run
        return Admission(
            self.table.name,
            self.policy,
            self.table.cache,
            run.visibility.executor,
            run.control.check,
            list_indexed_columns(base) if self._uses_indexes else frozenset(),
        )

    @property
    def _uses_indexes(self) -> bool:
        return Shortcut.SEARCH_INDEXES in self.run.settings.shortcuts

    def _list_needed_columns(self, after: RowFilter | None) -> frozenset[str]:
        """Return the columns that are produced, or filtered after ranking."""
        return frozenset(self.columns) | (frozenset() if after is None else after.columns)

    def _build_schema(self, columns: Iterable[str]) -> pa.Schema:
        fields = {field.name: field for field in (*self.schema, *self._output)}
        return pa.schema([fields[name] for name in columns])


class SearchLeaf(TableLeaf):
    """Call of a search function: rows in the order of their rank, in one partition.

    Args:
        run: the statement's execution.
        table: that is searched, with what may be seen of it.
        call: as it stands in the statement.
        search: its arguments.
        base: version of the table that it was read against.
    """

    def __init__(
        self, run: QueryRun, table: SecuredTable, call: SearchCall, search: Search, base: BaseTable
    ) -> None:
        super().__init__(run, table, 1, base)
        self.residual: tuple[Condition, ...] = ()
        """Conditions of the statement that DataFusion does not hand over; see `residual`."""
        self.known_reads: int | None = None
        """How often the statement reads these rows where its conditions are known; None where it has none."""
        self._reads = 0
        self._search = search
        self._schema = build_result_schema(call, self._schema)
        self._columns = tuple(self._schema.names)

    @property
    def prefilters(self) -> bool:
        """Whether conditions of the statement apply before ranking."""
        return self._search is not None and self._search.prefilter

    @property
    def added_columns(self) -> frozenset[str]:
        """Columns that the search adds to those of its table."""
        return frozenset(self._schema.names) - frozenset(self._base.schema.names)

    def scan(self, columns: tuple[str, ...], conjuncts: pc.Expression | None) -> SearchScan:
        """Add the scan that produces the rows.

        Args:
            columns: to produce.
            conjuncts: conditions on the rows; None for all of them.
        """
        scan = SearchScan(self._run, self._table, self._base, self._search, self._schema, columns, conjuncts)
        scan.residual = self.residual
        self._run.scans.append(scan)
        return scan

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        self._reads += 1
        if self.known_reads is not None and self._reads > self.known_reads:
            msg = (
                "a search is read in a subquery within an aggregate or a window, and conditions can't apply "
                "there before ranking: write prefilter => false to apply them to the rows that were found"
            )
            self._run.failure = UnsupportedError(msg)
            raise self._run.failure
        return self.scan(self._columns, conjuncts)


def build_search_leaf(
    run: QueryRun, call: SearchCall, parameters: Sequence[pa.Scalar] | None, catalog: VisibleCatalog
) -> SearchLeaf:
    """Build the leaf for a call.

    Args:
        run: the statement's execution.
        call: as it stands in the statement.
        parameters: values of the statement's; None where the leaf is planned for its types alone.
        catalog: with which the statement's names were resolved.

    Raises:
        LanceGatewayError: an argument that can't be, with its name and value.
    """
    table = catalog.table(call.table)
    values = None if parameters is None else [value.as_py() for value in parameters]
    base = table.base
    search = read_search(call, table.visible_schema, values, table.access.masks.keys())
    return SearchLeaf(run, table, call, search, base)


_RANK = {
    SearchFunction.VECTOR: (DISTANCE, True),
    SearchFunction.TEXT: (SCORE, False),
    SearchFunction.HYBRID: (HYBRID_SCORE, False),
}
"""Column by which rows are ranked, and whether it ascends."""


@dataclass(frozen=True, slots=True)
class DirectSearch:
    """Statement that only projects and limits its search.

    Attributes:
        columns: of the search, in the order of the result.
        names: of the result's columns.
        limit: rows of the result; None for all.
        conditions: on the rows of the search; None for all of them.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    limit: int | None
    conditions: pc.Expression | None

    def schema(self, searched: pa.Schema) -> pa.Schema | None:
        """Return the result's schema, given that of the search; None if a column is gone."""
        if not set(self.columns) <= set(searched.names):
            return None
        pairs = zip(self.columns, self.names, strict=True)
        return pa.schema([searched.field(column).with_name(name) for column, name in pairs])

    def batches(self, leaf: SearchLeaf) -> Iterator[pa.RecordBatch]:
        """Yield the statement's result."""
        left = self.limit
        scan = leaf.scan(tuple(dict.fromkeys(self.columns)), self.conditions)
        for batch in scan.batches(0):
            rows = batch if left is None else batch.slice(0, left)
            if left is not None:
                left -= rows.num_rows
            yield rows.select(self.columns).rename_columns(self.names)
            if left == 0:
                return


def read_direct_search(
    frame: DataFrame, call: SearchCall, run: QueryRun, shown: tuple[str, ...]
) -> DirectSearch | None:
    """Read a planned statement that only projects and limits its search; None if it does more.

    Its plan is walked from the result down to the leaf: the columns of the result, and the one that it is
    sorted by, are followed through every change of name.

    Args:
        frame: the planned statement.
        call: its search.
        run: its execution.
        shown: names of its columns, as clients see them.
    """
    plan = frame.optimized_logical_plan()
    tracked = list(frame.schema().names)
    rank: str | None = None
    limit: int | None = None
    while not isinstance(node := plan.to_variant(), expr.TableScan):
        match node:
            case Sort() if rank is None:
                rank = _find_rank_column(node, call)
                if rank is None:
                    return None
                tracked.append(rank)
                limit = node.get_fetch_val()
            case Projection():
                inner = _map_output_names(node)
                if not inner.keys() >= set(tracked):
                    return None
                tracked = [inner[name] for name in tracked]
            case SubqueryAlias():
                pass
            case _:
                return None
        (plan,) = plan.inputs()
    (scan,) = run.scans
    if rank is not None and tracked.pop() != _RANK[call.function][0]:
        return None
    if not isinstance(scan, SearchScan) or scan.residual:
        return None
    return DirectSearch(tuple(tracked), shown, limit, scan.expression)


def _find_rank_column(node: Sort, call: SearchCall) -> str | None:
    """Return the column that a statement is sorted by, if its order can be that of the rank."""
    (first, *others) = node.sort_exprs()
    column = _as_column(first.expr())
    several = QUERY_INDEX in [field.name for field in list_added_fields(call)]
    if others or several or column is None or first.ascending() != _RANK[call.function][1]:
        return None
    return str(column.name())


def _map_output_names(node: Projection) -> dict[str, str]:
    """Return output name -> input name of the columns that a projection passes on unchanged."""
    found = {}
    for projection in node.projections():
        column = _as_column(
            projection.to_variant().expr() if projection.variant_name() == "Alias" else projection
        )
        if column is not None:
            found[output_name(projection)] = column.name()
    return found


def _as_column(expression: Expression) -> Column | None:
    column: Column | None = expression.to_variant() if expression.variant_name() == "Column" else None
    return column
