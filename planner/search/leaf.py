"""A search as a leaf of a DataFusion plan."""

from __future__ import annotations

import pyarrow.compute as pc

from planner.leaf import TableLeaf
from planner.query import QueryRun, TableScan
from planner.search.call import SearchCall
from planner.search.scan import SearchScan
from planner.search.search import Search, result_schema
from planner.secured import SecuredTable


class SearchLeaf(TableLeaf):
    """One call of a search function: its rows in the order of their rank, in one partition.

    Args:
        run: the statement's execution.
        table: that is searched, with what may be seen of it.
        call: as it stands in the statement.
        search: what it asks for; None where only types are wanted.
    """

    def __init__(self, run: QueryRun, table: SecuredTable, call: SearchCall, search: Search | None) -> None:
        super().__init__(run, table, 1)
        self._search = search
        self._schema = result_schema(call, self._schema)
        self._columns = tuple(self._schema.names)

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        assert self._search is not None  # noqa: S101 (what is planned for its types alone never runs)
        scan = SearchScan(
            self._run, self._table, self._base, self._search, self._schema, self._columns, conjuncts
        )
        self._run.scans.append(scan)
        return scan
