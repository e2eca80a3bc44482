"""Plan searches: a tree of exec nodes for vectors, one for texts, or both, fused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from lance_gateway.execnodes import ExecNode, RowFilter, UnionExec
from lance_gateway.execnodes.search.candidates import (
    ConcurrentUnionExec,
    EmptyExec,
    LimitExec,
    SortExec,
    choose_helper_count,
)
from lance_gateway.execnodes.search.distances import METRICS
from lance_gateway.execnodes.search.filter_stale import FilterStaleExec
from lance_gateway.execnodes.search.knn import KnnExec
from lance_gateway.execnodes.search.knn_union import KnnUnionExec
from lance_gateway.execnodes.search.source import (
    DISTANCE,
    TEXT_CANDIDATES,
    VECTOR_CANDIDATES,
    IndexDescription,
    SearchSource,
    Staleness,
    VectorRequest,
)
from lance_gateway.execnodes.search.vector_blocks import VectorCache
from lance_gateway.execnodes.search.vector_search import IndexSearch
from lance_gateway.execnodes.text.fts import AdmittedRows, Corpus, FtsExec
from lance_gateway.execnodes.text.global_bm25 import GlobalBM25Exec
from lance_gateway.execnodes.text.joined_fts import JoinedFtsExec
from lance_gateway.execnodes.text.query.clauses import Clause, analyze
from lance_gateway.execnodes.text.query.query import TextQuery
from lance_gateway.memwal.errors import InvalidInputError, PreconditionError
from lance_gateway.planner.predicates.row_filter import PredicateFilter
from lance_gateway.planner.search.conditions.row_admission import Admission
from lance_gateway.planner.search.conditions.row_conditions import Condition
from lance_gateway.planner.search.search_request import Search, plan_hybrid
from lance_gateway.planner.search.sources.catch_up import CatchUp, CatchUpMode
from lance_gateway.planner.search.sources.index_coverage import (
    Coverage,
    IndexKind,
    choose_index_metric,
    find_coverage,
    find_text_index,
)
from lance_gateway.planner.search.sources.newer_rows import StaleRows, find_stale_rows, mask_own_newest
from lance_gateway.planner.search.sources.search_sources import divide, list_sources
from lance_gateway.planner.search.sources.source_texts import SourceTexts
from lance_gateway.planner.tables.sources.snapshot import TableSnapshot
from lance_gateway.planner.tables.state.table import Table
from lance_gateway.planner.tables.visibility.visibility import SnapshotMasks, Visibility

EFFORT = 0.65
"""Lance's own default is 0.5. On clusters that overlap, that finds 0.91 of the nearest ten, and this 0.96."""
HNSW_EF = 200
"""Candidates of a graph, at least: on vectors without any structure, fewer find less than 0.95."""
REFINE_AT_ONE_BIT = 100
"""Refine factor for codes of one bit a dimension; it falls with the square of the bits."""
MAX_REFINE = 100
LEAST_REFINE_OF_PQ = 10
"""A codebook fits the rows that it was made of, and later ones less, however many bits it has."""
LIGHT_BYTES = 16 << 20
"""So many vectors are compared in a few milliseconds: less is not worth a thread."""
UNKNOWN_BITS = 1.0
"""Of indexes whose details say nothing, such as those of old versions of Lance."""


def plan_vector(
    sources: Sequence[SearchSource],
    request: VectorRequest,
    row_filter: RowFilter | None,
    keep: VectorCache,
    stale: StaleRows | None = None,
) -> ExecNode:
    """Plan ``LimitExec(SortExec(FilterStaleExec(UnionExec(KnnExec...))))``, giving `VECTOR_CANDIDATES`.

    Args:
        sources: what is searched.
        request: what for.
        row_filter: what rows must fulfil to be ranked.
        keep: holds vectors and row ids.
        stale: finds superseded candidates; None if the sources' masks hide all of them.

    Raises:
        InvalidInputError: there is no such metric.
    """
    metric = choose_metric(sources, request)
    searches = tuple(_plan_source(source, request, metric, row_filter, keep) for source in sources)
    if not searches:
        return LimitExec(SortExec(EmptyExec(VECTOR_CANDIDATES), DISTANCE), request.k)
    groups, helpers = _group_searches(searches), choose_helper_count(sources)
    # Superseded rows leave before the limit: this order must not change (ADR 13).
    if stale is None:
        filtered = FilterStaleExec(KnnUnionExec(searches, groups, helpers), Staleness.EXACT, request.k)
    else:
        found = ConcurrentUnionExec(searches, groups, helpers)
        filtered = FilterStaleExec(found, request.staleness, request.k, stale.key, stale.newer)
    return LimitExec(SortExec(filtered, DISTANCE), request.k)


def choose_metric(sources: Sequence[SearchSource], request: VectorRequest) -> str:
    """Choose the metric: the requested one, else that of the first source with an index, else l2.

    Raises:
        InvalidInputError: there is no such metric, or none of its kind for the column's elements.
    """
    if request.metric is not None:
        if request.metric not in METRICS:
            msg = f"metric {request.metric!r} is unknown: the metrics are {', '.join(METRICS)}"
            raise InvalidInputError(msg)
        return request.metric
    of_indexes = (metric for source in sources if (metric := read_index_metric(source)) is not None)
    return next(of_indexes, "l2")


def read_index_metric(source: SearchSource) -> str | None:
    """Return the metric of a source's index; None if there is none."""
    if source.index is None:
        return None
    metric = source.index.details.get("metric_type")
    return metric.lower() if isinstance(metric, str) else None


def _plan_source(
    source: SearchSource, request: VectorRequest, metric: str, row_filter: RowFilter | None, keep: VectorCache
) -> KnnExec:
    index = None
    if request.use_index and source.index is not None and read_index_metric(source) == metric:
        ef = request.ef
        if ef is None and "HNSW" in source.index.type:
            ef = HNSW_EF
        refine = request.refine_factor or compute_refine_factor(source.index, request.vectors.shape[1])
        index = IndexSearch(source.index.name, source.index.type, EFFORT, request.nprobes, refine, ef)
    return KnnExec(source, request, metric, keep, row_filter, index)


def _group_searches(searches: Sequence[KnnExec]) -> tuple[tuple[int, ...], ...]:
    """Group searches that share a thread: those without an index, until they are worth a thread."""
    groups: list[tuple[int, ...]] = []
    light: tuple[int, ...] = ()
    nbytes = 0
    for number, search in enumerate(searches):
        if search.index is not None:
            groups.append((number,))
            continue
        light += (number,)
        nbytes += search.source.physical_rows * int(search.request.vectors.nbytes)
        if nbytes > LIGHT_BYTES:
            groups.append(light)
            light, nbytes = (), 0
    return (*groups, light) if light else tuple(groups)


def compute_refine_factor(index: IndexDescription, dimension: int) -> int | None:
    """Compute how many times k candidates need true distances, to find 0.95 of the nearest k.

    As measured on 50,000 and 200,000 clustered vectors of 8 to 128 dimensions, what decides is how many bits
    the codes have for a dimension, whether these are of product, scalar or rotational quantisation: one bit
    needs 50, two bits 13, four and more 4 or less. Rows that were appended and then indexed by
    `optimize_indices` have codes after an older codebook, and need twice as many.

    Returns:
        None for an index that has whole vectors, whose distances are true.
    """
    if index.type.endswith("_FLAT"):
        return None
    bits = compute_bits_per_dimension(index, dimension)
    least = LEAST_REFINE_OF_PQ if index.type.endswith("_PQ") else 2
    return min(max(math.ceil(REFINE_AT_ONE_BIT / bits**2), least), MAX_REFINE)


def compute_bits_per_dimension(index: IndexDescription, dimension: int) -> float:
    """Compute the bits of a vector's code per dimension in a quantised index."""
    compression = index.details.get("compression")
    if not isinstance(compression, Mapping):
        return UNKNOWN_BITS
    bits, parts = compression.get("num_bits", 8), compression.get("num_sub_vectors", dimension)
    if not isinstance(bits, int) or not isinstance(parts, int):
        return UNKNOWN_BITS
    return bits * parts / dimension


def analyze_query(query: TextQuery, texts: SourceTexts, table: str) -> Clause:
    """Analyze a text query with the tokenizers of the base table's indexes.

    Args:
        query: what is searched for.
        texts: have the indexes on its columns.
        table: name, for messages.

    Raises:
        PreconditionError: an index that can't answer the query's phrases.
    """
    clause = analyze(query, texts.tokenizers)
    for phrase in clause.phrases:
        index = texts.indexes[phrase.column]
        if not index.details.get("with_position"):
            msg = (
                f"the text index {index.name!r} on column {phrase.column!r} of table {table!r} doesn't know "
                "where words stand, which a phrase needs: rebuild it with with_position=True"
            )
            raise PreconditionError(msg)
    return clause


def plan_text(
    visible: Sequence[SearchSource],
    admitted: Sequence[SearchSource],
    query: TextQuery,
    clause: Clause,
    k: int,
    row_filter: RowFilter | None,
    texts: SourceTexts,
    *,
    keeps: bool = False,
) -> ExecNode:
    """Plan ``GlobalBM25Exec(UnionExec(FtsExec...))``: at most k `TEXT_CANDIDATES`, best first.

    Args:
        visible: sources of all regions; their live rows are what statistics are about.
        admitted: those in which rows are to be found, by the same numbers, their masks perhaps narrower.
        query: what is searched for.
        clause: the same in terms.
        k: rows wanted.
        row_filter: what rows must fulfil to be found.
        texts: opens those of sources.
        keeps: whether others will search the same sequence of visible sources.
    """
    if not admitted:
        return EmptyExec(TEXT_CANDIDATES)
    opened = texts.open(visible, keeps=keeps)
    corpus = Corpus(query, clause, opened.corpus, texts.quantized)
    shown = {one.number: one for one in visible}

    def build_search(source: SearchSource) -> FtsExec:
        text = texts.select(opened, shown[source.number])
        return FtsExec(text, corpus, k, AdmittedRows(source.live, row_filter))

    searches: list[FtsExec | JoinedFtsExec] = [
        build_search(one) for one in admitted if one.number not in opened.group_of
    ]
    for joined in opened.joined:
        small = [one for one in admitted if opened.group_of.get(one.number) is joined]
        admits_all = (
            row_filter is None
            and len(small) == len(joined.numbers)
            and all(one.live is shown[one.number].live for one in small)
        )
        if small:
            build = partial(_build_searches, build_search, small)
            searches.append(JoinedFtsExec(joined, corpus, k, admits_all, build))
    return GlobalBM25Exec(UnionExec(tuple(searches)), corpus, k, len(visible))


def _build_searches(
    build: Callable[[SearchSource], FtsExec], sources: Sequence[SearchSource]
) -> dict[int, FtsExec]:
    return {one.number: build(one) for one in sources}


@dataclass(frozen=True, eq=False, slots=True)
class SearchPlan:
    """Planned search.

    Attributes:
        candidates: node that gives them, best first.
        sources: which their numbers mean.
    """

    candidates: ExecNode
    sources: tuple[SearchSource, ...]


@dataclass(frozen=True, eq=False)
class SearchPlanner:
    """Plan the searches of one table reference.

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

    def plan(self, search: Search) -> SearchPlan:
        """Plan a search for at most k candidates per query.

        Raises:
            LanceGatewayError: a source can't be read, or there is no text index.
        """
        if search.vector is None:
            assert search.text is not None  # noqa: S101 - a search is for one of them
            return self._plan_text(search.text, search.k)
        if search.text is None or search.hybrid is None:
            return self._plan_vector(search.vector, self.regions)
        wanted = search.hybrid.candidates
        # Both look into the same sources, so that they mean the same row by the same place.
        vector_index = self._find_vector_coverage(search.vector)
        text_index = find_coverage(self.snapshot.base, search.text.columns[0], IndexKind.TEXT)
        everywhere = frozenset(self.snapshot.regions)
        vector = self._plan_vector(replace(search.vector, k=wanted), everywhere, (text_index,))
        text = self._plan_text(search.text, wanted, (vector_index,))
        queries = len(search.vector.vectors)
        candidates, sources = plan_hybrid(
            vector.candidates, vector.sources, text.candidates, text.sources, search.hybrid, queries
        )
        return SearchPlan(candidates, sources)

    def _plan_vector(
        self, request: VectorRequest, regions: frozenset[str], together_with: tuple[Coverage, ...] = ()
    ) -> SearchPlan:
        covered = self._find_vector_coverage(request)
        metric = request.metric or choose_index_metric(self.snapshot.base, request.column)
        stale: StaleRows | None = None
        if (
            request.staleness is Staleness.EXACT
            or together_with
            or not (self._supersedes and self.uses_indexes)
        ):
            sources = self._list_sources(covered, regions, metric, together_with)
        else:
            # Without masks, which take the keys of the base table to make.
            sources = list_sources(self.snapshot, None, regions, covered.column, covered.kind, metric=metric)
            sources = mask_own_newest(self.snapshot, sources)
            stale = find_stale_rows(self.snapshot, sources, self.table.cache, self.table.columns)
        sources = self.admission.restrict_to_visible(sources)
        admitted, before = self.admission.restrict_to_conditions(
            self._select_sources(sources), self.before, self.residual
        )
        found = plan_vector(admitted, replace(request, metric=metric), before, self.table.cache, stale)
        return SearchPlan(found, sources)

    def _plan_text(self, query: TextQuery, k: int, together_with: tuple[Coverage, ...] = ()) -> SearchPlan:
        base, table = self.snapshot.base, self.table
        shown = self.admission.list_visible_columns(base.schema)
        indexes = {column: find_text_index(base, column, shown) for column in query.columns}
        texts = SourceTexts(indexes, table.cache, table.columns, base.place)
        clause = analyze_query(query, texts, base.name)
        covered = find_coverage(base, next(iter(indexes)), IndexKind.TEXT)
        everywhere = frozenset(self.snapshot.regions)
        divided = self._list_sources(covered, everywhere, None, together_with)
        sources = self.admission.restrict_to_visible(divided)
        admitted, before = self.admission.restrict_to_conditions(
            self._select_sources(sources), self.before, self.residual
        )
        found = plan_text(sources, admitted, query, clause, k, before, texts, keeps=sources is divided)
        return SearchPlan(found, sources)

    def _find_vector_coverage(self, request: VectorRequest) -> Coverage:
        return find_coverage(self.snapshot.base, request.column, IndexKind.VECTOR, request.metric)

    def _list_sources(
        self,
        covered: Coverage,
        regions: frozenset[str],
        metric: str | None,
        together_with: tuple[Coverage, ...],
    ) -> tuple[SearchSource, ...]:
        return divide(
            self.table.cache,
            self.snapshot,
            lambda: self._masks,
            regions,
            covered,
            metric=metric,
            catch_up=CatchUp(self.table, self.visibility, self.catch_up, self.admission.check),
            together_with=together_with,
            uses_indexes=self.uses_indexes,
        )

    def _select_sources(self, sources: Sequence[SearchSource]) -> tuple[SearchSource, ...]:
        return tuple(
            source for source in sources if source.region_id is None or source.region_id in self.regions
        )

    @cached_property
    def _masks(self) -> SnapshotMasks | None:
        """Masks of the snapshot; None if no row can supersede another."""
        return self.visibility.compute_masks(self.snapshot) if self._supersedes else None

    @property
    def _supersedes(self) -> bool:
        return self.visibility.hides_rows(self.snapshot)
