"""A search as a leaf of a DataFusion plan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from memwal.errors import UnsupportedError
from planner.base_table import BaseTable
from planner.leaf import TableLeaf
from planner.query import QueryRun, TableScan
from planner.search.call import SearchCall
from planner.search.row_conditions import Condition
from planner.search.scan import SearchScan
from planner.search.search import Search, read_search, result_schema
from planner.secured import SecuredTable
from planner.visible_catalog import VisibleCatalog


class SearchLeaf(TableLeaf):
    """One call of a search function: its rows in the order of their rank, in one partition.

    Args:
        run: the statement's execution.
        table: that is searched, with what may be seen of it.
        call: as it stands in the statement.
        search: what it asks for.
        base: version of the table that it was read against.
    """

    def __init__(
        self, run: QueryRun, table: SecuredTable, call: SearchCall, search: Search, base: BaseTable
    ) -> None:
        super().__init__(run, table, 1, base)
        self.residual: tuple[Condition, ...] = ()
        """Conditions of the statement that DataFusion does not hand over; see `planner.search.residual`."""
        self.known_reads: int | None = None
        """How often the statement reads these rows where its conditions are known; None where it has none."""
        self._reads = 0
        self._search = search
        self._schema = result_schema(call, self._schema)
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
        """What produces the rows.

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


def search_leaf(
    run: QueryRun, call: SearchCall, parameters: Sequence[pa.Scalar] | None, catalog: VisibleCatalog
) -> SearchLeaf:
    """The leaf that stands for a call.

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
    base = table.base()
    search = read_search(call, table.visible_schema(base), values, table.access.masks.keys())
    return SearchLeaf(run, table, call, search, base)
