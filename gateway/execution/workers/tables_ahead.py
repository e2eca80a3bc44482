"""Opens tables before statements ask for them, when a process starts.

The first statement would wait for all of it: manifests, generations, logs, the files of kept columns, and the
first plan over them. Nothing depends on it: what can't be opened is left to the statements that need it.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lance_gateway.memwal.errors import is_panic
from lance_gateway.planner.bridge.run_control import RunControl
from lance_gateway.planner.plans.query_planner import QueryPlanner
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.settings import DEFAULT_SETTINGS
from lance_gateway.planner.sql.text.tokens import quote
from lance_gateway.planner.tables.shared.recent_reads import RecentReads, RecentTable
from lance_gateway.planner.tables.sources.column_chunks import estimate_bytes
from lance_gateway.planner.tables.sources.decoded_columns import DecodedColumns
from lance_gateway.planner.tables.state.catalog import Catalog
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.visibility.visibility import Visibility

MAX_TABLES = 16
FIRST_STATEMENT = "SELECT value % 7 AS k, sum(value) AS n FROM generate_series(1, 9) GROUP BY 1 ORDER BY k"
"""Takes a process that plans statements through the first use of most of its code."""
_MAX_SECONDS = 10.0
"""No table is begun later."""
_MAX_BYTES = 256 << 20
"""Of columns that are mapped."""
_MOST_MISSING = 1 << 18
"""A column of which more values are in no file is not read by the first statement over a table."""


class _KeptScan(TableScan):
    """Scan of what is kept of a table: nothing is decoded."""

    _kept: DecodedColumns | None = None

    @property
    def column_cache(self) -> DecodedColumns:
        if self._kept is None:
            self._kept = self.table.columns.find_kept()
        return self._kept


@dataclass(frozen=True)
class TablesAhead:
    """Opens the tables of a catalog that were read last, and all of a catalog that has few.

    Attributes:
        catalog: of the process.
        reads: tells what was read.
        closed: set when the process stops.
        planner: runs a first statement over the columns that are kept; None where the process runs none.
    """

    catalog: Catalog
    reads: RecentReads
    closed: threading.Event
    planner: QueryPlanner | None

    def open(self) -> Iterator[tuple[str, str | None]]:
        """Open the tables, the ones that were read last first.

        Yields:
            Names of tables, each with the reason if it can't be opened.

        Raises:
            LanceGatewayError: the tables can't be listed.
        """
        until, left = time.monotonic() + _MAX_SECONDS, _MAX_BYTES
        for number, recent in enumerate(self._choose()):
            if self.closed.is_set() or time.monotonic() > until:
                return
            try:
                table = self.catalog.table(recent.name)
                base = table.base()
                table.take_snapshot(table.assignments(base, "strong").region_ids)
                if self.planner is not None and recent.columns is not None:
                    left -= self._map(self.planner, table, recent.columns, left, is_first=not number)
            except BaseException as error:
                if not (isinstance(error, Exception) or is_panic(error)):
                    raise
                yield recent.name, str(error) or type(error).__name__
            else:
                yield recent.name, None

    def _choose(self) -> list[RecentTable]:
        """Return the tables to open."""
        names = self.catalog.table_names()
        recent = [one for one in self.reads.list_tables() if one.name in names]
        known = {one.name for one in recent}
        others = [RecentTable(name) for name in names if name not in known]
        return [*recent, *(others if len(names) <= MAX_TABLES else ())][:MAX_TABLES]

    def _map(
        self, planner: QueryPlanner, table: Table, columns: tuple[str, ...], max_bytes: int, *, is_first: bool
    ) -> int:
        """Map what lies in files of columns of a table; return the bytes of their values."""
        base, used, complete = table.base(), 0, []
        visibility = Visibility(self.catalog.cache, self.catalog.executor, self.catalog.shared)
        for column in columns:
            at = base.schema.get_field_index(column)
            if at < 0 or self.closed.is_set():
                continue
            if used + estimate_bytes(base.schema.field(at).type, base.physical_rows) > max_bytes:
                break
            run = QueryRun(DEFAULT_SETTINGS, visibility, RunControl())
            scan = _KeptScan(run, table, base, None, (column,), None, None, 1)
            run.scans.append(scan)
            used += sum(batch.nbytes for batch in scan.batches(0))
            if scan.column_cache.missing_rows <= _MOST_MISSING:
                complete.append(column)
        table.columns.find_size(base.source, complete)  # which notes that they were read before
        if complete and is_first:
            values = ", ".join(_use_values(base.schema.field(column)) for column in complete)
            planner.execute(f"SELECT {values} FROM {table.name.sql}").read_all()  # noqa: S608 - quoted
        return used


def _use_values(field: pa.Field) -> str:
    """Return an aggregate of a column, where its type is a plain one of its values: a count needs none."""
    kind = field.type
    has_order = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind)
    return f"{'min' if has_order else 'count'}({quote(field.name)})"
