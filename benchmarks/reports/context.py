"""The settings and tables that all families share; tables are built on first use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.reports.report import Finding
from benchmarks.reports.settings import BenchSettings
from benchmarks.tables.search_table import SearchShape, SearchTable, ensure_search_table
from benchmarks.tables.table import BenchTable, TableShape, ensure_table
from lance_gateway.planner.engine import QueryEngine
from lance_gateway.planner.tables.state.catalog import Catalog


@dataclass(frozen=True, slots=True)
class BenchContext:
    """The settings of a run, and its tables."""

    settings: BenchSettings

    def open_main_table(self) -> BenchTable:
        """Return the table that most families share."""
        settings = self.settings
        shape = TableShape(settings.rows, settings.fresh_rows, settings.generations, settings.regions)
        return self.open_table(shape)

    def open_table(self, shape: TableShape) -> BenchTable:
        """Return the table of a shape."""
        return ensure_table(self.settings.data_dir, shape)

    def open_search_table(self) -> SearchTable:
        """Return the table that most searches share: four generations, a few rows in the log."""
        settings = self.settings
        rows, fresh = settings.search_rows, settings.search_fresh_rows
        return self.open_search_shape(SearchShape(rows, 64, fresh, 4, 4, settings.search_tail_rows))

    def open_large_search_table(self) -> SearchTable:
        """Return a search table with a larger base, longer vectors and no texts."""
        settings = self.settings
        rows, fresh = settings.large_search_rows, settings.search_fresh_rows
        return self.open_search_shape(
            SearchShape(rows, 128, fresh, 4, 4, settings.search_tail_rows, text_index=False)
        )

    def open_search_shape(self, shape: SearchShape) -> SearchTable:
        """Return the search table of a shape."""
        return ensure_search_table(self.settings.data_dir, shape)


Family = Callable[[BenchContext], Iterable[Finding]]


def open_engine(table: BenchTable | SearchTable) -> QueryEngine:
    """Return a fresh engine, with empty caches, on the table's root."""
    return QueryEngine(Catalog.open(str(table.root)))
