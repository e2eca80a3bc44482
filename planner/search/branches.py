"""The branches of a search: a tree of exec nodes for vectors, one for texts, or both, fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from execnodes import ExecNode
from execnodes.search.request import Staleness, VectorRequest
from execnodes.search.source import SearchSource
from execnodes.text.query import TextQuery
from planner.masks import SnapshotMasks
from planner.row_filter import PredicateFilter
from planner.search.admitted import Admission
from planner.search.catch_up import CatchUp, CatchUpMode
from planner.search.coverage import Coverage, IndexKind, coverage, index_metric
from planner.search.hybrid import plan_hybrid
from planner.search.newer_rows import StaleRows, stale_rows, with_own_newest
from planner.search.row_conditions import Condition
from planner.search.search import Search
from planner.search.sources import search_sources
from planner.search.text import plan_text, text_indexes
from planner.search.vector import plan_vector
from planner.snapshot import TableSnapshot
from planner.table import Table
from planner.visibility import Visibility


@dataclass(frozen=True, eq=False, slots=True)
class Found:
    """What a search finds.

    Attributes:
        candidates: node that gives them, best first.
        sources: which their numbers mean.
    """

    candidates: ExecNode
    sources: tuple[SearchSource, ...]


@dataclass(frozen=True, eq=False)
class Branches:
    """Plans the searches of one table reference.

    Args:
        table: that is searched.
        snapshot: of it.
        visibility: where masks come from.
        regions: whose fresh rows may be found; those of others only supersede, and count in text statistics.
        admission: says which rows the principal may see, and which fulfil conditions.
        before: what rows must fulfil to be ranked; None admits all.
        residual: more of that.
        catch_up: when merged generations answer for rows that an index lacks.
        uses_indexes: whether indexes find rows; without them, all rows are compared.
    """

    table: Table
    snapshot: TableSnapshot
    visibility: Visibility
    regions: frozenset[str]
    admission: Admission
    before: PredicateFilter | None
    residual: Sequence[Condition]
    catch_up: CatchUpMode = CatchUpMode.AUTO
    uses_indexes: bool = True

    def plan(self, search: Search) -> Found:
        """Candidates of a search, at most k for each query.

        Raises:
            LanceGatewayError: a source can't be read, or there is no text index.
        """
        if search.vector is None:
            assert search.text is not None  # noqa: S101 (a search is for one of them)
            return self._text(search.text, search.k)
        if search.text is None or search.hybrid is None:
            return self._vector(search.vector, self.regions)
        wanted = search.hybrid.candidates
        # Both look into the same sources, so that they mean the same row by the same place.
        vector_index = self._vector_coverage(search.vector)
        text_index = coverage(self.snapshot.base, search.text.columns[0], IndexKind.TEXT)
        everywhere = frozenset(self.snapshot.regions)
        vector = self._vector(replace(search.vector, k=wanted), everywhere, (text_index,))
        text = self._text(search.text, wanted, (vector_index,))
        queries = len(search.vector.vectors)
        candidates, sources = plan_hybrid(
            vector.candidates, vector.sources, text.candidates, text.sources, search.hybrid, queries
        )
        return Found(candidates, sources)

    def _vector(
        self, request: VectorRequest, regions: frozenset[str], together_with: tuple[Coverage, ...] = ()
    ) -> Found:
        covered = self._vector_coverage(request)
        metric = request.metric or index_metric(self.snapshot.base, request.column)
        stale: StaleRows | None = None
        if (
            request.staleness is Staleness.EXACT
            or together_with
            or not (self._supersedes and self.uses_indexes)
        ):
            sources = self._sources(covered, regions, metric, together_with)
        else:
            # Without masks, which take the keys of the base table to make.
            sources = search_sources(
                self.snapshot, None, regions, covered.column, covered.kind, metric=metric
            )
            sources = with_own_newest(self.snapshot, sources)
            stale = stale_rows(self.snapshot, sources, self.table.cache, self.table.columns)
        sources = self.admission.visible(sources)
        admitted, before = self.admission.admitted(self._searched(sources), self.before, self.residual)
        found = plan_vector(admitted, replace(request, metric=metric), before, self.table.cache, stale)
        return Found(found, sources)

    def _text(self, query: TextQuery, k: int, together_with: tuple[Coverage, ...] = ()) -> Found:
        base = self.snapshot.base
        indexes = text_indexes(base, query, self.admission.shown_columns(base.schema))
        covered = coverage(base, query.columns[0], IndexKind.TEXT)
        everywhere = frozenset(self.snapshot.regions)
        sources = self.admission.visible(self._sources(covered, everywhere, None, together_with))
        admitted, before = self.admission.admitted(self._searched(sources), self.before, self.residual)
        table = self.table
        found = plan_text(sources, admitted, query, k, before, indexes, table.cache, table.columns)
        return Found(found, sources)

    def _vector_coverage(self, request: VectorRequest) -> Coverage:
        return coverage(self.snapshot.base, request.column, IndexKind.VECTOR, request.metric)

    def _sources(
        self,
        covered: Coverage,
        regions: frozenset[str],
        metric: str | None,
        together_with: tuple[Coverage, ...],
    ) -> tuple[SearchSource, ...]:
        return search_sources(
            self.snapshot,
            self._masks,
            regions,
            covered.column,
            covered.kind,
            metric=metric,
            catch_up=CatchUp(self.table, self.visibility, self.catch_up, self.admission.check),
            together_with=together_with,
            uses_indexes=self.uses_indexes,
        )

    def _searched(self, sources: Sequence[SearchSource]) -> tuple[SearchSource, ...]:
        """The sources that may have rows to be found."""
        return tuple(one for one in sources if one.region_id is None or one.region_id in self.regions)

    @cached_property
    def _masks(self) -> SnapshotMasks | None:
        """What is live; None where no row supersedes another."""
        return self.visibility.masks(self.snapshot) if self._supersedes else None

    @property
    def _supersedes(self) -> bool:
        """Whether rows may supersede others."""
        return bool(self.snapshot.base.primary_key) and self.snapshot.has_fresh_rows
