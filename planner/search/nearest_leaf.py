"""Table reference of which a statement may need only the nearest rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import DataFrame

from lance_gateway.execnodes import ExecNode, LanceSource
from lance_gateway.execnodes.search.candidates import FallbackExec
from lance_gateway.execnodes.search.source import VectorRequest
from lance_gateway.execnodes.storage.data_files import Columns, Place
from lance_gateway.planner.access.secured_table import SecuredTable
from lance_gateway.planner.bridge.plan_reading import find_chains, subquery_plans
from lance_gateway.planner.scans.query_run import QueryRun, TableScan
from lance_gateway.planner.scans.table_leaf import TableLeaf
from lance_gateway.planner.search.conditions.residual import find_residual_conditions, refuse_subqueries
from lance_gateway.planner.search.nearest import Nearest, find_nearest
from lance_gateway.planner.search.search_request import Search
from lance_gateway.planner.search.search_scan import SearchLeaf, SearchScan
from lance_gateway.planner.tables.sources.base_table import BaseTable

_ENTRY_BYTES = 256


class NearestLeaf(TableLeaf):
    """Table reference of a statement that calls distance functions.

    Attributes:
        nearest: which rows the statement needs, where it reads the table but once; None for all. Known once
            its plan is.
        reads: how often the table is read. Known once DataFusion has made the physical plan, which it does
            before it reads anything; a common table expression is read wherever it is named.
    """

    nearest: Nearest | None = None
    reads: int = 0

    def _scan(self, conjuncts: pc.Expression | None) -> TableScan:
        self.reads += 1
        request = None if self.nearest is None else self._build_request(self.nearest)
        if self.nearest is None or request is None:
            return super()._scan(conjuncts)
        scan = _NearestScan(
            self._run,
            self._table,
            self._base,
            self.nearest,
            request,
            self._schema,
            self._columns,
            conjuncts,
            self._partitions,
            lambda: self.reads == 1,
        )
        self._run.scans.append(scan)
        return scan

    def _build_request(self, nearest: Nearest) -> VectorRequest | None:
        """Build the search for the nearest rows; None if the column or the vector does not allow one."""
        ranking = nearest.ranking
        kind = self._schema.field(ranking.column).type
        if ranking.column in self._table.access.masks or not pa.types.is_fixed_size_list(kind):
            return None
        if kind.list_size != len(ranking.vector):
            return None  # computing the distances tells the dimensions
        wanted = np.array([ranking.vector])
        with np.errstate(over="ignore"):
            if pa.types.is_floating(kind.value_type) and ranking.metric != "hamming":
                vectors = wanted.astype(np.float32)
            elif kind.value_type == pa.uint8() and ranking.metric == "hamming":
                vectors = wanted.astype(np.uint8)
            else:
                return None
        if not np.isfinite(vectors).all():
            return None
        return VectorRequest(ranking.column, vectors, nearest.rows, ranking.metric)


@dataclass(frozen=True, slots=True)
class _LacksVectorsName:
    """Cache key of whether a row of a dataset has no vector.

    Attributes:
        place: the dataset.
        version: of it; None for a generation, which has one.
        columns: of the table, which tell what its names mean.
        column: name in the table.
    """

    place: Place
    version: int | None
    columns: Columns
    column: str


class _NearestScan(SearchScan):
    """Scan of the nearest rows of a table, or of all rows if there are too few."""

    def __init__(
        self,
        run: QueryRun,
        table: SecuredTable,
        base: BaseTable,
        nearest: Nearest,
        request: VectorRequest,
        output: pa.Schema,
        columns: tuple[str, ...],
        expression: pc.Expression | None,
        partitions: int,
        is_read_once: Callable[[], bool],
    ) -> None:
        search = Search(nearest.rows, prefilter=True, vector=request)
        super().__init__(run, table, base, search, output, columns, expression)
        self.residual = nearest.conditions
        self.partitions = partitions
        self._nearest = nearest
        self._is_read_once = is_read_once
        self._every = TableScan(run, table.table, base, self.policy, columns, expression, None, partitions)

    @property
    def needed_regions(self) -> tuple[str, ...]:
        """See `TableScan.needed_regions`."""
        return tuple(dict.fromkeys((*super().needed_regions, *self._every.needed_regions)))

    def move_to(self, base: BaseTable) -> None:
        """See `TableScan.move_to`."""
        super().move_to(base)
        self._every.move_to(base)

    def _plan(self) -> ExecNode:
        every = self._every.tree
        if not self._is_read_once():
            return every
        if self._nearest.nulls_first and self._has_nulls(self._nearest.ranking.column):
            return every
        return FallbackExec(super()._plan(), every, self._nearest.rows, self.partitions)

    def _has_nulls(self, column: str) -> bool:
        if not self.schema.field(column).nullable:
            return False
        snapshot = self.run.take_snapshot(self.table)
        base, regions = snapshot.base, snapshot.regions.values()
        if any(region.tail is not None and region.tail.source.rows[column].null_count for region in regions):
            return True
        generations = (generation for region in regions for generation in region.generations)
        return self._lacks_vectors(base, base.version, base.source, column) or any(
            self._lacks_vectors(base, None, generation.source(base), column) for generation in generations
        )

    def _lacks_vectors(self, base: BaseTable, version: int | None, source: LanceSource, column: str) -> bool:
        key = _LacksVectorsName(source.place, version, base.columns, column)
        return self.table.cache.compute(key, lambda: _lacks_vectors(source, column), lambda _: _ENTRY_BYTES)


def _lacks_vectors(source: LanceSource, column: str) -> bool:
    name = source.stored_names.get(column)
    if name is None:
        return True
    quoted = "`" + name.replace("`", "``") + "`"
    found: int = source.dataset.count_rows(f"{quoted} IS NULL")  # type: ignore[attr-defined]
    return found > 0


def configure_leaves(
    frame: DataFrame, leaves: Mapping[str, TableLeaf], handing: Callable[[], DataFrame] | None = None
) -> None:
    """Set on leaves the nearest rows that a plan needs of them, and the conditions of searches.

    Args:
        frame: the planned statement; nothing is read yet.
        leaves: its leaves by the names of their tables in the plan.
        handing: where leaves are not handed their conjuncts, plans the statement as if they were.

    Raises:
        UnsupportedError: a condition that a search can't meet before ranking.
    """
    searches = {
        name: leaf for name, leaf in leaves.items() if isinstance(leaf, SearchLeaf) and leaf.prefilters
    }
    ranked = {name: leaf for name, leaf in leaves.items() if isinstance(leaf, NearestLeaf)}
    if not (ranked or searches):
        return
    plan = frame.optimized_logical_plan()
    if ranked:
        for name, nearest in find_nearest(plan).items():
            if name in ranked:
                ranked[name].nearest = nearest
    if not searches:
        return
    refuse_subqueries(frame.logical_plan(), searches.keys())
    subqueries = list(subquery_plans(plan))
    reads = Counter(chain.table for one in (plan, *subqueries) for chain in find_chains(one))
    if handing is not None:
        plan = handing().optimized_logical_plan()
        subqueries = list(subquery_plans(plan))
    added = {name: leaf.added_columns for name, leaf in searches.items()}
    conditions = find_residual_conditions(plan, subqueries, added, handed=handing is None)
    for name, leaf in searches.items():
        leaf.known_reads = reads[name]
        leaf.residual = conditions.get(name, ())
