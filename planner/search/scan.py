"""A search of a running statement."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from execnodes import ExecNode
from planner.base_table import BaseTable
from planner.conditions import Conditions
from planner.query import QueryRun, TableScan
from planner.search.conjuncts import SearchConditions, divided_conditions
from planner.search.search import Search
from planner.search.sources import IndexKind, search_sources
from planner.search.tree import plan_search
from planner.secured import SecuredTable


class SearchScan(TableScan):
    """One search function of a running statement, over the same snapshot as all scans of its table.

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

    @property
    def output_schema(self) -> pa.Schema:
        """The table's columns, then those that the search adds."""
        return self._output

    @cached_property
    def search_conditions(self) -> SearchConditions:
        """What applies before ranking, and what after."""
        added = frozenset(self._output.names) - frozenset(self.schema.names)
        return divided_conditions(self.expression, self._output, added, prefilter=self.search.prefilter)

    @cached_property
    def conditions(self) -> Conditions:
        """What stored rows must fulfil to be ranked."""
        return Conditions(self.search_conditions.before)

    def _plan(self) -> ExecNode:
        snapshot = self.run.snapshot(self.table)
        base = snapshot.base
        masks = None
        if base.primary_key and snapshot.has_fresh_rows:
            masks = self.run.visibility.masks(snapshot)
        sources = search_sources(
            snapshot, masks, self.kept_regions, self.search.vector.column, IndexKind.VECTOR
        )
        return plan_search(
            self.search,
            sources,
            self.conditions.below,
            self.search_conditions.after,
            pa.schema([self._output.field(name) for name in self.columns]),
            self.table,
        )
